# SPDX-License-Identifier: Apache-2.0
"""appeal, lapse, and what only TaskAppeals may tell RedundantTasks: anyone with a bond has a task's
outcome re-executed, once, in time; without a verdict nobody is slashed for a result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.system import EMPTY, STAKE, VERIFIER, ZERO, System, events_of, refuses
from tests.stage.contracts.tasks import BOND, OTHER, RIGHT, WRONG, Answer, TaskStage, make_tasks

# Answers that lead to each status with an appeal window.
COURSES: dict[int, tuple[Answer, ...]] = {
    task.AGREED: (RIGHT, RIGHT),
    task.DECIDED: (RIGHT, WRONG, RIGHT),
    task.UNDECIDED: (RIGHT, WRONG, OTHER),
}
STATUSES = list(COURSES)


@pytest.mark.parametrize("status", STATUSES)
def test_appeal__takes_the_bond_and_a_snapshot(stage: TaskStage, appeals: Any, status: int) -> None:
    task_id = stage.play(*COURSES[status])
    assert stage.status(task_id) == status
    decided = now()
    mine(1, task.APPEAL_S)
    moved, events = stage.effects(appeals, lambda: appeals.appeal(task_id, sender=stage.appellant))
    assert moved == {("wallet", "appellant"): -BOND, ("open", "appeals"): BOND}
    deadline = now() + task.VERDICT_S
    ids = [p.node_id for p in stage.verifiers]
    assert events == [
        event(
            "TaskAppealed", task_id=task_id, appellant=stage.appellant, bond=BOND, deadline=deadline
        ),
        event(
            "VerdictRequested",
            task_id=task_id,
            verifiers=ids,
            weights=[task.VOICE] * 3,
        ),
        event("BondTaken", account=stage.appellant, amount=BOND),
    ]
    assert appeals.appeal_of(task_id)._asdict() == {
        "appellant": stage.appellant,
        "status": status,
        "decided_at": decided,
        "deadline": deadline,
        "result": EMPTY,
        "overturned": False,
        "objector": ZERO,
    }
    assert appeals.attested_weight(task_id, RIGHT) == (0, 3 * task.VOICE)
    state = stage.state(task_id)
    assert (state.status, state.time) == (task.APPEALED, deadline)


def test_appeal__is_told_by_the_tasks_too(stage: TaskStage, tasks: Any, appeals: Any) -> None:
    task_id = stage.play(*COURSES[task.DECIDED])
    appeals.appeal(task_id, sender=stage.appellant)
    begun = [e for e in appeals.get_logs() if e.address == tasks.address]
    assert [(type(e).__name__, e.task_id, e.status) for e in begun] == [
        ("AppealBegun", task_id, task.DECIDED)
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_appeal__after_the_window__reverts(stage: TaskStage, status: int) -> None:
    task_id = stage.play(*COURSES[status])
    mine(1, task.APPEAL_S + 1)
    with refuses("tasks: too late"):
        stage.appeal(task_id)


def test_appeal__without_verifiers__reverts(system: System) -> None:
    stage = make_tasks(system, stakes=())
    task_id = stage.play(*COURSES[task.DECIDED])
    with refuses("verdicts: too few verifiers"):
        stage.appeal(task_id)
    stage.finalize(task_id)
    assert stage.status(task_id) == task.CLOSED


def test_appeal__of_32_verifiers_at_most(system: System, appeals: Any) -> None:
    stage = make_tasks(system, stakes=(STAKE,) * 34)
    ids = [p.node_id for p in stage.verifiers]
    task_id = stage.play(*COURSES[task.AGREED])
    stage.appeal(task_id)
    asked, weights = stage.snapshots[task_id]
    assert asked == ids[:32]
    assert appeals.attested_weight(task_id, RIGHT) == (0, sum(weights)) == (0, 32 * task.VOICE)


def test_appeal__approved_verifiers_are_asked__whether_they_rest_or_not(stage: TaskStage) -> None:
    """Rest takes nobody out of the denominator; what the Coordinator revoked is no voice."""
    first, second, third = stage.verifiers
    stage.registry.set_active(first.node_id, False, sender=first.operator)
    stage.registry.approve_role(second.node_id, VERIFIER, False, sender=stage.owner)
    task_id = stage.play(*COURSES[task.AGREED])
    stage.appeal(task_id)
    asked, weights = stage.snapshots[task_id]
    assert (sorted(asked), weights) == ([first.node_id, third.node_id], [task.VOICE] * 2)


@pytest.mark.parametrize("status", STATUSES)
def test_lapse__bond_back_and_nobody_slashed(
    stage: TaskStage, tasks: Any, appeals: Any, status: int
) -> None:
    """The two who agreed are paid: an appeal without a verdict must not cost them their work."""
    task_id = stage.play(*COURSES[status])
    stage.appeal(task_id)
    stage.attest(task_id, stage.verifiers[0], WRONG)
    stage.attest(task_id, stage.verifiers[1], OTHER)
    stage.wait_out(task_id)
    runners = stage.runners(task_id)
    closed: list[str] = []

    def lapse() -> None:
        appeals.lapse(task_id, sender=stage.stranger)
        closed.extend(type(e).__name__ for e in appeals.get_logs() if e.address == tasks.address)

    moved, events = stage.effects(appeals, lapse)
    expected = {("open", "appeals"): -BOND, ("appeals", "appellant"): BOND}
    if status == task.DECIDED:
        expected |= {
            ("open", "tasks"): -task.FEE,
            ("tasks", runners[0].name): task.HALF,
            ("tasks", runners[2].name): task.REST,
        }
    assert moved == expected
    assert events == [
        event("AppealLapsed", task_id=task_id),
        event("BondCredited", account=stage.appellant, amount=BOND),
    ]
    assert closed == ["TaskClosed"] + ["BondCredited"] * (2 if status == task.DECIDED else 0)
    assert stage.status(task_id) == task.CLOSED
    assert appeals.appeal_of(task_id).deadline == 0
    assert [stage.open_lanes(p) for p in stage.nodes] == [0] * 5
    before = stage.system.token.balanceOf(stage.appellant)
    assert appeals.withdraw_bond(sender=stage.appellant) == BOND
    assert stage.system.token.balanceOf(stage.appellant) == before + BOND


def test_lapse__before_the_deadline__reverts(stage: TaskStage, appeals: Any) -> None:
    task_id = stage.play(*COURSES[task.AGREED])
    stage.appeal(task_id)
    mine(1, task.VERDICT_S)
    with refuses("appeals: verdict pending"):
        appeals.lapse(task_id)
    mine(1, 1)
    appeals.lapse(task_id)


# What only TaskAppeals may say


def test_begin__answers_what_the_task_was(stage: TaskStage, tasks: Any, appeals: Any) -> None:
    began = now()
    task_id = stage.play(*COURSES[task.UNDECIDED])
    decided = now()
    mine(1, 60)
    status, at, created = tasks.begin_appeal(task_id, sender=appeals.address)
    assert (status, at) == (task.UNDECIDED, decided)
    assert began - 8 < created <= began
    assert events_of(tasks) == [event("AppealBegun", task_id=task_id, status=task.UNDECIDED)]


def test_unknown_appeal__is_all_zero(appeals: Any) -> None:
    assert tuple(appeals.appeal_of(7)) == (ZERO, 0, 0, 0, EMPTY, False, ZERO)
    assert appeals.attesters(7, RIGHT) == []
    assert appeals.attested_weight(7, RIGHT) == (0, 0)
