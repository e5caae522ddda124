# SPDX-License-Identifier: Apache-2.0
"""Two friends fake whatever waits while everybody else is away. Pay is at once, and a slash waits
for hours, or days when they object to each verdict; verifiers find one fake in ten. Both are drawn
for no more than half of their stakes cover, so they lose."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.system import TASK_TERMS, UNLIMITED, System
from tests.stage.contracts.tasks import (
    APPEAL_S,
    BOND,
    DISPUTE_S,
    OBJECTION_S,
    RIGHT,
    VERDICT_S,
    WRONG,
    Books,
    TaskStage,
    make_tasks,
)

FEE, STAKE = TASK_TERMS["max_fee"], TASK_TERMS["task_stake"]
WAITING = 120  # tasks, more than the two could ever fake for their stakes
FOUND_IN = 10  # a verifier runs one in so many again


@pytest.fixture
def friends(system: System) -> TaskStage:
    """Two nodes, whom every draw takes; the third seat of the pool is empty."""
    stage = make_tasks(system, nodes=3, stake=STAKE)
    gone = stage.nodes.pop()
    stage.tasks.leave(gone.node_id, sender=gone.owner)
    mine()
    token = system.token
    for who in (stage.creator, stage.appellant, stage.stranger):
        token.transfer(who, WAITING * FEE, sender=system.holder)
        token.approve(stage.appeals.address, UNLIMITED, sender=who)
    return stage


def fake_all(stage: TaskStage, waiting: int) -> list[int]:
    """The fakes among so many tasks, as far as the draw takes the two."""
    fakes = []
    for _ in range(waiting):
        task_id = stage.create(fee=FEE)
        stage.to_draw(task_id)
        if not stage.tasks.expected(task_id):
            break
        fakes.append(stage.play(WRONG, WRONG, task_id=task_id))
    return fakes


def won(stage: TaskStage, moved: Books) -> int:
    """What the two have won, with the stranger, who objects for them."""
    theirs = {"stranger", *(player.name for player in stage.nodes)}
    return sum(units for (_, name), units in moved.items() if name in theirs)


def test_attack__fakes_before_the_first_verdict__cost_more_than_they_bring(
    friends: TaskStage,
) -> None:
    """They won 1,000 ZOO with 120 tasks when a draw took whoever had a hand free."""
    with friends.moves() as moved:
        fakes = fake_all(friends, WAITING)
        found = fakes[::FOUND_IN][:3]
        for task_id in found:
            friends.appeal(task_id)
            friends.vote(task_id, RIGHT)
        for task_id in found:
            friends.carry_out(task_id)
    assert len(fakes) >= 2
    assert won(friends, moved) < 0


def test_attack__fakes_while_verdicts_are_contested__cost_more_than_they_bring(
    friends: TaskStage,
) -> None:
    """Verifiers, the objection and the committee take all their time, and the two fake again as
    soon as their pay can't be appealed any more."""
    appeals, committee = friends.appeals, friends.system.coordinator.address
    found: list[int] = []
    late = VERDICT_S, VERDICT_S + OBJECTION_S, VERDICT_S + OBJECTION_S + DISPUTE_S
    plan: list[tuple[int, Callable[[int], None], int]] = []

    def fake(_: int) -> None:
        for task_id in fake_all(friends, WAITING)[::FOUND_IN][:3]:
            friends.appeal(task_id)
            found.append(task_id)
            acts = vote, contest, resolve
            plan.extend((now() + s - 60, act, task_id) for s, act in zip(late, acts, strict=True))

    def vote(task_id: int) -> None:
        friends.vote(task_id, RIGHT)

    def contest(task_id: int) -> None:
        appeals.contest(task_id, sender=friends.stranger)

    def resolve(task_id: int) -> None:
        appeals.resolve(task_id, RIGHT, sender=committee)

    with friends.moves() as moved:
        plan.extend((now() + part * 2 * APPEAL_S, fake, 0) for part in range(3))
        while plan:
            due = min(plan, key=itemgetter(0))
            plan.remove(due)
            mine(1, max(0, due[0] - now()))
            due[1](due[2])
    assert len(found) >= 2
    assert won(friends, moved) < -BOND
