# SPDX-License-Identifier: Apache-2.0
"""An executor that could not get a task's inputs, beside one who had them from the creator.

The contract counts who said so as wrong, as soon as verifiers name a result. What honest agents do
about it is in `tests/attacks/tasks/test_denied_inputs.py`."""

from __future__ import annotations

from agents.protocol.formulas import UNAVAILABLE
from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import ZOO, Player, System
from tests.stage.contracts.tasks import (
    BOND,
    CLOSED,
    DECIDED,
    DRAW_S,
    DRAWING,
    FEE,
    HALF,
    REST,
    RIGHT,
    UNDECIDED,
    TaskStage,
    make_tasks,
    slashed,
)

LEAST = 100 * ZOO  # an executor's stake by default
ROW = slashed(2_000, LEAST)  # REDUNDANCY_MISMATCH


def denied(stage: TaskStage, honest: Player) -> int:
    """A task whose inputs the honest one, drawn first, could not get, and the one drawn with it
    had."""
    task_id = stage.started()
    while honest not in stage.runners(task_id):
        stage.play(RIGHT, RIGHT, task_id=task_id)
        task_id = stage.started()
    lanes = stage.runners(task_id)
    answers = {i: UNAVAILABLE if lane is honest else RIGHT for i, lane in enumerate(lanes)}
    stage.commit_all(task_id, answers)
    stage.reveal_all(task_id, answers)
    assert stage.status(task_id) == DRAWING
    return task_id


def test_attack__inputs_that_come_after_an_undecided_task__pay_who_withheld_them(
    system: System,
) -> None:
    """The pool has one honest executor and two seats of one owner. So no third owner decides, and a
    day after its creation the task ends undecided. Then its inputs come, somebody appeals, and
    verifiers name the right result: the honest one loses 20 ZOO, and the owner and the appellant
    have 5 of them, for a fee that came back."""
    stage = make_tasks(system, nodes=2, stake=LEAST)
    honest, friend = stage.nodes
    stage.seat("friend's second", LEAST, owner=friend.owner)
    mine(1)
    with stage.moves() as moved:
        task_id = denied(stage, honest)
        mine(1, DRAW_S + 8)
        stage.tasks.draw(task_id, sender=stage.stranger)
        assert stage.status(task_id) == UNDECIDED
        stage.appeal(task_id)
        stage.judge(task_id, RIGHT)
    assert stage.status(task_id) == CLOSED
    (right,) = (p for p in stage.runners(task_id) if p is not honest)
    won = ROW // 2 - BOND
    assert moved == {
        ("stake", honest.name): -ROW,
        ("bounty", "treasury"): ROW // 2,
        ("wallet", "creator"): -FEE,
        ("tasks", "creator"): FEE,
        ("wallet", "appellant"): -BOND,
        ("appeals", right.name): HALF,
        ("appeals", "appellant"): BOND + won - HALF,
        ("appeals", "verifier 0"): BOND // 2,
        ("appeals", "verifier 1"): BOND // 2,
    }


def test_control__a_third_who_has_the_inputs__pays_nobody_for_it(system: System) -> None:
    """With a third owner the same costs the honest one as much, and the fee: what is slashed is the
    treasury's, and an appeal of a right outcome wins nothing."""
    stage = make_tasks(system, nodes=3, stake=LEAST)
    honest = stage.nodes[0]
    task_id = denied(stage, honest)
    with stage.moves() as moved:
        stage.draw(task_id)
        stage.commit(task_id, 2, RIGHT)
        stage.reveal(task_id, 2, RIGHT)
        assert stage.status(task_id) == DECIDED
        stage.finalize(task_id)
    second = next(p for p in stage.runners(task_id)[:2] if p is not honest)
    third = stage.runners(task_id)[2]
    assert moved == {
        ("stake", honest.name): -ROW,
        ("bounty", "treasury"): ROW,
        ("tasks", second.name): HALF,
        ("tasks", third.name): REST,
        ("open", "tasks"): -FEE,
    }
