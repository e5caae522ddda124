# SPDX-License-Identifier: Apache-2.0
"""Rule: a bounty is taken out once, whole, by whom it was credited to, whatever is paused."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now
from tests.stage.contracts.events import event, events_of
from tests.stage.contracts.registry import COORDINATOR, COPIED, REPORTER, address_of


@pytest.fixture
def credited(registry: Any, node: int) -> int:
    registry.slash(node, COPIED, now(), REPORTER, sender=stage.SLASHER)
    return stage.STAKE // 4


@pytest.mark.parametrize("who", ["reporter", "treasury"])
def test_claim_bounty__pays_once(registry: Any, token: Any, credited: int, who: str) -> None:
    account = address_of(who)
    assert registry.claim_bounty(sender=account) == credited
    assert events_of(registry) == [event("BountyClaimed", account=account, amount=credited)]
    assert token.balanceOf(account) == credited
    assert registry.bounty(account) == 0
    assert registry.total_bounties() == credited
    assert token.balanceOf(registry.address) == registry.total_stake() + registry.total_bounties()
    with boa.reverts("registry: nothing to claim"):
        registry.claim_bounty(sender=account)


@pytest.mark.parametrize("who", ["node_owner", "operator", "slasher", "coordinator", "stranger"])
def test_claim_bounty__without_credit__reverts(registry: Any, credited: int, who: str) -> None:
    with boa.reverts("registry: nothing to claim"):
        registry.claim_bounty(sender=address_of(who))


def test_claim_bounty__everything_paused__still_works(registry: Any, credited: int) -> None:
    registry.set_paused(stage.PAUSE_REGISTER, sender=COORDINATOR)
    assert registry.claim_bounty(sender=REPORTER) == credited
