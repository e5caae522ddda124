# SPDX-License-Identifier: Apache-2.0
"""Transfers, allowances and permits of ZOO as composed here."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from tests.stage.contracts.events import event, logged

ZERO = "0x" + "00" * 20
SUPPLY = 10**27
OWNER = Account.from_key(b"\x07" * 32)


def _signed_permit(zoo: Any, spender: str, amount: int, deadline: int, **changes: Any) -> Any:
    domain = {
        "name": "Zoo",
        "version": "1",
        "chainId": boa.env.evm.patch.chain_id,
        "verifyingContract": str(zoo.address),
    }
    message = {
        "owner": OWNER.address,
        "spender": spender,
        "value": amount,
        "nonce": 0,
        "deadline": deadline,
    }
    types = {
        "Permit": [
            {"name": "owner", "type": "address"},
            {"name": "spender", "type": "address"},
            {"name": "value", "type": "uint256"},
            {"name": "nonce", "type": "uint256"},
            {"name": "deadline", "type": "uint256"},
        ]
    }
    typed = encode_typed_data(domain | changes, types, message)
    signed = OWNER.sign_message(typed)
    return signed.v, signed.r.to_bytes(32, "big"), signed.s.to_bytes(32, "big")


def test_transfer__moves_units_and_keeps_the_supply(zoo: Any, treasury: str, holder: str) -> None:
    assert zoo.transfer(holder, 5, sender=treasury)
    assert logged(zoo) == [event("Transfer", sender=treasury, receiver=holder, value=5)]
    assert zoo.balanceOf(holder) == 5
    assert zoo.balanceOf(treasury) == SUPPLY - 5
    zoo.transfer(holder, 2, sender=holder)
    assert zoo.balanceOf(holder) == 5


def test_transfer__more_than_held_or_to_nobody__reverts(
    zoo: Any, treasury: str, holder: str
) -> None:
    with boa.reverts("erc20: transfer amount exceeds balance"):
        zoo.transfer(treasury, 1, sender=holder)
    with boa.reverts("erc20: transfer to the zero address"):
        zoo.transfer(ZERO, 1, sender=treasury)


def test_transfer_from__allowance__is_used_up(
    zoo: Any, treasury: str, holder: str, spender: str
) -> None:
    zoo.approve(spender, 4, sender=treasury)
    assert logged(zoo) == [event("Approval", owner=treasury, spender=spender, value=4)]
    zoo.transferFrom(treasury, holder, 3, sender=spender)
    assert zoo.allowance(treasury, spender) == 1
    with boa.reverts("erc20: insufficient allowance"):
        zoo.transferFrom(treasury, holder, 3, sender=spender)


def test_permit__signed_by_the_owner__sets_the_allowance_once(zoo: Any, spender: str) -> None:
    deadline = boa.env.timestamp + 10
    v, r, s = _signed_permit(zoo, spender, 9, deadline)
    zoo.permit(OWNER.address, spender, 9, deadline, v, r, s)
    assert logged(zoo) == [event("Approval", owner=OWNER.address, spender=spender, value=9)]
    assert zoo.allowance(OWNER.address, spender) == 9
    assert zoo.nonces(OWNER.address) == 1
    with boa.reverts("erc20: invalid signature"):
        zoo.permit(OWNER.address, spender, 9, deadline, v, r, s)


def test_permit__late__reverts(zoo: Any, spender: str) -> None:
    deadline = boa.env.timestamp
    v, r, s = _signed_permit(zoo, spender, 9, deadline)
    boa.env.time_travel(seconds=1)
    with boa.reverts("erc20: expired deadline"):
        zoo.permit(OWNER.address, spender, 9, deadline, v, r, s)


@pytest.mark.parametrize("changes", [{"chainId": 5}, {"verifyingContract": ZERO}, {"name": "Z"}])
def test_permit__made_for_another_domain__reverts(
    zoo: Any, spender: str, changes: dict[str, Any]
) -> None:
    deadline = boa.env.timestamp + 10
    v, r, s = _signed_permit(zoo, spender, 9, deadline, **changes)
    with boa.reverts("erc20: invalid signature"):
        zoo.permit(OWNER.address, spender, 9, deadline, v, r, s)
    v, r, s = _signed_permit(zoo, spender, 9, deadline)
    with boa.reverts("erc20: invalid signature"):
        zoo.permit(OWNER.address, spender, 10, deadline, v, r, s)
