# SPDX-License-Identifier: Apache-2.0
"""attest: a verifier of the snapshot, once, in time, not on its own owner's task; two thirds of the
snapshot's stake for one result are the verdict."""

from __future__ import annotations

from typing import Any

import pytest
from eth_utils import keccak

from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import (
    EMPTY,
    STAKE,
    UNLIMITED,
    VERIFIER,
    System,
    events_of,
    refuses,
)
from tests.stage.contracts.tasks import (
    APPEALED,
    CLOSED,
    CPU,
    OTHER,
    RIGHT,
    VERDICT_S,
    WRONG,
    TaskWorld,
    make_tasks,
)

UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")


@pytest.fixture
def task_id(world: TaskWorld) -> int:
    """An appealed task whose two executors agreed on RIGHT."""
    number = world.play(RIGHT, RIGHT)
    world.appeal(number)
    return number


def appealed(world: TaskWorld) -> int:
    number = world.play(RIGHT, RIGHT)
    world.appeal(number)
    return number


def test_attest__is_told_and_counted(world: TaskWorld, appeals: Any, task_id: int) -> None:
    verifier = world.verifiers[0]
    place = world.snapshots[task_id][0].index(verifier.node_id)
    assert not any(appeals.has_attested(task_id, at) for at in range(3))
    with world.moves() as moved:
        appeals.attest(task_id, place, *world.snapshots[task_id], WRONG, sender=verifier.operator)
        events = events_of(appeals)
    assert moved == {}
    assert events == [
        (
            "ResultAttested",
            {
                "task_id": task_id,
                "verifier_id": verifier.node_id,
                "result": WRONG,
                "weight": STAKE,
            },
        )
    ]
    assert [appeals.has_attested(task_id, at) for at in range(3)] == [
        at == place for at in range(3)
    ]
    assert appeals.attesters(task_id, WRONG) == [verifier.node_id]
    assert appeals.attested_weight(task_id, WRONG) == (STAKE, 3 * STAKE)
    assert appeals.attested_weight(task_id, RIGHT) == (0, 3 * STAKE)
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
        ((1, 1, 4), (2,), True),
        ((4, 1, 1, 1), (1, 2, 3), False),
        ((1, 1, 1, 1), (0, 1), False),
        ((1, 1, 1, 1), (0, 1, 3), True),
        ((5,), (0,), True),
    ],
)
def test_attest__two_thirds_of_the_snapshots_stake(
    system: System, stakes: tuple[int, ...], votes: tuple[int, ...], verdict: bool
) -> None:
    """Exactly two thirds are enough; heads count for nothing."""
    world = make_tasks(system, stakes=[stake * STAKE for stake in stakes])
    task_id = appealed(world)
    for voter in votes:
        assert world.status(task_id) == APPEALED
        world.attest(task_id, world.verifiers[voter], RIGHT)
    assert world.status(task_id) == (CLOSED if verdict else APPEALED)
    assert (world.appeals.appeal_of(task_id).result == RIGHT) is verdict


def test_attest__one_unit_short_of_two_thirds__is_no_verdict(system: System) -> None:
    world = make_tasks(system, stakes=(2 * STAKE - 1, STAKE))
    task_id = appealed(world)
    world.attest(task_id, world.verifiers[0], RIGHT)
    assert world.status(task_id) == APPEALED
    world.attest(task_id, world.verifiers[1], RIGHT)
    assert world.status(task_id) == CLOSED


def test_attest__votes_for_different_results_do_not_add_up(world: TaskWorld, task_id: int) -> None:
    for verifier, result in zip(world.verifiers, (RIGHT, WRONG, OTHER), strict=True):
        world.attest(task_id, verifier, result)
    assert world.status(task_id) == APPEALED


def test_attest__later_stake_and_slashes_change_no_weight(
    world: TaskWorld, appeals: Any, task_id: int
) -> None:
    first = world.verifiers[0]
    world.system.person(f"{first.name} owner", 100 * STAKE)
    world.registry.add_stake(first.node_id, 100 * STAKE, sender=first.owner)
    late = world.system.join("late verifier", VERIFIER, 100 * STAKE)
    world.attest(task_id, first, WRONG)
    assert appeals.attested_weight(task_id, WRONG) == (STAKE, 3 * STAKE)
    assert world.status(task_id) == APPEALED
    assert late.node_id not in world.snapshots[task_id][0]


