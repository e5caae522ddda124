# SPDX-License-Identifier: Apache-2.0
"""A token that answers False moves nothing: neither does the contract."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event
from tests.stage.contracts.system import events_of, refuses
from tests.stage.contracts.tasks import AGREED, HALF, RIGHT, TaskStage

REFUSER = """
# pragma version ~=0.4.3

@external
def transfer(to: address, amount: uint256) -> bool:
    return False

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return False
"""


@pytest.fixture
def refuse(stage: TaskStage) -> Any:
    """Turns ZOO's code into one that refuses everything, and back."""
    address = stage.system.token.address
    good, bad = boa.env.get_code(address), boa.env.get_code(boa.loads(REFUSER).address)

    def turn(on: bool) -> None:
        boa.env.set_code(address, bad if on else good)

    return turn


def test_create__refused__no_task(stage: TaskStage, tasks: Any, refuse: Any) -> None:
    refuse(True)
    with refuses("bonds: transfer failed"):
        stage.create()
    assert (tasks.task_count(), tasks.bonds_held()) == (0, 0)


def test_withdraw__refused__the_credit_stays(stage: TaskStage, tasks: Any, refuse: Any) -> None:
    player = stage.runners(stage.play(RIGHT, RIGHT))[0]
    refuse(True)
    with refuses("bonds: transfer failed"):
        tasks.withdraw_bond(sender=player.payout)
    assert tasks.bond_credit(player.payout) == HALF
    refuse(False)
    assert tasks.withdraw_bond(sender=player.payout) == HALF
    assert events_of(tasks) == [event("BondWithdrawn", account=player.payout, amount=HALF)]
    assert stage.system.token.balanceOf(player.payout) == HALF


def test_appeal__refused__the_task_is_not_appealed(
    stage: TaskStage, appeals: Any, refuse: Any
) -> None:
    task_id = stage.play(RIGHT, RIGHT)
    refuse(True)
    with refuses("bonds: transfer failed"):
        stage.appeal(task_id)
    assert stage.status(task_id) == AGREED
    assert (appeals.bonds_held(), appeals.appeal_of(task_id).deadline) == (0, 0)
