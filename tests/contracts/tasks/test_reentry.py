# SPDX-License-Identifier: Apache-2.0
"""A token or a registry that calls back from the middle of a payment or a slash: the lock of the
contract that is at work refuses it, and what it moves is what it moves without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest
from eth_abi import encode

from tests.stage.contracts.system import ERROR_SELECTOR, ZERO
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
STRIKER = """
# pragma version ~=0.4.3
# pragma nonreentrancy off

target: address
data: Bytes[1024]
strikes: public(uint256)
breaches: public(uint256)
answer: public(Bytes[256])

@external
def arm(target: address, data: Bytes[1024]):
    self.target = target
    self.data = data

@external
def strike():
    ok: bool = False
    self.strikes += 1
    ok, self.answer = raw_call(self.target, self.data, max_outsize=256, revert_on_failure=False)
    if ok:
        self.breaches += 1
"""
# Stands in a contract's place and storage: two of its functions strike before they do their work.
FORWARDER = """
# pragma version ~=0.4.3
# pragma nonreentrancy off

interface Striker:
    def strike(): nonpayable

_WORK: immutable(address)
_STRIKER: immutable(address)
_ONE: immutable(bytes4)
_TWO: immutable(bytes4)

@deploy
def __init__(work: address, striker: address, one: bytes4, two: bytes4):
    _WORK = work
    _STRIKER = striker
    _ONE = one
    _TWO = two

@external
@raw_return
def __default__() -> Bytes[8192]:
    called: bytes4 = convert(slice(msg.data, 0, 4), bytes4)
    if called == _ONE or called == _TWO:
        extcall Striker(_STRIKER).strike()
    return raw_call(_WORK, msg.data, max_outsize=8192, is_delegate_call=True)
"""

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


class Intruder:
    """The token and the registry, both in league with one striker."""

    def __init__(self, stage: TaskStage, target: Any, name: str, arguments: tuple[Any, ...]):
        self.name = name
        self.striker = boa.loads(STRIKER)
        data = getattr(target, name).prepare_calldata(*arguments)
        self.striker.arm(target.address, bytes(data))
        system = stage.system
        self._replace(
            system.token.address,
            system.token.transfer.prepare_calldata(ZERO, 0),
            system.token.transferFrom.prepare_calldata(ZERO, ZERO, 0),
        )
        self._replace(
            system.registry.address,
            system.registry.slash.prepare_calldata(1, 1, 1, ZERO),
            system.registry.claim_bounty.prepare_calldata(),
        )

    def _replace(self, address: str, one: bytes, two: bytes) -> None:
        work = boa.env.generate_address()
        boa.env.set_code(work, boa.env.get_code(address))
        forwarder = boa.loads(FORWARDER, work, self.striker.address, one[:4], two[:4])
        boa.env.set_code(address, boa.env.get_code(forwarder.address))

    def locked_out(self, act: Callable[[], Any], strikes: int) -> Any:
        """`act` calls out so often, and each time the lock refused the striker, which is a revert
        without a reason. `withdraw_bond` finds no credit of the striker's."""
        before = self.striker.strikes()
        result = act()
        said = ERROR_SELECTOR + encode(["string"], ["bonds: nothing to withdraw"])
        answer = said if self.name == "withdraw_bond" else b""
        assert self.striker.strikes() - before == strikes
        assert (self.striker.breaches(), self.striker.answer()) == (0, answer)
        return result


@pytest.mark.parametrize(("name", "arguments"), TASKS_CALLS)
def test_tasks__reentered__take_slash_and_pay_once(
    stage: TaskStage, tasks: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: end the same task twice, or be paid while the fee is on its way in."""
    intruder = Intruder(stage, tasks, name, arguments)
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
    intruder = Intruder(stage, appeals, name, arguments)
    intruder.locked_out(lambda: stage.appeal(task_id), 1)
    stage.vote(task_id, RIGHT)
    stage.expire(task_id)
    intruder.locked_out(lambda: appeals.finalize(task_id), 4)
    assert stage.status(task_id) == CLOSED
    held, credit = appeals.bonds_held(), appeals.bond_credit(stage.appellant)
    assert appeals.withdraw_bond(sender=stage.appellant) == credit >= BOND
    assert appeals.bonds_held() == held - credit
