# SPDX-License-Identifier: Apache-2.0
"""A false benchmark: what it takes, and that it does not stand for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import events_of
from tests.stage.contracts.registry import (
    COORDINATOR,
    FALSE_REPORT,
    STAKE,
    TRAINER,
    TREASURY,
    UNBONDING,
    VERIFIER,
    Keys,
    account,
    address_of,
    first,
    give,
    request,
    sign_verdict,
    submit,
)


@pytest.fixture
def scored(registry: Any, benchmarks: Any, answered: int, verifiers: Keys) -> int:
    """A node with a score that two of three verifiers gave it; NodeBenchmarks may slash."""
    registry.set_slasher(benchmarks.address, True, sender=COORDINATOR)
    give(benchmarks, answered, first(verifiers, 2))
    assert registry.node(answered).benchmark_score > 0
    return answered


def test_attack__false_benchmark__costs_its_verifiers_a_fifth_and_its_score(
    registry: Any, benchmarks: Any, scored: int, verifiers: Keys
) -> None:
    """Two verifiers pass a benchmark that is false. It stood for ever and cost them nothing."""
    liars = list(first(verifiers, 2))
    benchmarks.overrule(scored, 2, True, liars, sender=COORDINATOR)
    names = [name for name, _ in events_of(benchmarks)]
    assert names == ["BenchmarkVerdictSlashed"] * 2 + ["VerdictOverruled"]
    assert [registry.bonded(liar) for liar in liars] == [STAKE - STAKE // 5] * 2
    assert registry.bounty(TREASURY) == 2 * STAKE // 5
    assert [registry.offences(liar, FALSE_REPORT) for liar in liars] == [1, 1]
    assert registry.node(scored).benchmark_score == 0
    assert not registry.is_eligible(scored, TRAINER)
    with boa.reverts("benchmarks: not its verdict"):
        benchmarks.overrule(scored, 2, True, liars[:1], sender=COORDINATOR)


def test_overrule__not_the_owner_or_not_the_verdict__reverts(
    benchmarks: Any, scored: int, verifiers: Keys
) -> None:
    voted, _, silent = verifiers
    for who in ("stranger", "node_owner", "slasher"):
        with boa.reverts("ownable: caller is not the owner"):
            benchmarks.overrule(scored, 2, True, [voted], sender=address_of(who))
    for attempt, passed, verifier in (
        (2, True, silent),
        (2, False, voted),
        (1, True, voted),
        (2, True, 99),
    ):
        with boa.reverts("benchmarks: not its verdict"):
            benchmarks.overrule(scored, attempt, passed, [verifier], sender=COORDINATOR)


def test_score__expires_after_four_unbonding_periods(registry: Any, scored: int) -> None:
    until = registry.score_until(scored)
    score = registry.node(scored).benchmark_score
    assert 0 <= boa.env.timestamp + 4 * UNBONDING - until < 10
    wait(until - boa.env.timestamp - 1)
    assert registry.node(scored).benchmark_score == score
    assert registry.is_eligible(scored, TRAINER)
    wait(1)
    assert registry.node(scored).benchmark_score == 0
    assert not registry.is_eligible(scored, TRAINER)
    assert registry.eligible_nodes(TRAINER, 0, 128)[0] == []


def test_attack__quorum_of_small_verifiers__is_no_majority_of_weight(
    registry: Any, benchmarks: Any, node: int, register: Callable[..., int], verifiers: Keys
) -> None:
    """Two of five make up the quorum's count, and not half of the weight."""
    keys = dict(verifiers)
    for name in ("dot", "eva"):
        node_id = register(name, VERIFIER)
        registry.approve_role(node_id, VERIFIER, True, sender=COORDINATOR)
        keys[node_id] = account(name)
    wait(3_601)
    request(registry, benchmarks, node)
    submit(registry, benchmarks, node)
    give(benchmarks, node, first(keys, 2))
    assert not benchmarks.benchmark(node).settled
    last = list(keys)[2]
    signature = sign_verdict(benchmarks, keys[last], node, True)
    benchmarks.submit_verdicts(node, True, [last], [signature])
    assert benchmarks.benchmark(node).settled
