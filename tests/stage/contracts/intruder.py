# SPDX-License-Identifier: Apache-2.0
"""Neighbours of a contract that call back from the middle of a call: the token, the registry, any
other contract. They do their work as ever, and before it they strike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
from eth_abi import encode

from tests.stage.contracts.system import ERROR_SELECTOR

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


def _selector(contract: Any, function: str) -> bytes:
    (method_id,) = getattr(contract, function).func_t.method_ids.values()
    return int(method_id).to_bytes(4, "big")


class Intruder:
    """Calls one function of `target` from inside others: `strikes_in` are pairs of a contract and
    the names of one or two of its functions."""

    def __init__(
        self,
        target: Any,
        name: str,
        arguments: tuple[Any, ...],
        *strikes_in: tuple[Any, tuple[str, ...]],
    ):
        self.name = name
        self.striker = boa.loads(STRIKER)
        data = getattr(target, name).prepare_calldata(*arguments)
        self.striker.arm(target.address, bytes(data))
        for contract, functions in strikes_in:
            first, last = (_selector(contract, name) for name in (functions[0], functions[-1]))
            self._replace(contract, first, last)

    def _replace(self, contract: Any, one: bytes, two: bytes) -> None:
        work = boa.env.generate_address()
        boa.env.set_code(work, boa.env.get_code(contract.address))
        forwarder = boa.loads(FORWARDER, work, self.striker.address, one, two)
        boa.env.set_code(contract.address, boa.env.get_code(forwarder.address))

    def locked_out(self, act: Callable[[], Any], strikes: int, reason: str = "") -> Any:
        """`act` calls out so often, and each time the striker is refused: by the lock, which is a
        revert without a reason, unless told. `withdraw_bond` has none: it empties a credit before
        it pays, and finds no credit of the striker's."""
        before = self.striker.strikes()
        result = act()
        said = reason or ("bonds: nothing to withdraw" if self.name == "withdraw_bond" else "")
        answer = ERROR_SELECTOR + encode(["string"], [said]) if said else b""
        assert self.striker.strikes() - before == strikes
        assert (self.striker.breaches(), self.striker.answer()) == (0, answer)
        return result
