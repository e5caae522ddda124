# SPDX-License-Identifier: Apache-2.0
"""Marks of invalid work, as they stood when a round opened."""

from __future__ import annotations

import pytest

from agents.protocol.marks import CHANGES, marks_at, nodes_found, nodes_of
from agents.runtime.contracts import Event

JOB, FOUND, CLEARED = 7, *CHANGES


def change(name: str, round_id: int, node: int, block: int, index: int, job: int = JOB) -> Event:
    args = {"job_id": job, "round_id": round_id, "node_id": node}
    return Event(name, args, "", block, b"", b"", index)


def opened(block: int, index: int = 5) -> Event:
    return change("RoundOpened", 9, 0, block, index)


def test_a_mark_counts_from_its_event_until_it_is_cleared() -> None:
    changes = [
        change(FOUND, 1, 3, 10, 0),
        change(FOUND, 1, 4, 11, 0),
        change(FOUND, 2, 3, 20, 0),
        change(CLEARED, 1, 3, 30, 0),
    ]
    assert marks_at(changes, JOB, opened(9)) == set()
    assert marks_at(changes, JOB, opened(10)) == {(1, 3)}
    assert marks_at(changes, JOB, opened(29)) == {(1, 3), (1, 4), (2, 3)}
    assert marks_at(changes, JOB, opened(30)) == {(1, 4), (2, 3)}
    assert marks_at(changes, JOB, opened(99)) == {(1, 4), (2, 3)}


@pytest.mark.parametrize(("index", "marked"), [(4, False), (6, True)])
def test_within_a_block_the_order_of_events_decides(index: int, marked: bool) -> None:
    """A clearing in front of the opening counts, one behind it does not."""
    changes = [change(FOUND, 1, 3, 10, 0), change(CLEARED, 1, 3, 30, index)]
    assert bool(marks_at(changes, JOB, opened(30))) == marked
    late = [change(FOUND, 1, 3, 30, index)]
    assert bool(marks_at(late, JOB, opened(30))) != marked


def test_events_of_other_kinds_come_in_any_order_and_other_jobs_are_left_out() -> None:
    """A cursor reads one kind of event after the other."""
    changes = [
        change(CLEARED, 1, 3, 30, 0),
        change(CLEARED, 1, 3, 12, 0, job=8),
        change(FOUND, 1, 3, 10, 0),
        change(FOUND, 1, 6, 10, 1, job=8),
    ]
    assert marks_at(changes, JOB, opened(20)) == {(1, 3)}
    assert marks_at(changes, JOB, opened(40)) == set()
    assert marks_at(changes, 8, opened(40)) == {(1, 6)}


def test_the_nodes_of_a_round_that_are_marked_and_that_ever_were() -> None:
    changes = [
        change(FOUND, 1, 3, 10, 0),
        change(FOUND, 1, 4, 10, 1),
        change(FOUND, 2, 5, 20, 0),
        change(FOUND, 1, 6, 20, 1, job=8),
        change(CLEARED, 1, 3, 30, 0),
    ]
    marks = marks_at(changes, JOB, opened(40))
    assert (nodes_of(marks, 1), nodes_of(marks, 2), nodes_of(marks, 3)) == ({4}, {5}, set())
    assert nodes_found(changes, JOB, 1) == {3, 4}
