# SPDX-License-Identifier: Apache-2.0
"""appeal, lapse, and what only TaskAppeals may tell RedundantTasks: anyone with a bond has a task's
outcome re-executed, once, in time; without a verdict nobody is slashed for a result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.system import (
    EMPTY,
    STAKE,
    VERIFIER,
    ZERO,
    System,
    events_of,
    refuses,
)
from tests.stage.contracts.tasks import (
    AGREED,
    APPEAL_S,
    APPEALED,
    BOND,
    CLOSED,
    DECIDED,
    FEE,
    HALF,
    NO_COMMIT,
    OTHER,
    REST,
    RIGHT,
    UNDECIDED,
    VERDICT_S,
    WRONG,
    Answer,
    TaskWorld,
    make_tasks,
)

# Answers that lead to each status with an appeal window.
COURSES: dict[int, tuple[Answer, ...]] = {
    AGREED: (RIGHT, RIGHT),
    DECIDED: (RIGHT, WRONG, RIGHT),
    UNDECIDED: (RIGHT, WRONG, OTHER),
}
STATUSES = list(COURSES)


# appeal


@pytest.mark.parametrize("status", STATUSES)
def test_appeal__takes_the_bond_and_a_snapshot(
    world: TaskWorld, tasks: Any, appeals: Any, status: int
) -> None:
    task_id = world.play(*COURSES[status])
    assert world.status(task_id) == status
    decided = now()
    mine(1, APPEAL_S)
    with world.moves() as moved:
        appeals.appeal(task_id, sender=world.appellant)
        events = events_of(appeals)
    assert moved == {("wallet", "appellant"): -BOND, ("open", "appeals"): BOND}
    deadline = now() + VERDICT_S
    ids = [p.node_id for p in world.verifiers]
    start = task_id % 3
    assert events == [
        (
            "TaskAppealed",
            {
                "task_id": task_id,
                "appellant": world.appellant,
                "bond": BOND,
                "deadline": deadline,
            },
        ),
        (
            "VerdictRequested",
            {"task_id": task_id, "verifiers": ids[start:] + ids[:start], "weights": [STAKE] * 3},
        ),
        ("BondTaken", {"account": world.appellant, "amount": BOND}),
    ]
    assert appeals.appeal_of(task_id)._asdict() == {
        "appellant": world.appellant,
        "status": status,
        "decided_at": decided,
        "deadline": deadline,
        "result": EMPTY,
        "overturned": False,
    }
    assert appeals.attested_weight(task_id, RIGHT) == (0, 3 * STAKE)
    state = world.state(task_id)
    assert (state.status, state.time) == (APPEALED, deadline)


def test_appeal__is_told_by_the_tasks_too(world: TaskWorld, tasks: Any, appeals: Any) -> None:
    task_id = world.play(*COURSES[DECIDED])
    appeals.appeal(task_id, sender=world.appellant)
    begun = [e for e in appeals.get_logs() if e.address == tasks.address]
    assert [(type(e).__name__, e.task_id, e.status) for e in begun] == [
        ("AppealBegun", task_id, DECIDED)
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_appeal__after_the_window__reverts(world: TaskWorld, status: int) -> None:
    task_id = world.play(*COURSES[status])
    mine(1, APPEAL_S + 1)
    with refuses("tasks: too late"):
        world.appeal(task_id)


def test_appeal__nothing_to_appeal__reverts(world: TaskWorld) -> None:
    """While executors are at work, when it is over, and where nobody showed any result."""
    drawing, running = world.create(), world.started()
    closed = world.play(*COURSES[DECIDED])
    world.finalize(closed)
    for task_id in (0, drawing, running, closed, 99):
        with refuses("tasks: nothing to appeal"):
            world.appeal(task_id)


@pytest.mark.parametrize("second", [NO_COMMIT, RIGHT])
def test_appeal__nobody_revealed__reverts(world: TaskWorld, second: Answer) -> None:
    """Nor of one who committed and never had a partner to reveal with."""
    task_id = world.play(NO_COMMIT, second, *[NO_COMMIT] * 3)
    assert world.status(task_id) == UNDECIDED
    with refuses("tasks: nothing to appeal"):
        world.appeal(task_id)


@pytest.mark.parametrize("how", ["open", "judged", "lapsed"])
def test_appeal__a_second_time__reverts(world: TaskWorld, how: str) -> None:
    task_id = world.play(*COURSES[AGREED])
    world.appeal(task_id)
    if how == "judged":
        world.judge(task_id, RIGHT)
    elif how == "lapsed":
        world.wait_out(task_id)
        world.appeals.lapse(task_id)
    with refuses("tasks: nothing to appeal"):
        world.appeal(task_id, sender=world.creator)


def test_appeal__without_verifiers__reverts(system: System) -> None:
    world = make_tasks(system, stakes=())
    task_id = world.play(*COURSES[DECIDED])
    with refuses("verdicts: no verifiers"):
        world.appeal(task_id)
    world.finalize(task_id)
    assert world.status(task_id) == CLOSED


def test_appeal__without_the_bond__reverts(world: TaskWorld) -> None:
    task_id = world.play(*COURSES[AGREED])
    poor = world.system.person("poor", BOND - 1)
    with refuses("erc20: transfer amount exceeds balance"):
        world.appeal(task_id, sender=poor)
    assert world.status(task_id) == AGREED
    assert world.appeals.appeal_of(task_id).deadline == 0


def test_appeal__stops_finalize(world: TaskWorld, tasks: Any) -> None:
    task_id = world.play(*COURSES[DECIDED])
    world.appeal(task_id)
    mine(1, 10 * VERDICT_S)
    with refuses("tasks: not decided"):
        tasks.finalize(task_id)
    with refuses("tasks: not running"):
        tasks.advance(task_id)


def test_appeal__of_32_verifiers_at_most__from_the_tasks_place_on(
    system: System, appeals: Any
) -> None:
    world = make_tasks(system, stakes=(STAKE,) * 34)
    ids = [p.node_id for p in world.verifiers]
    for _ in range(3):
        task_id = world.play(*COURSES[AGREED])
        world.appeal(task_id)
        asked, weights = world.snapshots[task_id]
        assert asked == (ids + ids)[task_id : task_id + 32]
        assert appeals.attested_weight(task_id, RIGHT) == (0, sum(weights)) == (0, 32 * STAKE)


def test_appeal__only_eligible_verifiers_are_asked(world: TaskWorld) -> None:
    first, second, third = world.verifiers
    world.registry.set_active(first.node_id, False, sender=first.operator)
    world.registry.approve_role(second.node_id, VERIFIER, False, sender=world.owner)
    task_id = world.play(*COURSES[AGREED])
    world.appeal(task_id)
    assert world.snapshots[task_id] == ([third.node_id], [STAKE])


# lapse


@pytest.mark.parametrize("status", STATUSES)
def test_lapse__bond_back_and_nobody_slashed(
    world: TaskWorld, tasks: Any, appeals: Any, status: int
) -> None:
    """The two who agreed are paid: an appeal without a verdict must not cost them their work."""
    task_id = world.play(*COURSES[status])
    world.appeal(task_id)
    world.attest(task_id, world.verifiers[0], WRONG)
    world.attest(task_id, world.verifiers[1], OTHER)
    world.wait_out(task_id)
    runners = world.runners(task_id)
    with world.moves() as moved:
        appeals.lapse(task_id, sender=world.stranger)
        events = events_of(appeals)
        closed = [type(e).__name__ for e in appeals.get_logs() if e.address == tasks.address]
    expected = {("open", "appeals"): -BOND, ("appeals", "appellant"): BOND}
    if status == DECIDED:
        expected |= {
            ("open", "tasks"): -FEE,
            ("tasks", runners[0].name): HALF,
            ("tasks", runners[2].name): REST,
        }
    assert moved == expected
    assert events == [
        ("AppealLapsed", {"task_id": task_id}),
        ("BondCredited", {"account": world.appellant, "amount": BOND}),
    ]
    assert closed == ["TaskClosed"] + ["BondCredited"] * (2 if status == DECIDED else 0)
    assert world.status(task_id) == CLOSED
    assert appeals.appeal_of(task_id).deadline == 0
    assert [world.open_lanes(p) for p in world.nodes] == [0] * 5
    before = world.system.token.balanceOf(world.appellant)
    assert appeals.withdraw_bond(sender=world.appellant) == BOND
    assert world.system.token.balanceOf(world.appellant) == before + BOND


def test_lapse__before_the_deadline__reverts(world: TaskWorld, appeals: Any) -> None:
    task_id = world.play(*COURSES[AGREED])
    world.appeal(task_id)
    mine(1, VERDICT_S)
    with refuses("appeals: verdict pending"):
        appeals.lapse(task_id)
    mine(1, 1)
    appeals.lapse(task_id)


def test_lapse__no_open_appeal__reverts(world: TaskWorld, appeals: Any) -> None:
    never, judged, lapsed = (world.play(*COURSES[AGREED]) for _ in range(3))
    for task_id in (judged, lapsed):
        world.appeal(task_id)
    world.judge(judged, RIGHT)
    world.wait_out(lapsed)
    appeals.lapse(lapsed)
    for task_id in (0, never, judged, lapsed, 99):
        with refuses("appeals: not open"):
            appeals.lapse(task_id)


# What only TaskAppeals may say


@pytest.mark.parametrize("who", ["creator", "appellant", "owner"])
def test_begin_and_end__by_anyone_else__reverts(world: TaskWorld, tasks: Any, who: str) -> None:
    """Nobody holds up a payment, or takes back a fee, without the bond and the verdict."""
    sender = getattr(world, who)
    task_id = world.play(*COURSES[DECIDED])
    with refuses("tasks: not appeals"):
        tasks.begin_appeal(task_id, sender=sender)
    world.appeal(task_id)
    for overturned in (False, True):
        with refuses("tasks: not appeals"):
            tasks.end_appeal(task_id, DECIDED, overturned, sender=sender)


def test_end__of_a_task_that_is_not_appealed__reverts(
    world: TaskWorld, tasks: Any, appeals: Any
) -> None:
    agreed, closed = world.play(*COURSES[AGREED]), world.play(*COURSES[DECIDED])
    world.finalize(closed)
    for task_id in (0, agreed, closed, 99):
        with refuses("tasks: not appealed"):
            tasks.end_appeal(task_id, AGREED, True, sender=appeals.address)


def test_begin__answers_what_the_task_was(world: TaskWorld, tasks: Any, appeals: Any) -> None:
    task_id = world.play(*COURSES[UNDECIDED])
    decided = now()
    mine(1, 60)
    assert tasks.begin_appeal(task_id, sender=appeals.address) == (UNDECIDED, decided)
    assert events_of(tasks) == [("AppealBegun", {"task_id": task_id, "status": UNDECIDED})]


def test_unknown_appeal__is_all_zero(appeals: Any) -> None:
    assert tuple(appeals.appeal_of(7)) == (ZERO, 0, 0, 0, EMPTY, False)
    assert appeals.attesters(7, RIGHT) == []
    assert appeals.attested_weight(7, RIGHT) == (0, 0)
