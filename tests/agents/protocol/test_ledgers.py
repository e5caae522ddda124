# SPDX-License-Identifier: Apache-2.0
"""The ledgers of all jobs, folded from their events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agents.protocol.ledgers import Ledgers
from agents.runtime.event_cursor import Batch


class Cursor:
    """Gives the batches of a test, one at each poll."""

    def __init__(self, *batches: Batch) -> None:
        self._batches = list(batches)

    def poll(self) -> Batch:
        return self._batches.pop(0) if self._batches else Batch([], None)


def recorded(job: int, head: bytes, block: int) -> Any:
    return SimpleNamespace(args={"job_id": job, "head": head}, block=block)


def ledgers(*batches: Batch) -> Ledgers:
    cursor: Any = Cursor(*batches)
    return Ledgers(cursor)


def test_each_job_that_has_a_final_round_is_there_with_all_its_heads() -> None:
    first = Batch([recorded(7, b"a", 10), recorded(3, b"b", 11)], None)
    found = ledgers(first, Batch([recorded(7, b"c", 12)], None))
    assert found.heads() == {7: [b"a"], 3: [b"b"]}
    assert found.heads() == {7: [b"a", b"c"], 3: [b"b"]}
    assert found.heads() == {7: [b"a", b"c"], 3: [b"b"]}


def test_what_a_reorg_takes_back_is_forgotten() -> None:
    first = [recorded(7, b"a", 10), recorded(3, b"b", 11), recorded(7, b"c", 12)]
    found = ledgers(Batch(first, None), Batch([recorded(7, b"d", 11)], 11))
    found.heads()
    assert found.heads() == {7: [b"a", b"d"]}
