# SPDX-License-Identifier: Apache-2.0
"""Who must be slashed for what, and paid how much, follows from a task's lanes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.protocol.numbers import LaneState, TaskStatus, Violation
from agents.tasks.contract import Task, Tasks
from scripts._demo.task_report import _cell
from scripts._report.task_history import TaskHistory, TaskStory
from scripts._report.task_verdict import check_final, check_results, credits_of, offences

AGREED, OPENED, REVEALED, ABORTED = (
    LaneState.AGREED,
    LaneState.OPENED,
    LaneState.REVEALED,
    LaneState.ABORTED,
)
RIGHT, FAKE = b"\1" * 32, b"\2" * 32
FEE = 11
PAYOUTS = {1: "one", 2: "two", 3: "three"}


class Reader:
    """Tags as the chain's: another value for every task and result."""

    def tag(self, task_id: int, result: bytes) -> bytes:
        return bytes([task_id]) + result[1:]


READER = cast(Tasks, Reader())
TAG, FAKE_TAG = READER.tag(1, RIGHT), READER.tag(1, FAKE)


def a_task(*lanes: tuple[LaneState, bytes], status: TaskStatus = TaskStatus.CLOSED) -> Task:
    """A task of nodes 1, 2, 3, ..., by lane: state and answer."""
    return Task(
        task_id=1,
        status=status,
        creator="creator",
        class_id=0,
        spec=bytes(32),
        fee=FEE,
        run_s=60,
        time=100,
        seed_block=1,
        draw_until=0,
        nodes=tuple(range(1, len(lanes) + 1)),
        states=tuple(state for state, _ in lanes),
        answers=tuple(answer for _, answer in lanes),
        wanted=0,
    )


def a_story(**changes: Any) -> TaskStory:
    return TaskStory(1, "evaluate", "creator", FEE, 0, **changes)


TWO = a_task((AGREED, TAG), (OPENED, RIGHT), status=TaskStatus.AGREED)
ODD = a_task((AGREED, TAG), (REVEALED, FAKE_TAG), (OPENED, RIGHT))
FRAMED = a_task((REVEALED, TAG), (AGREED, FAKE_TAG), (OPENED, FAKE))


def test_two_agree__the_odd_unit_goes_to_the_one_who_showed_the_result() -> None:
    story = a_story(result=RIGHT)
    assert offences(TWO, story, READER) == {}
    assert credits_of(TWO, story, PAYOUTS) == {"one": 5, "two": 6}


def test_third_decides__the_odd_one_is_slashed_and_unpaid() -> None:
    story = a_story(result=RIGHT, contested=True)
    assert offences(ODD, story, READER) == {(2, Violation.REDUNDANCY_MISMATCH): 1}
    assert credits_of(ODD, story, PAYOUTS) == {"one": 5, "three": 6}


def test_silent_one__aborted_whatever_came_of_the_task() -> None:
    task = a_task((ABORTED, bytes(32)), (AGREED, TAG), (OPENED, RIGHT))
    assert offences(task, a_story(result=RIGHT), READER) == {(1, Violation.ABORT): 1}


def test_framed__verifiers_turn_it_round() -> None:
    story = a_story(result=FAKE, contested=True, appellants=["one"], verdict=RIGHT, overturned=True)
    assert offences(FRAMED, story, READER) == {
        (2, Violation.COLLUSION): 1,
        (3, Violation.COLLUSION): 1,
    }
    assert credits_of(FRAMED, story, PAYOUTS) == {"creator": FEE}


def test_appeal_without_verdict__nobody_is_slashed_and_the_two_are_paid() -> None:
    story = a_story(result=FAKE, contested=True, appellants=["one"])
    assert offences(FRAMED, story, READER) == {}
    assert credits_of(FRAMED, story, PAYOUTS) == {"two": 5, "three": 6}


def test_overturned_pair__was_paid_at_once_and_pays_back_out_of_its_stake() -> None:
    pair = a_task((AGREED, FAKE_TAG), (OPENED, FAKE))
    story = a_story(result=FAKE, appellants=["verifier"], verdict=RIGHT, overturned=True)
    assert offences(pair, story, READER).total() == 2
    assert credits_of(pair, story, PAYOUTS) == {"one": 5, "two": 6}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"undecided": True}, {"creator": FEE}),
        ({"unavailable": True}, {"creator": FEE - 6, "treasury": 6}),
    ],
)
def test_no_result__the_fee_goes_back(changes: dict[str, Any], wanted: dict[str, int]) -> None:
    task = replace(ODD, run_s=3)
    assert credits_of(task, a_story(**changes), PAYOUTS, "treasury", 2) == wanted


def a_history(story: TaskStory, now: int = 101) -> TaskHistory:
    return cast(TaskHistory, SimpleNamespace(tasks={1: story}, now=now))


def test_check_results__a_fake_may_stand_only_between_two_cheats_nobody_appealed() -> None:
    pair = a_task((AGREED, FAKE_TAG), (OPENED, FAKE), status=TaskStatus.AGREED)
    right = {1: RIGHT}
    alone = check_results([pair], a_history(a_story(result=FAKE)), right, [1, 2])
    assert [check.holds for check in alone] == [False, True]  # no result is right; one is bought
    mixed = check_results([pair], a_history(a_story(result=FAKE)), right, [2])
    assert "NOT those of tasks 1" in mixed[0].sentence
    judged = a_story(result=FAKE, verdict=RIGHT)
    assert check_results([pair], a_history(judged), right, [1, 2])[0].holds
    false = a_story(result=RIGHT, verdict=FAKE)
    assert not check_results([pair], a_history(false), right, [1, 2])[0].holds


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"undecided": True}, "no two agreed in tasks 1: the fees went back"),
        ({"unavailable": True}, "two agreed that the inputs of tasks 1 can't be had: the fees"),
    ],
)
def test_a_task_without_a_result__says_why(changes: dict[str, Any], words: str) -> None:
    (_, said) = check_results([ODD], a_history(a_story(**changes)), {}, [])
    assert said.holds and said.sentence.startswith(words)
    assert ("treasury" in said.sentence) == ("unavailable" in changes)
    reached = replace(a_story(**changes), drawn=[1])
    assert _cell(reached, 1).words.partition("drawn; ")[2][:10] == words[:10]


def test_check_final__names_what_is_not() -> None:
    assert check_final([TWO], a_history(a_story(), now=101)).holds
    assert "tasks 1" in check_final([TWO], a_history(a_story(), now=100)).sentence
    assert not check_final([], a_history(a_story())).holds
