# SPDX-License-Identifier: Apache-2.0
"""Rule: the cold key decides over operator, payout and roles; the hot key can only rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import (
    AGGREGATOR,
    PAUSE_BENCHMARK,
    REPEATED,
    TRAINER,
    UNBONDING,
    VERIFIER,
    WINDOW,
    ZERO,
    ZOO,
    address_of,
    own_events,
)

NOT_OWNERS = ["operator", "payout", "coordinator", "slasher", "stranger"]


@pytest.fixture
def fresh() -> str:
    return address_of("fresh")


@pytest.fixture
def closed(registry: Any, node: int, node_owner: str) -> int:
    registry.begin_exit(node, sender=node_owner)
    wait(UNBONDING)
    registry.withdraw(node, sender=node_owner)
    return node


# set_operator


def test_set_operator__moves_the_key(
    registry: Any, node: int, node_owner: str, operator: str, fresh: str
) -> None:
    registry.set_operator(node, fresh, sender=node_owner)
    fields = {"node_id": node, "old_operator": operator, "new_operator": fresh}
    assert own_events(registry) == [("OperatorChanged", fields)]
    assert registry.operator_of(node) == fresh
    assert registry.node_of(fresh) == node
    assert registry.node_of(operator) == 0


@pytest.mark.parametrize("who", NOT_OWNERS)
def test_set_operator__not_the_owner__reverts(
    registry: Any, node: int, fresh: str, who: str
) -> None:
    with boa.reverts("registry: not the owner"):
        registry.set_operator(node, fresh, sender=address_of(who))


def test_set_operator__unknown_node__reverts(registry: Any, stranger: str, fresh: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.set_operator(9, fresh, sender=stranger)


def test_set_operator__zero__reverts(registry: Any, node: int, node_owner: str) -> None:
    with boa.reverts("registry: zero address"):
        registry.set_operator(node, ZERO, sender=node_owner)


def test_set_operator__of_another_node__reverts(
    registry: Any, node: int, node_owner: str, register: Callable[..., int]
) -> None:
    """No node can take over another's operator."""
    register("victim")
    with boa.reverts("registry: operator in use"):
        registry.set_operator(node, address_of("victim"), sender=node_owner)


def test_set_operator__closed__reverts(
    registry: Any, closed: int, node_owner: str, fresh: str
) -> None:
    """A node without stake must not occupy an address."""
    with boa.reverts("registry: closed"):
        registry.set_operator(closed, fresh, sender=node_owner)


# set_payout


def test_set_payout__replaces(
    registry: Any, node: int, node_owner: str, payout: str, fresh: str
) -> None:
    registry.set_payout(node, fresh, sender=node_owner)
    fields = {"node_id": node, "old_payout": payout, "new_payout": fresh}
    assert own_events(registry) == [("PayoutChanged", fields)]
    assert registry.payouts([node]) == [fresh]


@pytest.mark.parametrize("who", NOT_OWNERS)
def test_set_payout__not_the_owner__reverts(registry: Any, node: int, fresh: str, who: str) -> None:
    """A stolen hot key cannot redirect rewards."""
    with boa.reverts("registry: not the owner"):
        registry.set_payout(node, fresh, sender=address_of(who))


