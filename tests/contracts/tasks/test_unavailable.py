# SPDX-License-Identifier: Apache-2.0
"""Inputs that nobody can get: honest nodes must not be slashed for what a creator withheld, and a
node must not gain by saying so."""

from __future__ import annotations

from eth_utils import keccak

from tests.stage.contracts.events import event
from tests.stage.contracts.system import events_of, refuses
from tests.stage.contracts.tasks import CLOSED, DECIDED, FEE, HALF, REST, RIGHT, TaskStage, slashed

UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")


def test_two_who_agree_end_the_task_and_its_fee_goes_back(stage: TaskStage) -> None:
    task_id = stage.started()
    stage.commit_all(task_id, {0: UNAVAILABLE, 1: UNAVAILABLE})
    stage.reveal(task_id, 0, UNAVAILABLE)
    with stage.moves() as changes:
        stage.reveal(task_id, 1, UNAVAILABLE)
        assert events_of(stage.tasks)[-2:][0] == event(
            "TaskUnavailable", task_id=task_id, refund=FEE
        )
    assert changes == {("tasks", "creator"): FEE, ("open", "tasks"): -FEE}
    assert stage.status(task_id) == CLOSED
    assert stage.tasks.result_of(task_id) == UNAVAILABLE
    assert [stage.open_lanes(player) for player in stage.runners(task_id)] == [0, 0]


def test_it_is_final(stage: TaskStage) -> None:
    """Else a creator would publish its inputs afterwards and appeal."""
    task_id = stage.play(UNAVAILABLE, UNAVAILABLE)
    with refuses("tasks: nothing to appeal"):
        stage.appeal(task_id)
    with refuses("tasks: not decided"):
        stage.tasks.finalize(task_id)
    with refuses("tasks: not running"):
        stage.tasks.advance(task_id)


def test_two_of_three_say_so_and_the_one_with_a_result_loses_nothing(stage: TaskStage) -> None:
    with stage.moves() as changes:
        task_id = stage.play(RIGHT, UNAVAILABLE, UNAVAILABLE)
    assert changes == {("tasks", "creator"): FEE, ("wallet", "creator"): -FEE}
    assert stage.status(task_id) == CLOSED


def test_alone_it_is_a_result_like_another(stage: TaskStage) -> None:
    """Or it would be a way out for whoever sees that it can't win."""
    task_id = stage.play(RIGHT, UNAVAILABLE, RIGHT)
    assert stage.status(task_id) == DECIDED
    first, liar, third = stage.runners(task_id)
    with stage.moves() as changes:
        stage.finalize(task_id)
    assert changes[("stake", liar.name)] == -slashed(2_000)
    assert changes[("tasks", first.name)] == HALF
    assert changes[("tasks", third.name)] == REST
