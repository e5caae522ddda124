# SPDX-License-Identifier: Apache-2.0
"""Inputs that nobody can get: honest nodes must not be slashed for what a creator withheld, and a
node must not gain by saying so."""

from __future__ import annotations

from eth_utils import keccak

from tests.stage.contracts.system import events_of, refuses
from tests.stage.contracts.tasks import (
    CLOSED,
    DECIDED,
    FEE,
    HALF,
    REST,
    RIGHT,
    WRONG,
    TaskWorld,
    slashed,
)

UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")


def test_two_who_agree_end_the_task_and_its_fee_goes_back(world: TaskWorld) -> None:
    task_id = world.started()
    world.commit_all(task_id, {0: UNAVAILABLE, 1: UNAVAILABLE})
    world.reveal(task_id, 0, UNAVAILABLE)
    with world.moves() as changes:
        world.reveal(task_id, 1, UNAVAILABLE)
        assert events_of(world.tasks)[-2:][0] == (
            "TaskUnavailable",
            {"task_id": task_id, "refund": FEE},
        )
    assert changes == {("tasks", "creator"): FEE, ("open", "tasks"): -FEE}
    assert world.status(task_id) == CLOSED
    assert world.tasks.result_of(task_id) == UNAVAILABLE
    assert [world.open_lanes(player) for player in world.runners(task_id)] == [0, 0]


def test_it_is_final(world: TaskWorld) -> None:
    """Else a creator would publish its inputs afterwards and appeal."""
    task_id = world.play(UNAVAILABLE, UNAVAILABLE)
    with refuses("tasks: nothing to appeal"):
        world.appeal(task_id)
    with refuses("tasks: not decided"):
        world.tasks.finalize(task_id)
    with refuses("tasks: not running"):
        world.tasks.advance(task_id)


def test_two_of_three_say_so_and_the_one_with_a_result_loses_nothing(world: TaskWorld) -> None:
    with world.moves() as changes:
        task_id = world.play(RIGHT, UNAVAILABLE, UNAVAILABLE)
    assert changes == {("tasks", "creator"): FEE, ("wallet", "creator"): -FEE}
    assert world.status(task_id) == CLOSED


def test_alone_it_is_a_result_like_another(world: TaskWorld) -> None:
    """Or it would be a way out for whoever sees that it can't win."""
    task_id = world.play(RIGHT, UNAVAILABLE, RIGHT)
    assert world.status(task_id) == DECIDED
    first, liar, third = world.runners(task_id)
    with world.moves() as changes:
        world.finalize(task_id)
    assert changes[("stake", liar.name)] == -slashed(2_000)
    assert changes[("tasks", first.name)] == HALF
    assert changes[("tasks", third.name)] == REST


def test_verifiers_cannot_say_so(world: TaskWorld) -> None:
    task_id = world.play(RIGHT, WRONG, RIGHT)
    world.appeal(task_id)
    with refuses("appeals: no result"):
        world.attest(task_id, world.verifiers[0], UNAVAILABLE)
