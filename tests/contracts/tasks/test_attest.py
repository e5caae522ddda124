# SPDX-License-Identifier: Apache-2.0
"""attest: a verifier of the snapshot, once, in time, not on its own owner's task; two thirds of the
snapshot's stake for one result are the verdict."""

from __future__ import annotations

from typing import Any

import pytest
from eth_utils import keccak

from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event
from tests.stage.contracts.system import EMPTY, STAKE, UNLIMITED, VERIFIER, System, refuses
from tests.stage.contracts.tasks import APPEALED, OTHER, RIGHT, WRONG, TaskStage, make_tasks

UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")


@pytest.fixture
def task_id(stage: TaskStage) -> int:
    """An appealed task whose two executors agreed on RIGHT."""
    return appealed(stage)


def appealed(stage: TaskStage) -> int:
    number = stage.play(RIGHT, RIGHT)
    stage.appeal(number)
    return number


def test_attest__is_told_and_counted(stage: TaskStage, appeals: Any, task_id: int) -> None:
    verifier = stage.verifiers[0]
    place = stage.snapshots[task_id][0].index(verifier.node_id)
    assert not any(appeals.has_attested(task_id, at) for at in range(3))
    moved, events = stage.effects(
        appeals,
        lambda: appeals.attest(
            task_id, place, *stage.snapshots[task_id], WRONG, sender=verifier.operator
        ),
    )
    assert moved == {}
    assert events == [
        event(
            "ResultAttested",
            task_id=task_id,
            verifier_id=verifier.node_id,
            result=WRONG,
            weight=task.VOICE,
        )
    ]
    assert [appeals.has_attested(task_id, at) for at in range(3)] == [
        at == place for at in range(3)
    ]
    assert appeals.attesters(task_id, WRONG) == [verifier.node_id]
    assert appeals.attested_weight(task_id, WRONG) == (task.VOICE, 3 * task.VOICE)
    assert appeals.attested_weight(task_id, RIGHT) == (0, 3 * task.VOICE)
    for beyond in (3, 31, 32, 256, 2**256 - 1):
        assert not appeals.has_attested(task_id, beyond)


@pytest.mark.parametrize(
    ("stakes", "votes", "verdict"),
    [
        ((1, 1, 1), (0, 1), True),
        ((1, 1, 1), (2, 0), True),
        ((1, 1, 1), (0,), False),
        ((2, 1, 1, 1), (0, 1), False),
        ((2, 1, 1, 1), (0, 1, 2), True),
        ((9, 1, 1, 1), (1, 2, 3), False),
        ((9, 1, 1, 1), (0, 1), False),
        ((1, 1, 1, 1), (0, 1), False),
        ((1, 1, 1, 1), (0, 1, 3), True),
        ((2, 1), (0,), False),
        ((2, 1), (0, 1), True),
    ],
)
def test_attest__two_thirds_of_the_snapshots_stake(
    system: System, stakes: tuple[int, ...], votes: tuple[int, ...], verdict: bool
) -> None:
    """Exactly two thirds are enough, of two owners, none of whom weighs more than two minimum
    stakes."""
    stage = make_tasks(system, stakes=[stake * task.VOICE // 2 for stake in stakes])
    task_id = appealed(stage)
    for voter in votes:
        assert stage.appeals.appeal_of(task_id).result == EMPTY
        stage.attest(task_id, stage.verifiers[voter], RIGHT)
    assert stage.status(task_id) == APPEALED
    assert (stage.appeals.appeal_of(task_id).result == RIGHT) is verdict


def test_attest__one_unit_short_of_two_thirds__is_no_verdict(system: System) -> None:
    unit = task.VOICE // 2
    stage = make_tasks(system, stakes=(unit, unit, unit + 1))
    task_id = appealed(stage)
    for verifier in stage.verifiers:
        assert stage.appeals.appeal_of(task_id).result == EMPTY
        stage.attest(task_id, verifier, RIGHT)
    assert stage.appeals.appeal_of(task_id).result == RIGHT


def test_attest__votes_for_different_results_do_not_add_up(stage: TaskStage, task_id: int) -> None:
    for verifier, result in zip(stage.verifiers, (RIGHT, WRONG, OTHER), strict=True):
        stage.attest(task_id, verifier, result)
    assert stage.status(task_id) == APPEALED


def test_attest__later_stake_and_slashes_change_no_weight(
    stage: TaskStage, appeals: Any, task_id: int
) -> None:
    first = stage.verifiers[0]
    stage.system.add_stake(first, 100 * STAKE)
    late = stage.system.join("late verifier", VERIFIER, 100 * STAKE)
    stage.attest(task_id, first, WRONG)
    assert appeals.attested_weight(task_id, WRONG) == (task.VOICE, 3 * task.VOICE)
    assert stage.status(task_id) == APPEALED
    assert late.node_id not in stage.snapshots[task_id][0]


def test_attest__at_the_deadline_and_after(stage: TaskStage, task_id: int) -> None:
    mine(1, task.VERDICT_S)
    stage.attest(task_id, stage.verifiers[0], RIGHT)
    mine(1, 1)
    with refuses("appeals: too late"):
        stage.attest(task_id, stage.verifiers[1], RIGHT)


def test_attest__slashed_verifier_may_still_speak(stage: TaskStage, task_id: int) -> None:
    """A snapshot is a snapshot: nobody changes the electorate during the vote."""
    me = stage.verifiers[0]
    stage.registry.begin_exit(me.node_id, sender=me.owner)
    stage.attest(task_id, me, RIGHT)


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_attest__on_the_own_task__reverts(system: System, lane: int) -> None:
    """By owner, whoever operates the nodes; also when the own executor only aborted."""
    stage = make_tasks(system, nodes=3)
    judges = {
        node.name: system.join(f"judge of {node.name}", VERIFIER, owner=f"{node.name} owner")
        for node in stage.nodes
    }
    mine(1, system.registry.maturity() + 8)
    task_id = stage.play(RIGHT, WRONG, RIGHT)
    judge = judges[stage.runners(task_id)[lane].name]
    system.token.approve(system.appeals.address, UNLIMITED, sender=stage.appellant)
    stage.appeal(task_id)
    with refuses("appeals: own task"):
        stage.attest(task_id, judge, RIGHT)
    assert system.appeals.attested_weight(task_id, RIGHT) == (0, 6 * task.VOICE)


def test_attest__verifier_who_executes_other_tasks__may_judge_this_one(system: System) -> None:
    stage = make_tasks(system)
    judges = {
        node.node_id: system.join(f"judge of {node.name}", VERIFIER, owner=f"{node.name} owner")
        for node in stage.nodes
    }
    mine(1, system.registry.maturity() + 8)
    task_id = stage.play(RIGHT, RIGHT)
    idle = next(p for p in stage.nodes if p not in stage.runners(task_id))
    judge = judges[idle.node_id]
    system.tasks.join(judge.node_id, task.CPU, sender=judge.owner)
    stage.appeal(task_id)
    stage.attest(task_id, judge, RIGHT)
    assert system.appeals.attesters(task_id, RIGHT) == [judge.node_id]
