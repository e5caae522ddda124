# SPDX-License-Identifier: Apache-2.0
"""Whenever a task's inputs begin to be served, two honest executors give the same answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.numbers import LaneState, TaskStatus
from agents.tasks.giving_up import GivingUp, had_by_another

RUN_S = 64
SECOND = 1.0
NOTHING, FOUND = b"unavailable", b"result"


def task(status: TaskStatus = TaskStatus.RUNNING, run_s: int = RUN_S) -> Any:
    """Drawn at 0."""
    return SimpleNamespace(status=status, run_s=run_s, time=run_s)


def answer(served_s: int, first_s: int, every_s: int, other: dict[int, bytes]) -> dict[int, bytes]:
    """What an executor answers, by when it commits to it.

    It looks for the inputs at `first_s` and each `every_s` seconds, and computes for no time.
    `other`: the same of another one, whose commitment is seen a second later.
    """
    giving_up, one, failed, found = GivingUp(), task(), 0, False
    for now in range(RUN_S):
        if not found and now >= first_s and (now - first_s) % every_s == 0:
            found = now >= served_s
            failed += not found
        giving_up.note("job", one, failed, now)
        if giving_up.in_vain("job", one, now, SECOND):
            return {now: NOTHING}
        seen = any(at < now for at in other)
        if found and (seen or not giving_up.found_late("job")):
            return {now: FOUND}
    return {}


@pytest.mark.parametrize("every_s", [1, 5, 12])
def test_two_agree_whenever_the_inputs_come(every_s: int) -> None:
    """Whoever has them in time commits, and the other, who finds them later, sees that."""
    said = set()
    for served_s in range(RUN_S):
        for behind in range(every_s):
            nobody: dict[int, bytes] = {}
            both = [nobody, nobody]
            for _ in range(2):
                both = [
                    answer(served_s, first_s, every_s, other)
                    for first_s, other in zip((0, behind), reversed(both), strict=True)
                ]
            first, second = (list(one.values()) for one in both)
            assert first == second != [], (served_s, behind)
            said.add(first[0])
    assert said == {NOTHING, FOUND}


def test_who_has_not_looked_before_is_in_time() -> None:
    giving_up, one = GivingUp(), task()
    giving_up.note("job", one, 0, RUN_S - 5)
    assert not giving_up.found_late("job")
    assert not giving_up.in_vain("job", one, RUN_S - 1, SECOND)


def test_a_task_that_runs_for_nobody_yet_is_never_late() -> None:
    giving_up, one = GivingUp(), task(TaskStatus.DRAWING)
    giving_up.note("job", one, 9, RUN_S - 5)
    assert not giving_up.found_late("job")
    assert not giving_up.in_vain("job", one, RUN_S - 1, SECOND)


def test_slow_blocks_leave_time_for_two_of_them() -> None:
    giving_up, one = GivingUp(), task()
    giving_up.note("job", one, 1, 0)
    assert not giving_up.in_vain("job", one, RUN_S - 10, SECOND)
    assert giving_up.in_vain("job", one, RUN_S - 9, SECOND)
    assert not giving_up.in_vain("job", one, RUN_S - 25, 12.0)
    assert giving_up.in_vain("job", one, RUN_S - 24, 12.0)


def test_what_is_forgotten_begins_anew() -> None:
    giving_up, one = GivingUp(), task()
    giving_up.note("job", one, 1, RUN_S - 5)
    assert giving_up.found_late("job")
    giving_up.keep(set())
    assert not giving_up.found_late("job")


@pytest.mark.parametrize(
    ("state", "shown", "had"),
    [
        (LaneState.RUNNING, b"", False),
        (LaneState.COMMITTED, b"a commitment", True),
        (LaneState.REVEALED, FOUND, True),
        (LaneState.REVEALED, NOTHING, False),
        (LaneState.ABORTED, b"a commitment", False),
    ],
)
def test_who_shows_that_there_were_inputs(state: LaneState, shown: bytes, had: bool) -> None:
    lanes: Any = SimpleNamespace(
        nodes=(7, 8), states=(LaneState.COMMITTED, state), answers=(b"its own", shown)
    )
    assert had_by_another(lanes, 7, NOTHING) == had