def test_attest__at_the_deadline_and_after(world: TaskWorld, task_id: int) -> None:
    mine(1, VERDICT_S)
    world.attest(task_id, world.verifiers[0], RIGHT)
    mine(1, 1)
    with refuses("appeals: too late"):
        world.attest(task_id, world.verifiers[1], RIGHT)


def test_attest__no_open_appeal__reverts(world: TaskWorld, task_id: int) -> None:
    verifiers, weights = world.snapshots[task_id]
    fresh = world.play(RIGHT, RIGHT)
    world.judge(task_id, RIGHT)
    for some_id in (0, fresh, task_id, 99):
        with refuses("appeals: not open"):
            world.appeals.attest(some_id, 2, verifiers, weights, RIGHT, sender=world.stranger)


def test_attest__empty_result__reverts(world: TaskWorld, task_id: int) -> None:
    with refuses("verdicts: empty result"):
        world.attest(task_id, world.verifiers[0], EMPTY)


def test_attest__that_inputs_cannot_be_had__reverts(world: TaskWorld, task_id: int) -> None:
    """That they are gone now proves nothing about then."""
    with refuses("appeals: no result"):
        world.attest(task_id, world.verifiers[0], UNAVAILABLE)


def test_attest__another_snapshot__reverts(world: TaskWorld, task_id: int) -> None:
    """Weights are given by the caller and checked against the hash."""
    verifiers, weights = world.snapshots[task_id]
    me = world.verifiers[0]
    place = verifiers.index(me.node_id)
    other = world.play(RIGHT, RIGHT)
    world.appeal(other)
    for ids, shares in (
        (verifiers, [9 * w for w in weights]),
        ([me.node_id], [STAKE]),
        ([me.node_id] * 3, weights),
        (verifiers[::-1], weights),
        world.snapshots[other],
        ([], []),
    ):
        with refuses("verdicts: wrong snapshot"):
            world.appeals.attest(task_id, place, ids, shares, RIGHT, sender=me.operator)


@pytest.mark.parametrize("place", [3, 32, 2**256 - 1])
def test_attest__no_such_place__reverts(world: TaskWorld, task_id: int, place: int) -> None:
    with refuses("verdicts: not a verifier"):
        world.appeals.attest(
            task_id, place, *world.snapshots[task_id], RIGHT, sender=world.verifiers[0].operator
        )


def test_attest__by_another__reverts(world: TaskWorld, task_id: int) -> None:
    me, other = world.verifiers[:2]
    for sender in (other.operator, me.owner, me.payout, world.appellant, world.owner):
        with refuses("verdicts: not operator"):
            world.attest(task_id, me, RIGHT, sender=sender)


@pytest.mark.parametrize("second", [RIGHT, WRONG])
def test_attest__twice__reverts(world: TaskWorld, task_id: int, second: bytes) -> None:
    world.attest(task_id, world.verifiers[0], RIGHT)
    with refuses("verdicts: has attested"):
        world.attest(task_id, world.verifiers[0], second)


def test_attest__slashed_verifier_may_still_speak(world: TaskWorld, task_id: int) -> None:
    """A snapshot is a snapshot: nobody changes the electorate during the vote."""
    me = world.verifiers[0]
    world.registry.begin_exit(me.node_id, sender=me.owner)
    world.attest(task_id, me, RIGHT)


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_attest__on_the_own_task__reverts(system: System, lane: int) -> None:
    """By owner, whoever operates the nodes; also when the own executor only aborted."""
    world = make_tasks(system, nodes=3)
    task_id = world.play(RIGHT, WRONG, RIGHT)
    judge = system.join("judge", VERIFIER, owner=f"{world.runners(task_id)[lane].name} owner")
    system.token.approve(system.appeals.address, UNLIMITED, sender=world.appellant)
    world.appeal(task_id)
    with refuses("appeals: own task"):
        world.attest(task_id, judge, RIGHT)
    assert system.appeals.attested_weight(task_id, RIGHT) == (0, 4 * STAKE)
    for verifier in world.verifiers:
        world.attest(task_id, verifier, RIGHT)
    assert world.status(task_id) == CLOSED


def test_attest__verifier_who_executes_other_tasks__may_judge_this_one(system: System) -> None:
    world = make_tasks(system)
    task_id = world.play(RIGHT, RIGHT)
    idle = next(p for p in world.nodes if p not in world.runners(task_id))
    judge = system.join("judge", VERIFIER, owner=idle.owner)
    system.tasks.join(judge.node_id, CPU, sender=judge.owner)
    world.appeal(task_id)
    world.attest(task_id, judge, RIGHT)
    assert system.appeals.attesters(task_id, RIGHT) == [judge.node_id]
