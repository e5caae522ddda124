# SPDX-License-Identifier: Apache-2.0
"""The logs of some contracts in the newest blocks, as the node gave them.

One request for each new range of blocks serves all who ask for events of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

RawLog = dict[str, Any]

_MOST = 10_000  # logs; at more than that the older half is dropped


class LogBook:
    """Holds every log of the contracts from block `start` on, in chain order."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._blocks: list[int] = []  # of every log
        self._logs: dict[tuple[str, str], list[tuple[int, RawLog]]] = defaultdict(list)

    def add(self, logs: Sequence[RawLog]) -> None:
        """The logs of the blocks that follow those held."""
        for entry in logs:
            block = int(entry["blockNumber"], 16)
            self._blocks.append(block)
            for topic in entry["topics"][:1]:
                self._logs[_kind(entry["address"], topic)].append((block, entry))
        if len(self._blocks) > _MOST:
            self.start = self._blocks[-_MOST // 2] + 1
            self._blocks = [block for block in self._blocks if block >= self.start]
            for kind, held in self._logs.items():
                self._logs[kind] = [pair for pair in held if pair[0] >= self.start]

    def find(
        self, address: str, topics: Sequence[str | None], first: int, last: int
    ) -> list[RawLog]:
        """The logs that `eth_getLogs` would find with this filter, in blocks that are held. The
        first topic, which says what event it is, is given."""
        held = self._logs.get(_kind(address, str(topics[0])), [])
        return [
            entry
            for block, entry in held
            if first <= block <= last and _fits(topics, entry["topics"])
        ]


def _kind(address: str, topic: str) -> tuple[str, str]:
    return address.lower(), topic.lower()


def _fits(wanted: Sequence[str | None], topics: Sequence[str]) -> bool:
    if len(wanted) > len(topics):
        return False
    pairs = zip(wanted, topics, strict=False)
    return all(want is None or want.lower() == topic.lower() for want, topic in pairs)
