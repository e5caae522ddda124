# SPDX-License-Identifier: Apache-2.0
"""commit: the operator of a drawn executor, once and in time; captures the draw if nobody has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.system import EMPTY, events_of, refuses
from tests.stage.contracts.tasks import (
    LANE_COMMITTED,
    LANE_RUNNING,
    NO_COMMIT,
    REVEAL_S,
    REVEALING,
    RIGHT,
    RUN_S,
    RUNNING,
    WRONG,
    TaskWorld,
)

COMMITMENT = b"\xc0" * 32


def test_commit__is_kept_and_told(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    player = world.runners(task_id)[1]
    with world.moves() as moved:
        tasks.commit(task_id, 1, COMMITMENT, sender=player.operator)
        events = events_of(tasks)
    assert moved == {}
    assert events == [
        (
            "ResultCommitted",
            {
                "task_id": task_id,
                "node_id": player.node_id,
                "lane": 1,
                "commitment": COMMITMENT,
            },
        )
    ]
    state = world.state(task_id)
    assert (state.status, state.states) == (RUNNING, [LANE_RUNNING, LANE_COMMITTED])
    assert state.answers == [EMPTY, COMMITMENT]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_commit__of_the_last__opens_the_reveals(
    world: TaskWorld, tasks: Any, order: tuple[int, int]
) -> None:
    task_id = world.started()
    runners = world.runners(task_id)
    for lane in order:
        tasks.commit(task_id, lane, COMMITMENT, sender=runners[lane].operator)
    deadline = now() + REVEAL_S
    assert events_of(tasks)[1:] == [("RevealOpened", {"task_id": task_id, "deadline": deadline})]
    state = world.state(task_id)
    assert (state.status, state.time) == (REVEALING, deadline)
    assert state.states == [LANE_COMMITTED] * 2


def test_commit__captures_the_draw(world: TaskWorld, tasks: Any) -> None:
    task_id = world.create()
    mine(2)
    expected = tasks.expected(task_id)
    operator = world.player(expected[1]).operator
    mine(50)
    tasks.commit(task_id, 1, COMMITMENT, sender=operator)
    deadline = now() + RUN_S
    assert events_of(tasks) == [
        *(
            (
                "ExecutorDrawn",
                {"task_id": task_id, "node_id": node_id, "lane": lane, "deadline": deadline},
            )
            for lane, node_id in enumerate(expected)
        ),
        (
            "ResultCommitted",
            {"task_id": task_id, "node_id": expected[1], "lane": 1, "commitment": COMMITMENT},
        ),
    ]
    state = world.state(task_id)
    assert (state.time, state.states) == (deadline, [LANE_RUNNING, LANE_COMMITTED])


@pytest.mark.parametrize("blocks", [0, 1])
def test_commit__before_the_draw__reverts(world: TaskWorld, tasks: Any, blocks: int) -> None:
    task_id = world.create()
    mine(blocks)
    with refuses("tasks: too early"):
        tasks.commit(task_id, 0, COMMITMENT, sender=world.nodes[0].operator)


def test_commit__of_a_third__leads_to_revealing(world: TaskWorld, tasks: Any) -> None:
    """One committed in time, its partner did not: only the newcomer is waited for."""
    task_id = world.started()
    world.step(task_id, (RIGHT, NO_COMMIT))
    mine(2)
    third = world.player(tasks.expected(task_id)[0])
    tasks.commit(task_id, 2, COMMITMENT, sender=third.operator)
    assert world.status(task_id) == REVEALING
    assert world.state(task_id).states[0] == world.state(task_id).states[2] == LANE_COMMITTED


def test_commit__at_the_deadline_and_after(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    mine(1, RUN_S)
    world.commit(task_id, 0, RIGHT)
    mine(1, 1)
    with refuses("tasks: too late"):
        world.commit(task_id, 1, RIGHT)


def test_commit__not_running__reverts(world: TaskWorld, tasks: Any) -> None:
    revealing, agreed = world.started(), world.play(RIGHT, RIGHT)
    world.commit_all(revealing, {0: RIGHT, 1: RIGHT})
    undecided = world.play(RIGHT, WRONG, RIGHT[::-1])
    for task_id in (0, revealing, agreed, undecided, 99):
        with refuses("tasks: not running"):
            tasks.commit(task_id, 0, COMMITMENT, sender=world.nodes[0].operator)


@pytest.mark.parametrize("lane", [2, 4, 5, 2**256 - 1])
def test_commit__no_such_lane__reverts(world: TaskWorld, tasks: Any, lane: int) -> None:
    task_id = world.started()
    with refuses("tasks: not expected"):
        tasks.commit(task_id, lane, COMMITMENT, sender=world.runners(task_id)[0].operator)


def test_commit__again__reverts(world: TaskWorld, tasks: Any) -> None:
    """Who could replace its commitment would copy the other's result after an early leak."""
    task_id = world.started()
    world.commit(task_id, 0, RIGHT)
    with refuses("tasks: not expected"):
        world.commit(task_id, 0, WRONG)


def test_commit__by_another__reverts(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    first, second = world.runners(task_id)
    for sender in (second.operator, first.owner, first.payout, world.creator, world.owner):
        with refuses("tasks: not operator"):
            tasks.commit(task_id, 0, COMMITMENT, sender=sender)


def test_commit__by_the_operator_of_now(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    player = world.runners(task_id)[0]
    world.registry.set_operator(player.node_id, world.stranger, sender=player.owner)
    with refuses("tasks: not operator"):
        tasks.commit(task_id, 0, COMMITMENT, sender=player.operator)
    tasks.commit(task_id, 0, COMMITMENT, sender=world.stranger)


def test_commit__empty__reverts(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    with refuses("tasks: empty commitment"):
        tasks.commit(task_id, 0, EMPTY, sender=world.runners(task_id)[0].operator)


def test_commit__after_leaving_the_pool_or_exiting__goes_on(world: TaskWorld, tasks: Any) -> None:
    """A node must be able to finish what it was drawn for."""
    task_id = world.started()
    first, second = world.runners(task_id)
    tasks.leave(first.node_id, sender=first.owner)
    world.registry.begin_exit(second.node_id, sender=second.owner)
    world.commit_all(task_id, {0: RIGHT, 1: RIGHT})
    world.reveal_all(task_id, {0: RIGHT, 1: RIGHT})
    assert tasks.result_of(task_id) == RIGHT
