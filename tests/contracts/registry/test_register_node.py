# SPDX-License-Identifier: Apache-2.0
"""Rule: a node is a new id, an unused operator and a stake that has arrived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import now
from tests.stage.contracts.registry import (
    AGGREGATOR,
    AGGREGATOR_STAKE,
    EMPTY,
    PAUSE_REGISTER,
    STAKE,
    TRAINER,
    TRAINER_STAKE,
    VERIFIER,
    VERIFIER_STAKE,
    ZERO,
    ZOO,
    address_of,
    own_events,
)

KEY = b"\x01" * 32


@pytest.fixture
def funded(fund: Callable[[str, int], None], node_owner: str) -> str:
    fund(node_owner, 10_000 * ZOO)
    return node_owner


def test_register_node__records_takes_and_tells(
    registry: Any, token: Any, funded: str, operator: str, payout: str
) -> None:
    node_id = registry.register_node(operator, payout, TRAINER, STAKE, KEY, sender=funded)
    assert own_events(registry) == [
        (
            "NodeRegistered",
            {
                "node_id": 1,
                "owner": funded,
                "operator": operator,
                "payout": payout,
                "roles": TRAINER,
                "stake": STAKE,
                "encryption_key": KEY,
            },
        ),
    ]
    assert node_id == 1
    assert tuple(registry.node(1)) == (
        funded,
        operator,
        payout,
        TRAINER,
        0,
        STAKE,
        0,
        0,
        0,
        False,
        True,
        0,
        0,
        0,
        now(),
        KEY,
    )
    assert registry.node_of(operator) == 1
    assert registry.operator_of(1) == operator
    assert registry.owner_of(1) == funded
    assert registry.payouts([1, 2, 1]) == [payout, ZERO, payout]
    assert registry.bonded(1) == registry.total_stake() == STAKE
    assert token.balanceOf(registry.address) == STAKE
    assert registry.role_nodes(TRAINER, 0, 128) == []  # not measured yet


def test_register_node__ids_count_up(registry: Any, register: Callable[..., int]) -> None:
    assert [register(name) for name in ("one", "two", "three")] == [1, 2, 3]
    assert registry.node_count() == 3


def test_register_node__owner_may_be_the_operator(registry: Any, funded: str, payout: str) -> None:
    assert registry.register_node(funded, payout, TRAINER, STAKE, EMPTY, sender=funded) == 1


def test_register_node__one_owner_many_nodes(registry: Any, funded: str, payout: str) -> None:
    for name in ("a", "b"):
        registry.register_node(address_of(name), payout, TRAINER, STAKE, EMPTY, sender=funded)
    assert registry.owner_of(1) == registry.owner_of(2) == funded


def test_register_node__operator_in_use__reverts(
    registry: Any, node: int, funded: str, operator: str, payout: str
) -> None:
    with boa.reverts("registry: operator in use"):
        registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, sender=funded)


@pytest.mark.parametrize("missing", ["operator", "payout"])
def test_register_node__zero_address__reverts(
    registry: Any, funded: str, operator: str, payout: str, missing: str
) -> None:
    given = {"operator": operator, "payout": payout} | {missing: ZERO}
    with boa.reverts("registry: zero address"):
        registry.register_node(*given.values(), TRAINER, STAKE, EMPTY, sender=funded)


@pytest.mark.parametrize("roles", [0, 8, 9, 2**255])
def test_register_node__bad_roles__reverts(
    registry: Any, funded: str, operator: str, payout: str, roles: int
) -> None:
    with boa.reverts("registry: bad roles"):
        registry.register_node(operator, payout, roles, STAKE, EMPTY, sender=funded)


@pytest.mark.parametrize(
    ("roles", "least"),
    [
        (TRAINER, TRAINER_STAKE),
        (VERIFIER, VERIFIER_STAKE),
        (AGGREGATOR, AGGREGATOR_STAKE),
        (VERIFIER | AGGREGATOR, VERIFIER_STAKE),
        (TRAINER | VERIFIER | AGGREGATOR, TRAINER_STAKE),
    ],
)
def test_register_node__stake_below_the_least_minimum__reverts(
    registry: Any, funded: str, operator: str, payout: str, roles: int, least: int
) -> None:
    with boa.reverts("registry: stake too low"):
        registry.register_node(operator, payout, roles, least - 1, EMPTY, sender=funded)
    assert registry.register_node(operator, payout, roles, least, EMPTY, sender=funded) == 1


def test_register_node__without_the_tokens__reverts(
    registry: Any, stranger: str, operator: str, payout: str
) -> None:
    with boa.reverts():
        registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, sender=stranger)
    assert registry.node_count() == 0


def test_register_node__paused__reverts(
    registry: Any, coordinator: str, funded: str, operator: str, payout: str
) -> None:
    registry.set_paused(PAUSE_REGISTER, sender=coordinator)
    with boa.reverts("pausing: paused"):
        registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, sender=funded)


def test_register_node__trainer__requests_its_benchmark_itself(
    registry: Any, benchmarks: Any, funded: str, operator: str, payout: str
) -> None:
    """Its window begins when its operator is ready to work, not when its owner registers it."""
    registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, sender=funded)
    assert benchmarks.benchmark(1).attempt == 0
    benchmarks.request_benchmark(1, sender=operator)
    assert benchmarks.benchmark(1).attempt == 1


@pytest.mark.parametrize("role", [VERIFIER, AGGREGATOR])
def test_register_node__gated_role__waits_for_approval(
    registry: Any, benchmarks: Any, register: Callable[..., int], role: int
) -> None:
    """A stranger cannot enter or crowd the list of verifiers by paying for it."""
    node_id = register("hopeful", role)
    assert registry.node(node_id).approved_roles == 0
    assert not registry.is_eligible(node_id, role)
    assert registry.role_count(role) == 0
    assert benchmarks.benchmark(node_id).attempt == 0