def test_set_payout__unknown_node__reverts(registry: Any, stranger: str, fresh: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.set_payout(9, fresh, sender=stranger)


def test_set_payout__zero__reverts(registry: Any, node: int, node_owner: str) -> None:
    with boa.reverts("registry: zero address"):
        registry.set_payout(node, ZERO, sender=node_owner)


def test_set_payout__closed__still_works(
    registry: Any, closed: int, node_owner: str, fresh: str
) -> None:
    registry.set_payout(closed, fresh, sender=node_owner)
    assert registry.payouts([closed]) == [fresh]


# set_roles


def test_set_roles__replaces_and_updates_the_lists(
    registry: Any, node: int, node_owner: str, coordinator: str
) -> None:
    registry.set_roles(node, VERIFIER | AGGREGATOR, sender=node_owner)
    fields = {"node_id": node, "old_roles": TRAINER, "new_roles": VERIFIER | AGGREGATOR}
    assert own_events(registry) == [("RolesChanged", fields)]
    registry.approve_role(node, VERIFIER, True, sender=coordinator)
    assert registry.role_nodes(VERIFIER, 0, 9) == [node]
    assert registry.role_count(AGGREGATOR) == 0


def test_set_roles__dropping_and_adding__needs_a_fresh_approval(
    registry: Any, node: int, node_owner: str, coordinator: str
) -> None:
    registry.set_roles(node, TRAINER | VERIFIER, sender=node_owner)
    registry.approve_role(node, VERIFIER, True, sender=coordinator)
    assert registry.is_eligible(node, VERIFIER)
    registry.set_roles(node, TRAINER, sender=node_owner)
    assert registry.node(node).approved_roles == 0
    registry.set_roles(node, TRAINER | VERIFIER, sender=node_owner)
    assert not registry.is_eligible(node, VERIFIER)
    assert registry.role_count(VERIFIER) == 0


def test_set_roles__keeping_a_role__keeps_its_approval(
    registry: Any, node: int, node_owner: str, coordinator: str
) -> None:
    registry.set_roles(node, TRAINER | VERIFIER, sender=node_owner)
    registry.approve_role(node, VERIFIER, True, sender=coordinator)
    registry.set_roles(node, VERIFIER, sender=node_owner)
    assert registry.is_eligible(node, VERIFIER)


def test_set_roles__adding_trainer__may_request_a_benchmark(
    registry: Any, benchmarks: Any, register: Callable[..., int]
) -> None:
    node_id = register("late", VERIFIER)
    registry.set_roles(node_id, VERIFIER | TRAINER, sender=address_of("late owner"))
    assert benchmarks.benchmark(node_id).attempt == 0
    benchmarks.request_benchmark(node_id, sender=address_of("late"))
    assert benchmarks.benchmark(node_id).attempt == 1


@pytest.mark.parametrize("reason", ["pending", "paused"])
def test_set_roles__no_request_possible__adds_the_role(
    registry: Any, benchmarks: Any, node: int, node_owner: str, coordinator: str, reason: str
) -> None:
    registry.set_roles(node, VERIFIER, sender=node_owner)
    if reason == "paused":
        wait(WINDOW + 1)
        benchmarks.set_paused(PAUSE_BENCHMARK, sender=coordinator)
    registry.set_roles(node, TRAINER, sender=node_owner)
    assert benchmarks.benchmark(node).attempt == 1
    assert registry.node(node).roles == TRAINER


@pytest.mark.parametrize("who", NOT_OWNERS)
def test_set_roles__not_the_owner__reverts(registry: Any, node: int, who: str) -> None:
    with boa.reverts("registry: not the owner"):
        registry.set_roles(node, VERIFIER, sender=address_of(who))


def test_set_roles__unknown_node__reverts(registry: Any, stranger: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.set_roles(9, TRAINER, sender=stranger)


@pytest.mark.parametrize("roles", [0, 8, 15])
def test_set_roles__bad_roles__reverts(
    registry: Any, node: int, node_owner: str, roles: int
) -> None:
    with boa.reverts("registry: bad roles"):
        registry.set_roles(node, roles, sender=node_owner)


def test_set_roles__stake_too_low__reverts(registry: Any, register: Callable[..., int]) -> None:
    node_id = register("small", TRAINER, 100 * ZOO)
    with boa.reverts("registry: stake too low"):
        registry.set_roles(node_id, VERIFIER, sender=address_of("small owner"))


def test_set_roles__exiting__reverts(registry: Any, node: int, node_owner: str) -> None:
    """An exiting node must not come back into the lists."""
    registry.begin_exit(node, sender=node_owner)
    with boa.reverts("registry: exiting"):
        registry.set_roles(node, TRAINER | VERIFIER, sender=node_owner)


def test_set_roles__banned__reverts(
    registry: Any, node: int, node_owner: str, slasher: str
) -> None:
    registry.slash(node, REPEATED, now(), ZERO, sender=slasher)
    with boa.reverts("registry: banned"):
        registry.set_roles(node, TRAINER, sender=node_owner)


# set_active


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_set_active__by_owner_or_operator__switches(registry: Any, node: int, who: str) -> None:
    for active in (False, True):
        registry.set_active(node, active, sender=address_of(who))
        fields = {"node_id": node, "active": active}
        assert own_events(registry) == [("ActiveChanged", fields)]
        assert registry.node(node).active == active


@pytest.mark.parametrize("who", ["payout", "coordinator", "slasher", "stranger"])
def test_set_active__others__revert(registry: Any, node: int, who: str) -> None:
    with boa.reverts("registry: not the owner or operator"):
        registry.set_active(node, False, sender=address_of(who))


def test_set_active__unknown_node__reverts(registry: Any, stranger: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.set_active(9, True, sender=stranger)


# set_encryption_key


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_set_encryption_key__owner_or_operator__replaces_it(
    registry: Any, node: int, who: str
) -> None:
    assert registry.encryption_key_of(node) == b"\x01" * 32
    registry.set_encryption_key(node, b"\x02" * 32, sender=address_of(who))
    fields = {"node_id": node, "old_key": b"\x01" * 32, "new_key": b"\x02" * 32}
    assert own_events(registry) == [("EncryptionKeyChanged", fields)]
    assert registry.encryption_key_of(node) == b"\x02" * 32
    assert registry.node(node).encryption_key == b"\x02" * 32


def test_set_encryption_key__zero__is_none(registry: Any, node: int, operator: str) -> None:
    registry.set_encryption_key(node, bytes(32), sender=operator)
    assert registry.encryption_key_of(node) == bytes(32)


@pytest.mark.parametrize("who", ["payout", "coordinator", "slasher", "stranger"])
def test_set_encryption_key__anyone_else__reverts(registry: Any, node: int, who: str) -> None:
    with boa.reverts("registry: not the owner or operator"):
        registry.set_encryption_key(node, b"\x02" * 32, sender=address_of(who))


def test_set_encryption_key__unknown_node__reverts(registry: Any, stranger: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.set_encryption_key(9, b"\x02" * 32, sender=stranger)
    assert registry.encryption_key_of(9) == bytes(32)
