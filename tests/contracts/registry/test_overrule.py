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
    NODE_OWNER,
    OPERATOR,
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
    last = ["VerdictOverruled", "FalseBenchmarkSlashed"]
    assert names == ["BenchmarkVerdictSlashed"] * 2 + last
    assert [registry.bonded(liar) for liar in liars] == [STAKE - STAKE // 5] * 2
    assert registry.bonded(scored) == STAKE - STAKE // 5
    assert registry.bounty(TREASURY) == 3 * STAKE // 5
    assert registry.offences(scored, FALSE_REPORT) == 1
    assert [registry.offences(liar, FALSE_REPORT) for liar in liars] == [1, 1]
    assert registry.node(scored).benchmark_score == 0
    assert not registry.is_eligible(scored, TRAINER)
    with boa.reverts("benchmarks: not its verdict"):
        benchmarks.overrule(scored, 2, True, liars[:1], sender=COORDINATOR)
    with boa.reverts("benchmarks: nothing to condemn"):
        benchmarks.condemn(scored, 2, sender=COORDINATOR)


def test_overrule__a_false_pass_in_two_calls__slashes_the_node_once(
    registry: Any, benchmarks: Any, scored: int, verifiers: Keys
) -> None:
    for liar in first(verifiers, 2):
        benchmarks.overrule(scored, 2, True, [liar], sender=COORDINATOR)
    assert registry.offences(scored, FALSE_REPORT) == 1


def test_overrule__a_false_fail__costs_the_node_nothing(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    """A framed node: two verifiers fail it so that it gets no place, and to have it slashed."""
    registry.set_slasher(benchmarks.address, True, sender=COORDINATOR)
    liars = list(first(verifiers, 2))
    give(benchmarks, answered, first(verifiers, 2), False)
    benchmarks.overrule(answered, 2, False, liars, sender=COORDINATOR)
    assert [registry.bonded(liar) for liar in liars] == [STAKE - STAKE // 5] * 2
    assert registry.bonded(answered) == STAKE
    assert registry.offences(answered, FALSE_REPORT) == 0


@pytest.mark.parametrize("passed", [True, False])
def test_condemn__what_a_verifier_failed__slashes_the_node_once(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys, passed: bool
) -> None:
    """Settled either way; the node asks for its next attempt at once, and has the same to lose."""
    registry.set_slasher(benchmarks.address, True, sender=COORDINATOR)
    before = registry.node(answered).benchmark_score
    give(benchmarks, answered, first(verifiers, 1), not passed)
    give(benchmarks, answered, first(verifiers, 2, skip=1), passed)
    assert benchmarks.benchmark(answered).settled
    benchmarks.request_benchmark(answered, sender=OPERATOR)
    benchmarks.condemn(answered, 2, sender=COORDINATOR)
    taken = {"node_id": answered, "attempt": 2, "amount": STAKE // 5}
    assert ("FalseBenchmarkSlashed", taken) in events_of(benchmarks)
    assert registry.bonded(answered) == STAKE - STAKE // 5
    assert registry.bounty(TREASURY) == STAKE // 5
    assert registry.node(answered).benchmark_score == (0 if passed else before)
    assert not registry.is_eligible(answered, TRAINER)
    with boa.reverts("benchmarks: nothing to condemn"):
        benchmarks.condemn(answered, 2, sender=COORDINATOR)


def test_condemn__stake_that_came_after_the_answer__is_not_at_risk(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    registry.set_slasher(benchmarks.address, True, sender=COORDINATOR)
    registry.add_stake(answered, STAKE, sender=NODE_OWNER)
    give(benchmarks, answered, first(verifiers, 2), False)
    benchmarks.condemn(answered, 2, sender=COORDINATOR)
    assert registry.bonded(answered) == 2 * STAKE - STAKE // 5


def test_condemn__passed_by_all_or_not_settled_or_of_nobody__reverts(
    benchmarks: Any, scored: int, verifiers: Keys, registry: Any
) -> None:
    """Three members of the committee slash no node whose work every verifier passed."""
    for attempt in (0, 2, 3):
        with boa.reverts("benchmarks: nothing to condemn"):
            benchmarks.condemn(scored, attempt, sender=COORDINATOR)
    with boa.reverts("benchmarks: nothing to condemn"):
        benchmarks.condemn(99, 1, sender=COORDINATOR)
    request(registry, benchmarks, scored)
    submit(registry, benchmarks, scored)
    give(benchmarks, scored, first(verifiers), False)
    with boa.reverts("benchmarks: nothing to condemn"):
        benchmarks.condemn(scored, 3, sender=COORDINATOR)


def test_condemn__not_the_owner__reverts(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers, 2), False)
    for who in ("stranger", "node_owner", "operator", "slasher"):
        with boa.reverts("ownable: caller is not the owner"):
            benchmarks.condemn(answered, 2, sender=address_of(who))
    # A NodeBenchmarks that the registry does not list takes nothing, and can try again.
    with boa.reverts("registry: not a slasher"):
        benchmarks.condemn(answered, 2, sender=COORDINATOR)
    registry.set_slasher(benchmarks.address, True, sender=COORDINATOR)
    benchmarks.condemn(answered, 2, sender=COORDINATOR)


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
