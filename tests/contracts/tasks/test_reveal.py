# SPDX-License-Identifier: Apache-2.0
"""reveal: opens exactly what was committed; the first of a pair shows a tag, the second the result
behind it; the outcome follows at once."""

from __future__ import annotations

from typing import Any

import pytest
from eth_utils import keccak

from tests.contracts.tasks.test_settings import create
from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import block, mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.system import EMPTY, Codes, System, events_of, refuses
from tests.stage.contracts.tasks import OTHER, RIGHT, WRONG, TaskStage, make_tasks


def revealing(stage: TaskStage, first: bytes = RIGHT, second: bytes = RIGHT, **terms: Any) -> int:
    """A task whose two executors committed to these results."""
    task_id = stage.started(**terms)
    stage.commit_all(task_id, {0: first, 1: second})
    return task_id


def told(stage: TaskStage, task_id: int, lane: int, result: bytes) -> tuple[str, dict[str, Any]]:
    player = stage.runners(task_id)[lane]
    fields = {"task_id": task_id, "node_id": player.node_id, "lane": lane}
    return "ResultRevealed", fields | {"tag": stage.tag(task_id, result)}


def send(
    stage: TaskStage,
    task_id: int,
    lane: int,
    tag: bytes,
    result: bytes = EMPTY,
    salt: bytes | None = None,
    sender: str | None = None,
) -> None:
    """A reveal of exactly these values; the events stay those of the call."""
    salt = stage.salt(task_id, lane) if salt is None else salt
    sender = sender or stage.runners(task_id)[lane].operator
    stage.tasks.reveal(task_id, lane, tag, result, salt, sender=sender)


# What follows


def test_reveal__of_the_first__shows_a_tag_and_no_result(stage: TaskStage, tasks: Any) -> None:
    task_id = revealing(stage)
    tag = stage.tag(task_id, RIGHT)
    assert tasks.tag_of(task_id, RIGHT) == tag
    with stage.moves() as moved:
        # A result given without need is not looked at.
        send(stage, task_id, 0, tag, WRONG)
        events = events_of(tasks)
    assert moved == {}
    assert events == [told(stage, task_id, 0, RIGHT)]
    state = stage.state(task_id)
    assert (state.status, state.states) == (
        task.REVEALING,
        [task.LANE_REVEALED, task.LANE_COMMITTED],
    )
    assert state.answers[0] == tag
    assert tasks.result_of(task_id) == EMPTY


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_reveal__of_the_same_by_both__is_agreement_and_pays(
    stage: TaskStage, tasks: Any, order: tuple[int, int]
) -> None:
    task_id = revealing(stage)
    first, second = order
    stage.reveal(task_id, first, RIGHT)
    runners = stage.runners(task_id)
    moved, events = stage.effects(
        tasks, lambda: send(stage, task_id, second, stage.tag(task_id, RIGHT), RIGHT)
    )
    deadline = now() + task.APPEAL_S
    # The one who showed the result has the odd unit.
    pay = {first: task.HALF, second: task.REST}
    assert moved == {("open", "tasks"): -task.FEE} | {
        ("tasks", runners[lane].name): amount for lane, amount in pay.items()
    }
    assert events == [
        told(stage, task_id, second, RIGHT),
        event(
            "TaskAgreed",
            task_id=task_id,
            result=RIGHT,
            lanes=[first, second],
            contested=False,
            appeal_deadline=deadline,
        ),
        *(
            event("BondCredited", account=runners[lane].payout, amount=pay[lane])
            for lane in (second, first)
        ),
    ]
    state = stage.state(task_id)
    assert (state.status, state.time) == (task.AGREED, deadline)
    assert state.states == [
        task.LANE_AGREED if lane == first else task.LANE_OPENED for lane in (0, 1)
    ]
    assert state.answers[first] == stage.tag(task_id, RIGHT)
    assert state.answers[second] == tasks.result_of(task_id) == RIGHT
    assert [stage.open_lanes(p) for p in runners] == [0, 0]


def test_reveal__pay_goes_where_the_node_says(stage: TaskStage, tasks: Any) -> None:
    """And waits there: whoever cannot receive tokens blocks nobody."""
    task_id = revealing(stage)
    player = stage.runners(task_id)[0]
    stage.registry.set_payout(player.node_id, stage.appellant, sender=player.owner)
    with stage.moves() as moved:
        stage.reveal_all(task_id, {0: RIGHT, 1: RIGHT})
    assert moved["tasks", "appellant"] == task.HALF
    before = stage.system.token.balanceOf(stage.appellant)
    assert tasks.withdraw_bond(sender=stage.appellant) == task.HALF
    assert events_of(tasks) == [event("BondWithdrawn", account=stage.appellant, amount=task.HALF)]
    assert stage.system.token.balanceOf(stage.appellant) == before + task.HALF
    for person in (stage.appellant, player.payout):
        with refuses("bonds: nothing to withdraw"):
            tasks.withdraw_bond(sender=person)


