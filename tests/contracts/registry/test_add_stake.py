# SPDX-License-Identifier: Apache-2.0
"""Rule: only the owner adds stake, at least one ZOO, and only to a node that stays."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.registry import (
    REPEATED,
    STAKE,
    ZERO,
    ZOO,
    address_of,
    own_events,
)


def test_add_stake__adds_and_tells(registry: Any, token: Any, node: int, node_owner: str) -> None:
    registry.add_stake(node, 5 * ZOO, sender=node_owner)
    fields = {"node_id": node, "amount": 5 * ZOO, "stake": STAKE + 5 * ZOO}
    assert own_events(registry) == [("StakeAdded", fields)]
    assert registry.node(node).stake == registry.total_stake() == STAKE + 5 * ZOO
    assert token.balanceOf(registry.address) == STAKE + 5 * ZOO


def test_add_stake__unknown_node__reverts(registry: Any, node_owner: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.add_stake(1, ZOO, sender=node_owner)


@pytest.mark.parametrize("who", ["operator", "payout", "coordinator", "slasher", "stranger"])
def test_add_stake__not_the_owner__reverts(registry: Any, node: int, who: str) -> None:
    """Otherwise anyone could flush the ring that protects additions."""
    with boa.reverts("registry: not the owner"):
        registry.add_stake(node, ZOO, sender=address_of(who))


def test_add_stake__below_one_zoo__reverts(registry: Any, node: int, node_owner: str) -> None:
    with boa.reverts("registry: addition too small"):
        registry.add_stake(node, ZOO - 1, sender=node_owner)


def test_add_stake__while_exiting__reverts(registry: Any, node: int, node_owner: str) -> None:
    registry.begin_exit(node, sender=node_owner)
    with boa.reverts("registry: exiting"):
        registry.add_stake(node, ZOO, sender=node_owner)


def test_add_stake__banned__reverts(
    registry: Any, node: int, node_owner: str, slasher: str
) -> None:
    registry.slash(node, REPEATED, boa.env.timestamp, ZERO, sender=slasher)
    with boa.reverts("registry: banned"):
        registry.add_stake(node, ZOO, sender=node_owner)


def test_add_stake__without_the_tokens__reverts(registry: Any, node: int, node_owner: str) -> None:
    with boa.reverts():
        registry.add_stake(node, 10**6 * ZOO, sender=node_owner)
    assert registry.node(node).stake == STAKE
