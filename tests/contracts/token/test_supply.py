# SPDX-License-Identifier: Apache-2.0
"""The supply is made once, for one holder; afterwards it only shrinks, by burning."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth.exceptions import Revert
from eth_utils import keccak

from tests.stage.contracts.events import event, logged

ZERO = "0x" + "00" * 20
SUPPLY = 10**27

FUNCTIONS = {
    "DOMAIN_SEPARATOR",
    "allowance",
    "approve",
    "balanceOf",
    "burn",
    "burn_from",
    "decimals",
    "eip712Domain",
    "name",
    "nonces",
    "permit",
    "symbol",
    "totalSupply",
    "transfer",
    "transferFrom",
}


def test_constructor__whole_supply__goes_to_the_holder(
    zoo: Any, treasury: str, deployer: str
) -> None:
    assert logged(zoo) == [
        event("OwnershipTransferred", previous_owner=ZERO, new_owner=deployer),
        event("RoleMinterChanged", minter=deployer, status=True),
        event("RoleMinterChanged", minter=deployer, status=False),
        event("OwnershipTransferred", previous_owner=deployer, new_owner=ZERO),
        event("Transfer", sender=ZERO, receiver=treasury, value=SUPPLY),
    ]
    assert zoo.totalSupply() == zoo.balanceOf(treasury) == SUPPLY
    assert zoo.balanceOf(deployer) == 0
    assert (zoo.name(), zoo.symbol(), zoo.decimals()) == ("Zoo", "ZOO", 18)


def test_constructor__empty_supply__reverts(zoo_blueprint: Any, treasury: str) -> None:
    with boa.reverts("zoo: empty supply"):
        zoo_blueprint.deploy(treasury, 0)


def test_constructor__zero_holder__reverts(zoo_blueprint: Any) -> None:
    with boa.reverts("erc20: mint to the zero address"):
        zoo_blueprint.deploy(ZERO, SUPPLY)


def test_abi__functions__are_exactly_these(zoo: Any) -> None:
    names = {entry["name"] for entry in zoo.abi if entry["type"] == "function"}
    assert names == FUNCTIONS


@pytest.mark.parametrize(
    "signature",
    [
        "mint(address,uint256)",
        "set_minter(address,bool)",
        "is_minter(address)",
        "owner()",
        "transfer_ownership(address)",
        "renounce_ownership()",
    ],
)
def test_abi__raw_call_of_a_privileged_function__reverts(
    zoo: Any, deployer: str, treasury: str, signature: str
) -> None:
    """The deployer made the token; calling what isn't exported must not reach the module."""
    data = keccak(text=signature)[:4] + bytes(31) + b"\x01" + bytes(31) + b"\x01"
    for sender in (deployer, treasury):
        with pytest.raises(Revert):
            boa.env.raw_call(to_address=zoo.address, data=data, sender=sender)
    assert zoo.totalSupply() == SUPPLY


def test_burn__own_units__shrinks_the_supply(zoo: Any, treasury: str) -> None:
    zoo.burn(10, sender=treasury)
    assert logged(zoo) == [event("Transfer", sender=treasury, receiver=ZERO, value=10)]
    assert zoo.totalSupply() == zoo.balanceOf(treasury) == SUPPLY - 10


def test_burn__more_than_held__reverts(zoo: Any, holder: str) -> None:
    with boa.reverts("erc20: burn amount exceeds balance"):
        zoo.burn(1, sender=holder)


def test_burn_from__allowance__limits_it(zoo: Any, treasury: str, spender: str) -> None:
    with boa.reverts("erc20: insufficient allowance"):
        zoo.burn_from(treasury, 1, sender=spender)
    zoo.approve(spender, 3, sender=treasury)
    zoo.burn_from(treasury, 2, sender=spender)
    assert zoo.allowance(treasury, spender) == 1
    assert zoo.totalSupply() == SUPPLY - 2
    with boa.reverts("erc20: insufficient allowance"):
        zoo.burn_from(treasury, 2, sender=spender)
