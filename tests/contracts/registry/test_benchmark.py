# SPDX-License-Identifier: Apache-2.0
"""Rule: a benchmark answers a seed of a block after its request, once, within its window."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import block, mine, now, wait
from tests.stage.contracts.events import event, events_of
from tests.stage.contracts.registry import (
    ARTEFACT,
    CHECK_DOMAIN,
    EMPTY,
    OPERATOR,
    ROOT,
    SEED_DOMAIN,
    STRANGER,
    UNITS,
    VERIFIER,
    WINDOW,
    Keys,
    Register,
    address_of,
    answer,
    benchmark_passed,
    draw_key,
    seed_now,
    submit,
)


@pytest.fixture
def seeded(registry: Any, node: int) -> int:
    """A node whose pending attempt can be answered."""
    mine(2)
    return node


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_request__after_the_window__starts_a_new_attempt(
    benchmarks: Any, node: int, who: str
) -> None:
    wait(WINDOW + 1)
    benchmarks.request_benchmark(node, sender=address_of(who))
    target = block() + 1
    assert events_of(benchmarks) == [
        event("SeedRequested", key=draw_key(SEED_DOMAIN, node, 2), target_block=target),
        event("BenchmarkRequested", node_id=node, attempt=2, seed_block=target),
    ]
    attempt = benchmarks.benchmark(node)
    assert (attempt.attempt, attempt.requested_at, attempt.seed_block) == (2, now(), target)
    assert attempt.seed == EMPTY


def test_request__unjudged_answer_after_the_window__forgets_it(
    registry: Any, benchmarks: Any, node: int
) -> None:
    submit(registry, benchmarks, node)
    wait(WINDOW)
    benchmarks.request_benchmark(node, sender=OPERATOR)
    attempt = benchmarks.benchmark(node)
    assert (attempt.attempt, attempt.submitted_at, attempt.check_seed) == (2, 0, EMPTY)


def test_request__settled__is_allowed_at_once(
    registry: Any, benchmarks: Any, node: int, verifiers: Keys
) -> None:
    benchmark_passed(registry, benchmarks, node, verifiers)
    benchmarks.request_benchmark(node, sender=OPERATOR)
    assert benchmarks.benchmark(node).attempt == 2
    assert registry.node(node).benchmark_score > 0


def test_request__not_a_trainer__reverts(benchmarks: Any, register: Register) -> None:
    node_id = register("watcher", VERIFIER)
    with boa.reverts("benchmarks: not a trainer"):
        benchmarks.request_benchmark(node_id, sender=address_of("watcher"))


# Seeds


def test_capture_seed__anyone_may(benchmarks: Any, seeded: int) -> None:
    target = benchmarks.benchmark(seeded).seed_block
    seed = benchmarks.capture_benchmark_seed(seeded, sender=STRANGER)
    key = draw_key(SEED_DOMAIN, seeded, 1)
    fields = {"key": key, "target_block": target, "seed": seed}
    assert events_of(benchmarks) == [("SeedCaptured", fields)]
    assert benchmarks.benchmark(seeded).seed == seed != EMPTY


def test_capture_seed__expired__rearms(benchmarks: Any, node: int) -> None:
    mine(258)
    assert benchmarks.capture_benchmark_seed(node) == EMPTY
    assert benchmarks.benchmark(node).seed_block == block() + 1


def test_seeds__differ_by_node_and_attempt(benchmarks: Any, node: int, register: Register) -> None:
    other = register("other")
    mine(2)
    seeds = [benchmarks.capture_benchmark_seed(n) for n in (node, other)]
    wait(WINDOW)
    benchmarks.request_benchmark(node, sender=OPERATOR)
    mine(2)
    seeds.append(benchmarks.capture_benchmark_seed(node))
    assert len(set(seeds)) == 3


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_submit__records_and_pins_the_check(benchmarks: Any, seeded: int, who: str) -> None:
    requested_at = benchmarks.benchmark(seeded).requested_at
    benchmarks.capture_benchmark_seed(seeded)
    answer(benchmarks, seeded, operator=address_of(who))
    target = block() + 1
    assert events_of(benchmarks) == [
        event("SeedRequested", key=draw_key(CHECK_DOMAIN, seeded, 1), target_block=target),
        event(
            "BenchmarkSubmitted",
            node_id=seeded,
            attempt=1,
            units=UNITS,
            root=ROOT,
            artefact=ARTEFACT,
            elapsed=now() - requested_at,
            check_block=target,
        ),
    ]
    attempt = benchmarks.benchmark(seeded)
    assert (attempt.submitted_at, attempt.units) == (now(), UNITS)
    assert (attempt.root, attempt.artefact) == (ROOT, ARTEFACT)
    assert (attempt.check_block, attempt.check_seed) == (target, EMPTY)


def test_submit__captures_the_seed_itself(benchmarks: Any, seeded: int) -> None:
    answer(benchmarks, seeded)
    assert benchmarks.benchmark(seeded).seed != EMPTY


def test_submit__seed_expired__reverts_until_captured_anew(benchmarks: Any, node: int) -> None:
    mine(258, 258)
    with boa.reverts("benchmarks: seed expired"):
        benchmarks.submit_benchmark(node, EMPTY, UNITS, ROOT, ARTEFACT, sender=OPERATOR)
    benchmarks.capture_benchmark_seed(node)
    mine(2)
    answer(benchmarks, node)


def test_attack__answer_held_back_until_its_seed_is_another__is_refused(
    benchmarks: Any, node: int
) -> None:
    """A producer holds an honest answer back for 256 blocks, re-arms the seed and lets it in: with
    the new seed its root would be wrong, and the node would be slashed for invented work."""
    mine(2)
    old = seed_now(benchmarks, node)
    mine(258)
    assert benchmarks.capture_benchmark_seed(node, sender=STRANGER) == EMPTY
    mine(2)
    with boa.reverts("benchmarks: not its seed"):
        benchmarks.submit_benchmark(node, old, UNITS, ROOT, ARTEFACT, sender=OPERATOR)
    answer(benchmarks, node)


def test_submit__never_requested__reverts(benchmarks: Any, register: Register) -> None:
    register("watcher", VERIFIER)
    with boa.reverts("benchmarks: no benchmark pending"):
        benchmarks.submit_benchmark(1, EMPTY, UNITS, ROOT, ARTEFACT, sender=address_of("watcher"))


def test_submit__at_the_end_of_the_window__is_in_time(benchmarks: Any, node: int) -> None:
    mine(2, WINDOW)
    answer(benchmarks, node)


def test_capture_check_seed__anyone_may(benchmarks: Any, seeded: int) -> None:
    answer(benchmarks, seeded)
    with boa.reverts("randomness: too early"):
        benchmarks.capture_check_seed(seeded, sender=STRANGER)
    mine(2)
    target = benchmarks.benchmark(seeded).check_block
    seed = benchmarks.capture_check_seed(seeded, sender=STRANGER)
    key = draw_key(CHECK_DOMAIN, seeded, 1)
    fields = {"key": key, "target_block": target, "seed": seed}
    assert events_of(benchmarks) == [("SeedCaptured", fields)]
    assert benchmarks.benchmark(seeded).check_seed == seed != benchmarks.benchmark(seeded).seed
