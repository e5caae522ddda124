# SPDX-License-Identifier: Apache-2.0
"""Inputs that nobody can get: honest nodes must not be slashed for what a creator withheld, and a
node must not gain by saying so."""

from __future__ import annotations

from eth_utils import keccak

from tests.contracts.tasks.test_settings import create
from tests.stage.contracts.events import event
from tests.stage.contracts.system import Codes, System, events_of
from tests.stage.contracts.tasks import (
    CLOSED,
    FEE,
    RENT,
    TaskStage,
    make_tasks,
)

UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")


def test_two_who_agree_end_the_task__the_treasury_has_the_rent(stage: TaskStage) -> None:
    task_id = stage.started()
    stage.commit_all(task_id, {0: UNAVAILABLE, 1: UNAVAILABLE})
    stage.reveal(task_id, 0, UNAVAILABLE)
    with stage.moves() as changes:
        stage.reveal(task_id, 1, UNAVAILABLE)
        assert events_of(stage.tasks)[-3:][0] == event(
            "TaskUnavailable", task_id=task_id, refund=FEE - RENT, rent=RENT
        )
    assert changes == {
        ("tasks", "creator"): FEE - RENT,
        ("tasks", "treasury"): RENT,
        ("open", "tasks"): -FEE,
    }
    assert stage.status(task_id) == CLOSED
    assert stage.tasks.result_of(task_id) == UNAVAILABLE
    assert [stage.open_lanes(player) for player in stage.runners(task_id)] == [0, 0]


def test_the_least_fee_is_rent_and_nothing_comes_back(stage: TaskStage) -> None:
    task_id = stage.create(fee=RENT)
    with stage.moves() as changes:
        stage.play(UNAVAILABLE, UNAVAILABLE, task_id=task_id)
    assert changes == {("tasks", "treasury"): RENT, ("open", "tasks"): -RENT}


def test_without_a_price_per_second_there_is_no_rent(codes: Codes, system: System) -> None:
    system.tasks = create(codes, system, fee_per_s=0)
    stage = make_tasks(system)
    with stage.moves() as changes:
        stage.play(UNAVAILABLE, UNAVAILABLE)
    assert changes == {("tasks", "creator"): FEE, ("wallet", "creator"): -FEE}
