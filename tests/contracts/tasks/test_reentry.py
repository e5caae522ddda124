# SPDX-License-Identifier: Apache-2.0
"""A token or a registry that calls back from the middle of a payment or a slash: the lock of the
contract that is at work refuses it, and what it moves is what it moves without."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.intruder import Intruder
from tests.stage.contracts.tasks import (
    BOND,
    CLOSED,
    FEE,
    HALF,
    NO_COMMIT,
    REST,
    RIGHT,
    SPEC,
    WRONG,
    TaskStage,
)

WORD = b"\x01" * 32
# The functions of the pools have no lock, nor has `withdraw_bond`, which empties a credit before it
# pays: what is called from inside it finds the contract as at any other time.
TASKS_CALLS = [
    ("create_task", (0, SPEC, FEE, 600)),
    ("commit", (1, 0, WORD)),
    ("reveal", (1, 0, WORD, WORD, WORD)),
    ("draw", (1,)),
    ("advance", (1,)),
    ("finalize", (1,)),
    ("withdraw_bond", ()),
]
APPEALS_CALLS = [
    ("appeal", (1,)),
    ("attest", (1, 0, [], [], WORD)),
    ("contest", (1,)),
    ("resolve", (1, WORD)),
    ("finalize", (1,)),
    ("lapse", (1,)),
    ("withdraw_bond", ()),
]


def intruder_of(stage: TaskStage, target: Any, name: str, arguments: tuple[Any, ...]) -> Intruder:
    """The token and the registry, both in league with one striker."""
    token, registry = stage.system.token, stage.system.registry
    neighbours = (token, ("transfer", "transferFrom")), (registry, ("slash", "claim_bounty"))
    return Intruder(target, name, arguments, *neighbours)


@pytest.mark.parametrize(("name", "arguments"), TASKS_CALLS)
def test_tasks__reentered__take_slash_and_pay_once(
    stage: TaskStage, tasks: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: end the same task twice, or be paid while the fee is on its way in."""
    intruder = intruder_of(stage, tasks, name, arguments)
    task_id = intruder.locked_out(stage.create, 1)
    answers = WRONG, NO_COMMIT, RIGHT, RIGHT
    with stage.moves() as moved:
        intruder.locked_out(lambda: stage.play(*answers, task_id=task_id), 1)
        intruder.locked_out(lambda: stage.finalize(task_id), 1)
    odd, gone, first, second = stage.runners(task_id)
    assert moved["stake", odd.name] == moved["stake", gone.name] < 0
    assert (moved["tasks", first.name], moved["tasks", second.name]) == (HALF, REST)
    assert tasks.withdraw_bond(sender=first.payout) == HALF
    assert tasks.bonds_held() == REST


@pytest.mark.parametrize(("name", "arguments"), APPEALS_CALLS)
def test_appeals__reentered__judge_and_pay_once(
    stage: TaskStage, tasks: Any, appeals: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: from inside the bond's payment, a slash, or the claim of what was seized, whose
    transfer is another."""
    task_id = stage.play(WRONG, WRONG)
    intruder = intruder_of(stage, appeals, name, arguments)
    intruder.locked_out(lambda: stage.appeal(task_id), 1)
    stage.vote(task_id, RIGHT)
    stage.expire(task_id)
    intruder.locked_out(lambda: appeals.finalize(task_id), 4)
    assert stage.status(task_id) == CLOSED
    held, credit = appeals.bonds_held(), appeals.bond_credit(stage.appellant)
    assert appeals.withdraw_bond(sender=stage.appellant) == credit >= BOND
    assert appeals.bonds_held() == held - credit
