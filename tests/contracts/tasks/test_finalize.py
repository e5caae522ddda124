# SPDX-License-Identifier: Apache-2.0
"""finalize: a decision by a third executor that nobody appealed: the two are paid, the one is
slashed, and nobody earns by its slash."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.system import STAKE, refuses
from tests.stage.contracts.tasks import APPEAL_S, NO_COMMIT, RIGHT, WRONG, TaskStage, slashed

SLASH = slashed(2_000)


@pytest.mark.parametrize("loser", [0, 1])
def test_finalize__pays_two_and_slashes_one(stage: TaskStage, tasks: Any, loser: int) -> None:
    answers = [RIGHT, RIGHT, RIGHT]
    answers[loser] = WRONG
    task_id = stage.play(*answers)
    decided = now()
    runners = stage.runners(task_id)
    winner, odd = runners[1 - loser], runners[loser]
    mine(1, APPEAL_S + 1)
    moved, events = stage.effects(tasks, lambda: tasks.finalize(task_id, sender=stage.stranger))
    assert moved == {
        ("open", "tasks"): -task.FEE,
        ("tasks", winner.name): task.HALF,
        ("tasks", runners[2].name): task.REST,
        ("stake", odd.name): -SLASH,
        ("bounty", "treasury"): SLASH,
    }
    assert events == [
        event("TaskClosed", task_id=task_id),
        event("BondCredited", account=runners[2].payout, amount=task.REST),
        event("BondCredited", account=winner.payout, amount=task.HALF),
        event(
            "ExecutorSlashed",
            task_id=task_id,
            node_id=odd.node_id,
            violation=task.REDUNDANCY_MISMATCH,
            amount=SLASH,
        ),
    ]
    state = stage.state(task_id)
    assert (state.status, state.time) == (task.CLOSED, 0)
    assert sorted(state.states) == [task.LANE_REVEALED, task.LANE_AGREED, task.LANE_OPENED]
    assert tasks.result_of(task_id) == RIGHT
    assert [stage.open_lanes(p) for p in stage.nodes] == [0] * 5
    assert stage.registry.offences(odd.node_id, task.REDUNDANCY_MISMATCH) == 1
    assert stage.registry.node(odd.node_id).suspended_until > decided


def test_finalize__who_aborted_is_not_slashed_again(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, NO_COMMIT, WRONG, RIGHT)
    silent, odd = stage.runners(task_id)[1:3]
    with stage.moves() as moved:
        stage.finalize(task_id)
    assert moved["stake", odd.name] == -SLASH
    assert ("stake", silent.name) not in moved


def test_finalize__in_the_appeal_window__reverts(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.play(RIGHT, WRONG, RIGHT)
    mine(1, APPEAL_S)
    with refuses("tasks: appeal window open"):
        tasks.finalize(task_id)
    mine(1, 1)
    tasks.finalize(task_id)
    with refuses("tasks: not decided"):
        tasks.finalize(task_id)


def test_finalize__stake_added_after_the_decision__is_not_at_risk(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, WRONG, RIGHT)
    odd = stage.runners(task_id)[1]
    mine(1, 1)
    stage.system.add_stake(odd, STAKE)
    with stage.moves() as moved:
        stage.finalize(task_id)
    assert moved["stake", odd.name] == -SLASH


def test_finalize__after_years__still_pays(stage: TaskStage) -> None:
    """Nobody has to hurry to be paid, and a creator who is gone changes nothing."""
    task_id = stage.play(RIGHT, WRONG, RIGHT)
    assert stage.status(task_id) == task.DECIDED
    odd = stage.runners(task_id)[1]
    stage.registry.begin_exit(odd.node_id, sender=odd.owner)
    mine(10_000_000, 4 * 365 * 86_400)
    stage.registry.withdraw(odd.node_id, sender=odd.owner)
    with stage.moves() as moved:
        stage.finalize(task_id)
    assert ("stake", odd.name) not in moved
    assert moved["open", "tasks"] == -task.FEE
