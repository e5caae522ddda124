# SPDX-License-Identifier: Apache-2.0
"""A token and a registry that call back from the middle of a payment or a slash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
from eth_abi import encode

from tests.stage.contracts.system import ERROR_SELECTOR, ZERO, System

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


class Intruder:
    """The token and the registry, both in league with one striker.

    The token strikes in its transfers, the registry in `slash` and another function: in
    `claim_bounty` unless told.
    """

    def __init__(
        self, system: System, target: Any, name: str, arguments: tuple[Any, ...], other: bytes = b""
    ):
        self.name = name
        self.striker = boa.loads(STRIKER)
        data = getattr(target, name).prepare_calldata(*arguments)
        self.striker.arm(target.address, bytes(data))
        self._replace(
            system.token.address,
            system.token.transfer.prepare_calldata(ZERO, 0),
            system.token.transferFrom.prepare_calldata(ZERO, ZERO, 0),
        )
        self._replace(
            system.registry.address,
            system.registry.slash.prepare_calldata(1, 1, 1, ZERO),
            other or system.registry.claim_bounty.prepare_calldata(),
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
