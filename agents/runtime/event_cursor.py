# SPDX-License-Identifier: Apache-2.0
"""Reading events without missing or doubling any, across restarts of the node and reorgs.

Rule: each poll continues after the last block read, after checking that this block is still in
the chain. If it is not, the cursor goes back to the last block that is, and says so: what came
from later blocks is void.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract, Event

_CHECKPOINTS = 256


@dataclass(frozen=True)
class Batch:
    """New events, in chain order. If `rewound_to` is set, forget events of blocks >= it first."""

    events: list[Event]
    rewound_to: int | None


class EventCursor:
    """Reads chosen events of one contract from block `start` on.

    `names` are event names; `where` filters on indexed fields shared by all of them.
    """

    def __init__(
        self,
        chain: ChainClient,
        contract: Contract,
        names: Sequence[str],
        start: int,
        where: dict[str, Any] | None = None,
    ) -> None:
        self._chain = chain
        self._contract = contract
        self._names = list(names)
        self._start = start
        self._where = where
        self._marks: list[tuple[int, bytes]] = []

    def poll(self) -> Batch:
        """Return what happened since the last poll. Raises RpcDown with the cursor unmoved."""
        while True:
            marks, rewound_to = self._still_valid()
            first = marks[-1][0] + 1 if marks else self._start
            head = self._chain.head()
            found: list[Event] = []
            if head.number >= first:
                for name in self._names:
                    found += self._chain.events(
                        self._contract, name, first, head.number, self._where
                    )
            # A reorg while reading would mix two branches: read again.
            if self._chain.block_hash(head.number) == head.hash:
                break
        if head.number >= first:
            marks.append((head.number, head.hash))
        self._marks = marks[-_CHECKPOINTS:]
        return Batch(sorted(found, key=lambda e: (e.block, e.log_index)), rewound_to)

    def _still_valid(self) -> tuple[list[tuple[int, bytes]], int | None]:
        marks = list(self._marks)
        while marks and self._chain.block_hash(marks[-1][0]) != marks[-1][1]:
            marks.pop()
        if len(marks) == len(self._marks):
            return marks, None
        return marks, marks[-1][0] + 1 if marks else self._start


class EventLog:
    """All events of a cursor so far, in chain order, without those that a reorg took back."""

    def __init__(self, cursor: EventCursor) -> None:
        self._cursor = cursor
        self._events: list[Event] = []

    def read(self) -> list[Event]:
        """Every event up to the head. Raises RpcDown with nothing lost: the next call reads on."""
        new = self._cursor.poll()
        if new.rewound_to is not None:
            self._events = [e for e in self._events if e.block < new.rewound_to]
        self._events += new.events
        return list(self._events)
