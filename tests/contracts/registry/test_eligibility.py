# SPDX-License-Identifier: Apache-2.0
"""Rule: an eligible node asked for the role, is approved, active, bonded, unsuspended and, as a
trainer, measured."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import COORDINATOR, SLASHER, ZERO, address_of, benchmark_passed

SCORE = stage.UNITS * 1_000_000 // 24


@pytest.fixture
def trained(registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register) -> int:
    """A TRAINER with a passed benchmark."""
    node_id = register("worker")
    benchmark_passed(registry, benchmarks, node_id, verifiers)
    return node_id


@pytest.fixture
def seven(registry: Any, register: stage.Register) -> list[int]:
    """Seven approved aggregators with growing stakes, in list order."""
    ids = []
    for i in range(7):
        ids.append(register(f"aggregator {i}", stage.AGGREGATOR, stage.STAKE + i * stage.ZOO))
        registry.approve_role(ids[-1], stage.AGGREGATOR, True, sender=COORDINATOR)
    return ids


def test_eligible__measured_trainer(registry: Any, trained: int) -> None:
    assert registry.is_eligible(trained, stage.TRAINER)


def test_eligible__unmeasured_trainer__is_not(registry: Any, node: int) -> None:
    assert not registry.is_eligible(node, stage.TRAINER)


@pytest.mark.parametrize("role", [0, stage.VERIFIER, stage.AGGREGATOR, 3, 7, 8, 2**255])
def test_eligible__other_roles__is_not(registry: Any, trained: int, role: int) -> None:
    assert not registry.is_eligible(trained, role)


@pytest.mark.parametrize("node_id", [0, 99])
def test_eligible__unknown_node__is_not(registry: Any, node_id: int) -> None:
    assert not any(registry.is_eligible(node_id, role) for role in (1, 2, 4))


def test_eligible__resting__comes_back(registry: Any, trained: int) -> None:
    for active in (False, True):
        registry.set_active(trained, active, sender=address_of("worker"))
        assert registry.is_eligible(trained, stage.TRAINER) == active


def test_eligible__suspended__comes_back_in_time(registry: Any, trained: int) -> None:
    registry.slash(trained, stage.INVALID, now(), ZERO, sender=SLASHER)
    assert not registry.is_eligible(trained, stage.TRAINER)
    wait(7 * 86_400 - 1)
    assert not registry.is_eligible(trained, stage.TRAINER)
    wait(1)
    assert registry.is_eligible(trained, stage.TRAINER)


def test_eligible__exiting_or_banned__never_again(
    registry: Any, trained: int, verifiers: stage.Keys
) -> None:
    registry.slash(trained, stage.REPEATED, now(), ZERO, sender=SLASHER)
    assert not registry.is_eligible(trained, stage.TRAINER)
    verifier = next(iter(verifiers))
    registry.begin_exit(verifier, sender=registry.owner_of(verifier))
    assert not registry.is_eligible(verifier, stage.VERIFIER)


def test_eligible__slashed_below_the_minimum__until_topped_up(
    registry: Any, register: stage.Register, fund: Any
) -> None:
    node_id = register("thin", stage.VERIFIER, stage.VERIFIER_STAKE)
    registry.approve_role(node_id, stage.VERIFIER, True, sender=COORDINATOR)
    registry.slash(node_id, stage.NO_REVEAL, now(), ZERO, sender=SLASHER)
    assert not registry.is_eligible(node_id, stage.VERIFIER)
    assert registry.role_nodes(stage.VERIFIER, 0, 9) == [node_id]
    owner = address_of("thin owner")
    fund(owner, 25 * stage.ZOO)
    registry.add_stake(node_id, 25 * stage.ZOO, sender=owner)
    assert registry.is_eligible(node_id, stage.VERIFIER)


def test_eligible__each_role_needs_its_own_minimum(registry: Any, register: stage.Register) -> None:
    node_id = register("two hats", stage.VERIFIER | stage.AGGREGATOR, stage.VERIFIER_STAKE)
    for role in (stage.VERIFIER, stage.AGGREGATOR):
        registry.approve_role(node_id, role, True, sender=COORDINATOR)
    assert registry.is_eligible(node_id, stage.VERIFIER)
    assert not registry.is_eligible(node_id, stage.AGGREGATOR)


# Lists


def test_weights__score_for_trainers_stake_for_others(
    registry: Any, trained: int, verifiers: stage.Keys
) -> None:
    assert registry.eligible_nodes(stage.TRAINER, 0, 128) == ([trained], [SCORE])
    assert registry.eligible_nodes(stage.VERIFIER, 0, 128) == (list(verifiers), [stage.STAKE] * 3)


@pytest.mark.parametrize("start", [0, 1, 6, 7, 13, 2**256 - 1])
@pytest.mark.parametrize("limit", [0, 1, 3, 7, 8, 128])
def test_eligible_nodes__wraps_and_lists_each_once(
    registry: Any, seven: list[int], start: int, limit: int
) -> None:
    at = start % 7
    expected = (seven[at:] + seven[:at])[:limit]
    ids, weights = registry.eligible_nodes(stage.AGGREGATOR, start, limit)
    assert ids == expected
    assert weights == [registry.node(i).stake for i in expected]


def test_eligible_nodes__scans_entries_not_eligible_ones(registry: Any, seven: list[int]) -> None:
    for node_id in seven[:3]:
        registry.set_active(node_id, False, sender=registry.operator_of(node_id))
    assert registry.eligible_nodes(stage.AGGREGATOR, 0, 3) == ([], [])
    assert registry.eligible_nodes(stage.AGGREGATOR, 1, 3)[0] == seven[3:4]


def test_eligible_nodes__unknown_role_or_empty_list(registry: Any) -> None:
    for role in (0, 1, 2, 4, 3, 8):
        assert registry.eligible_nodes(role, 5, 128) == ([], [])


@pytest.mark.parametrize("function", ["role_nodes", "eligible_nodes"])
def test_lists__over_the_limit__reverts(registry: Any, function: str) -> None:
    with boa.reverts("registry: limit too large"):
        getattr(registry, function)(stage.TRAINER, 0, 129)


@pytest.mark.parametrize(("start", "limit"), [(0, 7), (0, 3), (5, 10), (7, 1), (2**256 - 1, 128)])
def test_role_nodes__pages_without_wrapping(
    registry: Any, seven: list[int], start: int, limit: int
) -> None:
    assert registry.role_nodes(stage.AGGREGATOR, start, limit) == seven[start:][:limit]


@pytest.mark.parametrize("leaving", [[0], [6], [3], [0, 6, 3], list(range(7)), [6, 5, 4]])
def test_lists__nodes_leave__the_last_fills_the_gap(
    registry: Any, seven: list[int], leaving: list[int]
) -> None:
    expected = list(seven)
    for i in leaving:
        registry.begin_exit(seven[i], sender=registry.owner_of(seven[i]))
        place, last = expected.index(seven[i]), expected.pop()
        if last != seven[i]:
            expected[place] = last
    assert registry.role_nodes(stage.AGGREGATOR, 0, 128) == expected
    assert registry.role_count(stage.AGGREGATOR) == len(expected)


def test_eligible_nodes__of_128_nodes__fits_in_a_transaction(
    registry: Any, register: stage.Register
) -> None:
    for i in range(128):
        node_id = register(f"crowd {i}", stage.AGGREGATOR)
        registry.approve_role(node_id, stage.AGGREGATOR, True, sender=COORDINATOR)
    ids, _ = registry.eligible_nodes(stage.AGGREGATOR, 64, 128)
    assert sorted(ids) == list(range(1, 129))
    assert registry.call_trace().gas_used < 4_000_000


def test_payouts__of_128_nodes__in_order(registry: Any, node: int) -> None:
    assert registry.payouts([node, 0] * 64) == [stage.PAYOUT, ZERO] * 64
