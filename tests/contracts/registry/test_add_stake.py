# SPDX-License-Identifier: Apache-2.0
"""Rule: only the owner adds stake, at least one ZOO, and only to a node that stays."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.events import events_of
from tests.stage.contracts.registry import NODE_OWNER, STAKE, ZOO


def test_add_stake__adds_and_tells(registry: Any, token: Any, node: int) -> None:
    registry.add_stake(node, 5 * ZOO, sender=NODE_OWNER)
    fields = {"node_id": node, "amount": 5 * ZOO, "stake": STAKE + 5 * ZOO}
    assert events_of(registry) == [("StakeAdded", fields)]
    assert registry.node(node).stake == registry.total_stake() == STAKE + 5 * ZOO
    assert token.balanceOf(registry.address) == STAKE + 5 * ZOO


def test_add_stake__without_the_tokens__reverts(registry: Any, node: int) -> None:
    with boa.reverts():
        registry.add_stake(node, 10**6 * ZOO, sender=NODE_OWNER)
    assert registry.node(node).stake == STAKE
