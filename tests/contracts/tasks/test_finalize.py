# SPDX-License-Identifier: Apache-2.0
"""finalize: a decision by a third executor that nobody appealed: the two are paid, the one is
slashed, and nobody earns by its slash."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.system import STAKE, events_of, refuses
from tests.stage.contracts.tasks import (
    APPEAL_S,
    CLOSED,
    DECIDED,
    FEE,
    HALF,
    LANE_AGREED,
    LANE_OPENED,
    LANE_REVEALED,
    NO_COMMIT,
    OTHER,
    REDUNDANCY_MISMATCH,
    REST,
    RIGHT,
    WRONG,
    TaskWorld,
    slashed,
)

SLASH = slashed(2_000)


@pytest.mark.parametrize("loser", [0, 1])
def test_finalize__pays_two_and_slashes_one(world: TaskWorld, tasks: Any, loser: int) -> None:
    answers = [RIGHT, RIGHT, RIGHT]
    answers[loser] = WRONG
    task_id = world.play(*answers)
    decided = now()
    runners = world.runners(task_id)
    winner, odd = runners[1 - loser], runners[loser]
    mine(1, APPEAL_S + 1)
    with world.moves() as moved:
        tasks.finalize(task_id, sender=world.stranger)
        events = events_of(tasks)
    assert moved == {
        ("open", "tasks"): -FEE,
        ("tasks", winner.name): HALF,
        ("tasks", runners[2].name): REST,
        ("stake", odd.name): -SLASH,
        ("bounty", "treasury"): SLASH,
    }
    assert events == [
        ("TaskClosed", {"task_id": task_id}),
        ("BondCredited", {"account": runners[2].payout, "amount": REST}),
        ("BondCredited", {"account": winner.payout, "amount": HALF}),
        (
            "ExecutorSlashed",
            {
                "task_id": task_id,
                "node_id": odd.node_id,
                "violation": REDUNDANCY_MISMATCH,
                "amount": SLASH,
            },
        ),
    ]
    state = world.state(task_id)
    assert (state.status, state.time) == (CLOSED, 0)
    assert sorted(state.states) == [LANE_REVEALED, LANE_AGREED, LANE_OPENED]
    assert tasks.result_of(task_id) == RIGHT
    assert [world.open_lanes(p) for p in world.nodes] == [0] * 5
    assert world.registry.offences(odd.node_id, REDUNDANCY_MISMATCH) == 1
    assert world.registry.node(odd.node_id).suspended_until > decided


def test_finalize__who_aborted_is_not_slashed_again(world: TaskWorld) -> None:
    task_id = world.play(RIGHT, NO_COMMIT, WRONG, RIGHT)
    silent, odd = world.runners(task_id)[1:3]
    with world.moves() as moved:
        world.finalize(task_id)
    assert moved["stake", odd.name] == -SLASH
    assert ("stake", silent.name) not in moved


def test_finalize__in_the_appeal_window__reverts(world: TaskWorld, tasks: Any) -> None:
    task_id = world.play(RIGHT, WRONG, RIGHT)
    mine(1, APPEAL_S)
    with refuses("tasks: appeal window open"):
        tasks.finalize(task_id)
    mine(1, 1)
    tasks.finalize(task_id)
    with refuses("tasks: not decided"):
        tasks.finalize(task_id)


def test_finalize__in_another_status__reverts(world: TaskWorld, tasks: Any) -> None:
    drawing, agreed = world.create(), world.play(RIGHT, RIGHT)
    undecided = world.play(RIGHT, WRONG, OTHER)
    mine(1, 86_400)
    for task_id in (0, drawing, agreed, undecided, 99):
        with refuses("tasks: not decided"):
            tasks.finalize(task_id)


def test_finalize__stake_added_after_the_decision__is_not_at_risk(
    world: TaskWorld,
) -> None:
    task_id = world.play(RIGHT, WRONG, RIGHT)
    odd = world.runners(task_id)[1]
    mine(1, 1)
    world.system.person(f"{odd.name} owner", STAKE)
    world.registry.add_stake(odd.node_id, STAKE, sender=odd.owner)
    with world.moves() as moved:
        world.finalize(task_id)
    assert moved["stake", odd.name] == -SLASH


def test_finalize__after_years__still_pays(world: TaskWorld) -> None:
    """Nobody has to hurry to be paid, and a creator who is gone changes nothing."""
    task_id = world.play(RIGHT, WRONG, RIGHT)
    assert world.status(task_id) == DECIDED
    odd = world.runners(task_id)[1]
    world.registry.begin_exit(odd.node_id, sender=odd.owner)
    mine(10_000_000, 4 * 365 * 86_400)
    world.registry.withdraw(odd.node_id, sender=odd.owner)
    with world.moves() as moved:
        world.finalize(task_id)
    assert ("stake", odd.name) not in moved
    assert moved["open", "tasks"] == -FEE
