# SPDX-License-Identifier: Apache-2.0
"""Rule: the cold key decides over operator, payout and roles; the hot key can only rest."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import events_of
from tests.stage.contracts.registry import (
    AGGREGATOR,
    TRAINER,
    VERIFIER,
    account,
    address_of,
    consent,
)


@pytest.fixture
def fresh() -> str:
    return address_of("fresh")


@pytest.fixture
def closed(registry: Any, node: int) -> int:
    registry.begin_exit(node, sender=stage.NODE_OWNER)
    wait(stage.UNBONDING)
    registry.withdraw(node, sender=stage.NODE_OWNER)
    return node


def test_set_operator__moves_the_key(registry: Any, node: int, fresh: str) -> None:
    signed = consent(registry, account("fresh"), stage.NODE_OWNER)
    registry.set_operator(node, fresh, signed, sender=stage.NODE_OWNER)
    fields = {"node_id": node, "old_operator": stage.OPERATOR, "new_operator": fresh}
    assert events_of(registry) == [("OperatorChanged", fields)]
    assert registry.operator_of(node) == fresh
    assert registry.node_of(fresh) == node
    assert registry.node_of(stage.OPERATOR) == 0


def test_set_operator__of_another_node__reverts(
    registry: Any, node: int, register: stage.Register
) -> None:
    """No node can take over another's operator."""
    register("victim")
    with boa.reverts("registry: operator in use"):
        registry.set_operator(node, address_of("victim"), b"", sender=stage.NODE_OWNER)


def test_set_payout__replaces(registry: Any, node: int, fresh: str) -> None:
    registry.set_payout(node, fresh, sender=stage.NODE_OWNER)
    fields = {"node_id": node, "old_payout": stage.PAYOUT, "new_payout": fresh}
    assert events_of(registry) == [("PayoutChanged", fields)]
    assert registry.payouts([node]) == [fresh]


def test_set_payout__closed__still_works(registry: Any, closed: int, fresh: str) -> None:
    registry.set_payout(closed, fresh, sender=stage.NODE_OWNER)
    assert registry.payouts([closed]) == [fresh]


def test_set_roles__replaces_and_updates_the_lists(registry: Any, node: int) -> None:
    registry.set_roles(node, VERIFIER | AGGREGATOR, sender=stage.NODE_OWNER)
    fields = {"node_id": node, "old_roles": TRAINER, "new_roles": VERIFIER | AGGREGATOR}
    assert events_of(registry) == [("RolesChanged", fields)]
    registry.approve_role(node, VERIFIER, True, sender=stage.COORDINATOR)
    assert registry.role_nodes(VERIFIER, 0, 9) == [node]
    assert registry.role_count(AGGREGATOR) == 0


def test_set_roles__dropping_and_adding__needs_a_fresh_approval(registry: Any, node: int) -> None:
    registry.set_roles(node, TRAINER | VERIFIER, sender=stage.NODE_OWNER)
    registry.approve_role(node, VERIFIER, True, sender=stage.COORDINATOR)
    assert registry.is_eligible(node, VERIFIER)
    registry.set_roles(node, TRAINER, sender=stage.NODE_OWNER)
    assert registry.node(node).approved_roles == 0
    registry.set_roles(node, TRAINER | VERIFIER, sender=stage.NODE_OWNER)
    assert not registry.is_eligible(node, VERIFIER)
    assert registry.role_count(VERIFIER) == 0


def test_set_roles__keeping_a_role__keeps_its_approval(registry: Any, node: int) -> None:
    registry.set_roles(node, TRAINER | VERIFIER, sender=stage.NODE_OWNER)
    registry.approve_role(node, VERIFIER, True, sender=stage.COORDINATOR)
    registry.set_roles(node, VERIFIER, sender=stage.NODE_OWNER)
    assert registry.is_eligible(node, VERIFIER)


def test_set_roles__adding_trainer__may_request_a_benchmark(
    registry: Any, benchmarks: Any, register: stage.Register
) -> None:
    node_id = register("late", VERIFIER)
    registry.set_roles(node_id, VERIFIER | TRAINER, sender=address_of("late owner"))
    assert benchmarks.benchmark(node_id).attempt == 0
    benchmarks.request_benchmark(node_id, sender=address_of("late"))
    assert benchmarks.benchmark(node_id).attempt == 1


@pytest.mark.parametrize("reason", ["pending", "paused"])
def test_set_roles__no_request_possible__adds_the_role(
    registry: Any, benchmarks: Any, node: int, reason: str
) -> None:
    registry.set_roles(node, VERIFIER, sender=stage.NODE_OWNER)
    if reason == "paused":
        wait(stage.WINDOW + 1)
        benchmarks.set_paused(stage.PAUSE_BENCHMARK, sender=stage.COORDINATOR)
    registry.set_roles(node, TRAINER, sender=stage.NODE_OWNER)
    assert benchmarks.benchmark(node).attempt == 1
    assert registry.node(node).roles == TRAINER


def test_set_roles__stake_too_low__reverts(registry: Any, register: stage.Register) -> None:
    node_id = register("small", TRAINER, 100 * stage.ZOO)
    with boa.reverts("registry: stake too low"):
        registry.set_roles(node_id, VERIFIER, sender=address_of("small owner"))


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_set_active__by_owner_or_operator__switches(registry: Any, node: int, who: str) -> None:
    for active in (False, True):
        registry.set_active(node, active, sender=address_of(who))
        fields = {"node_id": node, "active": active}
        assert events_of(registry) == [("ActiveChanged", fields)]
        assert registry.node(node).active == active


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_set_encryption_key__owner_or_operator__replaces_it(
    registry: Any, node: int, who: str
) -> None:
    assert registry.encryption_key_of(node) == b"\x01" * 32
    registry.set_encryption_key(node, b"\x02" * 32, sender=address_of(who))
    fields = {"node_id": node, "old_key": b"\x01" * 32, "new_key": b"\x02" * 32}
    assert events_of(registry) == [("EncryptionKeyChanged", fields)]
    assert registry.encryption_key_of(node) == b"\x02" * 32
    assert registry.node(node).encryption_key == b"\x02" * 32


def test_set_encryption_key__zero__is_none(registry: Any, node: int) -> None:
    registry.set_encryption_key(node, bytes(32), sender=stage.OPERATOR)
    assert registry.encryption_key_of(node) == bytes(32)
