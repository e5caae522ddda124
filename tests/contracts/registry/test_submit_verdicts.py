# SPDX-License-Identifier: Apache-2.0
"""Rule: a quorum of equal verdicts settles a benchmark, and only a passed one sets the score."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import mine, wait
from tests.stage.contracts.events import events_of
from tests.stage.contracts.registry import Keys, answer, first, give, sign_verdict, submit

SCORE = stage.UNITS * 1_000_000 // stage.SECONDS


def test_digest__is_what_wallets_sign(benchmarks: Any, answered: int, verifiers: Keys) -> None:
    """The contract's digest recovers the signer of the independently built typed data."""
    for passed in (True, False):
        digest = benchmarks.verdict_digest(answered, passed)
        (key,) = first(verifiers).values()
        signature = sign_verdict(benchmarks, key, answered, passed)
        assert bytes(key.unsafe_sign_hash(digest).signature) == signature


def test_digest__before_and_after_the_capture__is_the_same(benchmarks: Any, node: int) -> None:
    mine(2)
    answer(benchmarks, node)
    with boa.reverts("benchmarks: check seed not ready"):
        benchmarks.verdict_digest(node, True)
    mine(2)
    before = benchmarks.verdict_digest(node, True)
    benchmarks.capture_check_seed(node)
    assert benchmarks.verdict_digest(node, True) == before


def test_digest__nothing_submitted__reverts(benchmarks: Any, node: int) -> None:
    with boa.reverts("benchmarks: no benchmark submitted"):
        benchmarks.verdict_digest(node, True)


def test_verdict__below_the_quorum__only_counts(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers))
    (verifier,) = first(verifiers)
    fields = {"node_id": answered, "attempt": 2, "verifier_id": verifier, "passed": True}
    assert events_of(benchmarks) == [("BenchmarkVerdictGiven", fields)]
    attempt = benchmarks.benchmark(answered)
    assert (attempt.passes, attempt.fails, attempt.settled) == (1, 0, False)
    assert registry.node(answered).benchmark_score == 0
    assert not registry.is_eligible(answered, stage.TRAINER)


def test_verdicts__quorum_of_passes__scores(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers, 2))
    events = events_of(benchmarks)
    assert [name for name, _ in events] == ["BenchmarkVerdictGiven"] * 2 + ["BenchmarkSettled"]
    fields = {"node_id": answered, "attempt": 2, "passed": True, "score": SCORE}
    assert events[-1] == ("BenchmarkSettled", fields)
    attempt = benchmarks.benchmark(answered)
    assert (attempt.passes, attempt.fails, attempt.settled) == (2, 0, True)
    assert registry.node(answered).benchmark_score == SCORE
    assert registry.is_eligible(answered, stage.TRAINER)


def test_verdicts__relayed_one_by_one__settle_too(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers, 1))
    give(benchmarks, answered, first(verifiers, 1, skip=1))
    assert registry.node(answered).benchmark_score == SCORE


def test_verdicts__quorum_of_fails__rejects(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers, 1))
    give(benchmarks, answered, first(verifiers, 2, skip=1), passed=False)
    fields = {"node_id": answered, "attempt": 2, "passed": False, "score": 0}
    assert events_of(benchmarks)[-1] == ("BenchmarkSettled", fields)
    attempt = benchmarks.benchmark(answered)
    assert (attempt.passes, attempt.fails, attempt.settled) == (1, 2, True)
    assert not registry.is_eligible(answered, stage.TRAINER)


def test_verdicts__behind_the_deciding_one__are_ignored(
    benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, verifiers)
    assert benchmarks.benchmark(answered).passes == 2


def test_failed_repetition__keeps_the_passed_score(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    """Measuring again is no risk: colluding verifiers cannot take a score away."""
    give(benchmarks, answered, first(verifiers, 2))
    benchmarks.request_benchmark(answered, sender=stage.OPERATOR)
    assert registry.is_eligible(answered, stage.TRAINER)
    submit(registry, benchmarks, answered, units=1)
    give(benchmarks, answered, first(verifiers, 2), passed=False)
    fields = {"node_id": answered, "attempt": 3, "passed": False, "score": SCORE}
    assert events_of(benchmarks)[-1] == ("BenchmarkSettled", fields)
    assert registry.node(answered).benchmark_score == SCORE


def test_passed_repetition__replaces_the_score(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers, 2))
    benchmarks.request_benchmark(answered, sender=stage.OPERATOR)
    submit(registry, benchmarks, answered, units=stage.UNITS // 2, seconds=stage.SECONDS)
    give(benchmarks, answered, first(verifiers, 2))
    assert registry.node(answered).benchmark_score == SCORE // 2


def test_same_second_answer__divides_by_one(
    registry: Any, benchmarks: Any, node: int, verifiers: Keys
) -> None:
    wait(stage.WINDOW + 1)
    benchmarks.request_benchmark(node, sender=stage.OPERATOR)
    submit(registry, benchmarks, node, seconds=0)
    give(benchmarks, node, first(verifiers, 2))
    assert registry.node(node).benchmark_score == stage.UNITS * 1_000_000


def test_slowest_answer__still_scores(
    registry: Any, benchmarks: Any, node: int, verifiers: Keys
) -> None:
    wait(stage.WINDOW + 1)
    benchmarks.request_benchmark(node, sender=stage.OPERATOR)
    submit(registry, benchmarks, node, units=1, seconds=stage.WINDOW)
    give(benchmarks, node, first(verifiers, 2))
    assert registry.node(node).benchmark_score == 1_000_000 // stage.WINDOW
