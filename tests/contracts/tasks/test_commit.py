# SPDX-License-Identifier: Apache-2.0
"""commit: the operator of a drawn executor, once and in time; captures the draw if nobody has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.system import EMPTY, events_of, refuses
from tests.stage.contracts.tasks import LANE_COMMITTED, LANE_RUNNING, RIGHT, TaskStage

COMMITMENT = b"\xc0" * 32


def test_commit__is_kept_and_told(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.started()
    player = stage.runners(task_id)[1]
    moved, events = stage.effects(
        tasks, lambda: tasks.commit(task_id, 1, COMMITMENT, sender=player.operator)
    )
    assert moved == {}
    assert events == [
        event(
            "ResultCommitted",
            task_id=task_id,
            node_id=player.node_id,
            lane=1,
            commitment=COMMITMENT,
        )
    ]
    state = stage.state(task_id)
    assert (state.status, state.states) == (task.RUNNING, [LANE_RUNNING, LANE_COMMITTED])
    assert state.answers == [EMPTY, COMMITMENT]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_commit__of_the_last__opens_the_reveals(
    stage: TaskStage, tasks: Any, order: tuple[int, int]
) -> None:
    task_id = stage.started()
    runners = stage.runners(task_id)
    for lane in order:
        tasks.commit(task_id, lane, COMMITMENT, sender=runners[lane].operator)
    deadline = now() + task.REVEAL_S
    assert events_of(tasks)[1:] == [event("RevealOpened", task_id=task_id, deadline=deadline)]
    state = stage.state(task_id)
    assert (state.status, state.time) == (task.REVEALING, deadline)
    assert state.states == [LANE_COMMITTED] * 2


def test_commit__captures_the_draw(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.create()
    mine(2)
    expected = tasks.expected(task_id)
    operator = stage.player(expected[1]).operator
    mine(50)
    tasks.commit(task_id, 1, COMMITMENT, sender=operator)
    deadline = now() + task.RUN_S
    assert events_of(tasks) == [
        *(
            event("ExecutorDrawn", task_id=task_id, node_id=node_id, lane=lane, deadline=deadline)
            for lane, node_id in enumerate(expected)
        ),
        event(
            "ResultCommitted", task_id=task_id, node_id=expected[1], lane=1, commitment=COMMITMENT
        ),
    ]
    state = stage.state(task_id)
    assert (state.time, state.states) == (deadline, [LANE_RUNNING, LANE_COMMITTED])


@pytest.mark.parametrize("blocks", [0, 1])
def test_commit__before_the_draw__reverts(stage: TaskStage, tasks: Any, blocks: int) -> None:
    task_id = stage.create()
    mine(blocks)
    with refuses("tasks: too early"):
        tasks.commit(task_id, 0, COMMITMENT, sender=stage.nodes[0].operator)


def test_commit__of_a_third__leads_to_revealing(stage: TaskStage, tasks: Any) -> None:
    """One committed in time, its partner did not: only the newcomer is waited for."""
    task_id = stage.started()
    stage.step(task_id, (RIGHT, task.NO_COMMIT))
    mine(2)
    third = stage.player(tasks.expected(task_id)[0])
    tasks.commit(task_id, 2, COMMITMENT, sender=third.operator)
    assert stage.status(task_id) == task.REVEALING
    assert stage.state(task_id).states[0] == stage.state(task_id).states[2] == LANE_COMMITTED


def test_commit__at_the_deadline_and_after(stage: TaskStage) -> None:
    task_id = stage.started()
    mine(1, task.RUN_S)
    stage.commit(task_id, 0, RIGHT)
    mine(1, 1)
    with refuses("tasks: too late"):
        stage.commit(task_id, 1, RIGHT)


def test_commit__by_the_operator_of_now(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.started()
    player = stage.runners(task_id)[0]
    signed = consent(stage.registry, account("stranger"), player.owner)
    stage.registry.set_operator(player.node_id, stage.stranger, signed, sender=player.owner)
    with refuses("tasks: not operator"):
        tasks.commit(task_id, 0, COMMITMENT, sender=player.operator)
    tasks.commit(task_id, 0, COMMITMENT, sender=stage.stranger)


def test_commit__after_leaving_the_pool_or_exiting__goes_on(stage: TaskStage, tasks: Any) -> None:
    """A node must be able to finish what it was drawn for."""
    task_id = stage.started()
    first, second = stage.runners(task_id)
    tasks.leave(first.node_id, sender=first.owner)
    stage.registry.begin_exit(second.node_id, sender=second.owner)
    stage.commit_all(task_id, {0: RIGHT, 1: RIGHT})
    stage.reveal_all(task_id, {0: RIGHT, 1: RIGHT})
    assert tasks.result_of(task_id) == RIGHT
