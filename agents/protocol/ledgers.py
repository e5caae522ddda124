# SPDX-License-Identifier: Apache-2.0
"""The ledgers of all jobs, as their events tell them.

Rule: a job without a final round is in no event. So a look costs no more however many jobs there
are: anyone creates one for gas alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from agents.runtime.event_cursor import EventCursor


class Ledgers:
    """Every ledger that has an entry. `cursor`: of the RoundRecorded events."""

    def __init__(self, cursor: EventCursor) -> None:
        self._cursor = cursor
        self._heads: dict[int, list[bytes]] = {}
        self._blocks: dict[int, list[int]] = {}  # in which they were recorded

    def heads(self) -> Mapping[int, Sequence[bytes]]:
        """By job the ledger's head at each entry, the first one first. Raises RpcDown."""
        new = self._cursor.poll()
        if new.rewound_to is not None:
            self._rewind(new.rewound_to)
        for event in new.events:
            job_id = event.args["job_id"]
            self._heads.setdefault(job_id, []).append(event.args["head"])
            self._blocks.setdefault(job_id, []).append(event.block)
        return self._heads

    def _rewind(self, block: int) -> None:
        """Forget what was recorded in this block and those after it."""
        for job_id, blocks in list(self._blocks.items()):
            left = bisect_left(blocks, block)
            del blocks[left:], self._heads[job_id][left:]
            if not left:
                del self._blocks[job_id], self._heads[job_id]
