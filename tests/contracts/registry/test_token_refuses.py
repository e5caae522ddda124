# SPDX-License-Identifier: Apache-2.0
"""Rule: a token that answers False instead of reverting changes nothing in the registry."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import (
    NODE_OWNER,
    OPERATOR,
    PAYOUT,
    STAKE,
    ZOO,
    account,
    address_of,
    consent,
)

REFUSER = """
# pragma version ~=0.4.3
refuses: bool

@external
def set_refuses(refuses: bool):
    self.refuses = refuses

@external
def transfer(to: address, amount: uint256) -> bool:
    return not self.refuses

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return not self.refuses
"""


@pytest.fixture
def refuser() -> Any:
    return boa.loads(REFUSER)


@pytest.fixture
def bare_registry(registry_code: Any, refuser: Any, parameters: tuple[Any, ...]) -> Any:
    """A registry on that token, with one node, whose token refuses from now on."""
    benchmarks = address_of("benchmarks contract")
    registry = registry_code.deploy(
        refuser.address, benchmarks, stage.COORDINATOR, [stage.SLASHER], parameters
    )
    signed = consent(registry, account("operator"), NODE_OWNER)
    registry.register_node(
        OPERATOR, PAYOUT, stage.TRAINER, STAKE, stage.EMPTY, signed, sender=NODE_OWNER
    )
    return registry


def test_refused__register_node__reverts(bare_registry: Any, refuser: Any) -> None:
    refuser.set_refuses(True)
    with boa.reverts("registry: transfer failed"):
        bare_registry.register_node(
            stage.STRANGER, PAYOUT, stage.TRAINER, STAKE, stage.EMPTY, b"", sender=stage.STRANGER
        )
    assert bare_registry.node_count() == 1


def test_refused__add_stake__reverts(bare_registry: Any, refuser: Any) -> None:
    refuser.set_refuses(True)
    with boa.reverts("registry: transfer failed"):
        bare_registry.add_stake(1, ZOO, sender=NODE_OWNER)
    assert bare_registry.bonded(1) == STAKE


def test_refused__withdraw__reverts_and_can_be_repeated(bare_registry: Any, refuser: Any) -> None:
    bare_registry.begin_exit(1, sender=NODE_OWNER)
    wait(stage.UNBONDING)
    refuser.set_refuses(True)
    with boa.reverts("registry: transfer failed"):
        bare_registry.withdraw(1, sender=NODE_OWNER)
    refuser.set_refuses(False)
    bare_registry.withdraw(1, sender=NODE_OWNER)


def test_refused__claim_bounty__reverts_and_keeps_the_credit(
    bare_registry: Any, refuser: Any
) -> None:
    bare_registry.slash(1, stage.COPIED, now(), stage.REPORTER, sender=stage.SLASHER)
    refuser.set_refuses(True)
    with boa.reverts("registry: transfer failed"):
        bare_registry.claim_bounty(sender=stage.REPORTER)
    assert bare_registry.bounty(stage.REPORTER) == STAKE // 4