def test_reveal__of_two_different__asks_for_a_third(stage: TaskStage, tasks: Any) -> None:
    task_id = revealing(stage, RIGHT, WRONG)
    stage.reveal(task_id, 0, RIGHT)
    moved, events = stage.effects(tasks, lambda: send(stage, task_id, 1, stage.tag(task_id, WRONG)))
    assert moved == {}
    assert events == [
        told(stage, task_id, 1, WRONG),
        event("DrawRequested", task_id=task_id, wanted=1, seed_block=block() + 1),
    ]
    state = stage.state(task_id)
    assert (state.status, state.wanted) == (task.DRAWING, 1)
    assert state.states == [task.LANE_REVEALED] * 2
    assert [stage.open_lanes(p) for p in stage.runners(task_id)] == [1, 1]


@pytest.mark.parametrize("agreeing", [0, 1])
def test_reveal__of_a_third_like_one__decides_but_pays_nobody_yet(
    stage: TaskStage, tasks: Any, agreeing: int
) -> None:
    results = [RIGHT, WRONG]
    task_id = revealing(stage, *results)
    stage.reveal_all(task_id, dict(enumerate(results)))
    stage.draw(task_id)
    result = results[agreeing]
    stage.commit(task_id, 2, result)
    moved, events = stage.effects(
        tasks, lambda: send(stage, task_id, 2, stage.tag(task_id, result), result)
    )
    assert moved == {}
    deadline = now() + task.APPEAL_S
    assert events == [
        told(stage, task_id, 2, result),
        event(
            "TaskAgreed",
            task_id=task_id,
            result=result,
            lanes=[agreeing, 2],
            contested=True,
            appeal_deadline=deadline,
        ),
    ]
    state = stage.state(task_id)
    assert (state.status, state.time) == (task.DECIDED, deadline)
    assert state.states[agreeing] == task.LANE_AGREED
    assert state.states[1 - agreeing] == task.LANE_REVEALED
    assert state.states[2] == task.LANE_OPENED
    assert tasks.result_of(task_id) == result
    assert [stage.open_lanes(p) for p in stage.runners(task_id)] == [1, 1, 1]


def test_reveal__of_three_different__returns_the_fee(stage: TaskStage, tasks: Any) -> None:
    """All of it: nobody has a bounty for closing a task, or a wrong result would earn it."""
    task_id = revealing(stage, RIGHT, WRONG)
    stage.reveal_all(task_id, {0: RIGHT, 1: WRONG})
    stage.draw(task_id)
    stage.commit(task_id, 2, OTHER)
    moved, events = stage.effects(tasks, lambda: send(stage, task_id, 2, stage.tag(task_id, OTHER)))
    assert moved == {("open", "tasks"): -task.FEE, ("tasks", "creator"): task.FEE}
    deadline = now() + task.APPEAL_S
    assert events == [
        told(stage, task_id, 2, OTHER),
        event(
            "TaskUndecided",
            task_id=task_id,
            refund=task.FEE,
            appeal_deadline=deadline,
        ),
        event("BondCredited", account=stage.creator, amount=task.FEE),
    ]
    state = stage.state(task_id)
    assert (state.status, state.time, state.states) == (
        task.UNDECIDED,
        deadline,
        [task.LANE_REVEALED] * 3,
    )
    assert [stage.open_lanes(p) for p in stage.runners(task_id)] == [0, 0, 0]
    assert tasks.result_of(task_id) == EMPTY


def test_reveal__fee_of_one_unit(codes: Codes, system: System) -> None:
    """The smallest fee, where the terms ask no price per second: half of it is nothing, and that is
    no error."""
    system.tasks = create(codes, system, fee_per_s=0)
    stage = make_tasks(system)
    task_id = revealing(stage, fee=1)
    with stage.moves() as moved:
        stage.reveal_all(task_id, {0: RIGHT, 1: RIGHT})
    second = stage.runners(task_id)[1]
    assert moved == {("open", "tasks"): -1, ("tasks", second.name): 1}


# Refused


def test_reveal__at_the_deadline_and_after(stage: TaskStage) -> None:
    task_id = revealing(stage)
    mine(1, task.REVEAL_S)
    stage.reveal(task_id, 0, RIGHT)
    mine(1, 1)
    with refuses("tasks: too late"):
        stage.reveal(task_id, 1, RIGHT)


def test_reveal__operator_changed__the_old_key_reveals(stage: TaskStage) -> None:
    task_id = revealing(stage)
    player = stage.runners(task_id)[0]
    signed = consent(stage.registry, account("stranger"), player.owner)
    stage.registry.set_operator(player.node_id, stage.stranger, signed, sender=player.owner)
    with refuses("tasks: bad opening"):
        stage.reveal(task_id, 0, RIGHT, sender=stage.stranger)
    stage.reveal(task_id, 0, RIGHT)


# Views


def test_views__digests_are_as_defined(stage: TaskStage, tasks: Any) -> None:
    player = stage.nodes[2]
    tag, salt, spec = keccak(text="a"), keccak(text="b"), keccak(text="c")
    for task_id in (0, 7, 2**256 - 1):
        assert tasks.tag_of(task_id, RIGHT) == stage.tag(task_id, RIGHT)
        assert tasks.commitment_digest(
            task_id, player.node_id, player.operator, spec, tag, salt
        ) == stage.digest(task_id, player, tag, salt, spec)
