# SPDX-License-Identifier: Apache-2.0
"""Rule: a benchmark answers a seed of a block after its request, once, within its window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest
from eth_account.signers.local import LocalAccount

from tests.stage.contracts.clock import block, mine, now, wait
from tests.stage.contracts.registry import (
    ARTEFACT,
    CHECK_DOMAIN,
    EMPTY,
    PAUSE_BENCHMARK,
    REPEATED,
    ROOT,
    SEED_DOMAIN,
    UNITS,
    VERIFIER,
    WINDOW,
    ZERO,
    address_of,
    benchmark_passed,
    draw_key,
    own_events,
    submit,
)

OTHERS = ["payout", "coordinator", "slasher", "stranger"]


@pytest.fixture
def seeded(registry: Any, node: int) -> int:
    """A node whose pending attempt can be answered."""
    mine(2)
    return node


# request_benchmark


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_request__after_the_window__starts_a_new_attempt(
    registry: Any, node: int, who: str
) -> None:
    wait(WINDOW + 1)
    registry.request_benchmark(node, sender=address_of(who))
    target = block() + 1
    assert own_events(registry) == [
        ("SeedRequested", {"key": draw_key(SEED_DOMAIN, node, 2), "target_block": target}),
        ("BenchmarkRequested", {"node_id": node, "attempt": 2, "seed_block": target}),
    ]
    attempt = registry.benchmark(node)
    assert (attempt.attempt, attempt.requested_at, attempt.seed_block) == (2, now(), target)
    assert attempt.seed == EMPTY


def test_request__within_the_window__reverts(registry: Any, node: int, operator: str) -> None:
    """Otherwise a node could ask until it likes the seed."""
    wait(WINDOW)
    with boa.reverts("registry: benchmark pending"):
        registry.request_benchmark(node, sender=operator)


def test_request__unjudged_answer_after_the_window__forgets_it(
    registry: Any, node: int, operator: str
) -> None:
    submit(registry, node)
    wait(WINDOW)
    registry.request_benchmark(node, sender=operator)
    attempt = registry.benchmark(node)
    assert (attempt.attempt, attempt.submitted_at, attempt.check_seed) == (2, 0, EMPTY)


def test_request__settled__is_allowed_at_once(
    registry: Any, node: int, operator: str, verifiers: dict[int, LocalAccount]
) -> None:
    benchmark_passed(registry, node, verifiers)
    registry.request_benchmark(node, sender=operator)
    assert registry.benchmark(node).attempt == 2
    assert registry.node(node).benchmark_score > 0


@pytest.mark.parametrize("who", OTHERS)
def test_request__others__revert(registry: Any, node: int, who: str) -> None:
    wait(WINDOW + 1)
    with boa.reverts("registry: not the owner or operator"):
        registry.request_benchmark(node, sender=address_of(who))


def test_request__unknown_node__reverts(registry: Any, stranger: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.request_benchmark(9, sender=stranger)


def test_request__not_a_trainer__reverts(registry: Any, register: Callable[..., int]) -> None:
    node_id = register("watcher", VERIFIER)
    with boa.reverts("registry: not a trainer"):
        registry.request_benchmark(node_id, sender=address_of("watcher"))


def test_request__exiting__reverts(registry: Any, node: int, node_owner: str) -> None:
    wait(WINDOW + 1)
    registry.begin_exit(node, sender=node_owner)
    with boa.reverts("registry: exiting"):
        registry.request_benchmark(node, sender=node_owner)


def test_request__banned__reverts(registry: Any, node: int, node_owner: str, slasher: str) -> None:
    wait(WINDOW + 1)
    registry.slash(node, REPEATED, now(), ZERO, sender=slasher)
    with boa.reverts("registry: banned"):
        registry.request_benchmark(node, sender=node_owner)


def test_request__paused__reverts(
    registry: Any, node: int, operator: str, coordinator: str
) -> None:
    wait(WINDOW + 1)
    registry.set_paused(PAUSE_BENCHMARK, sender=coordinator)
    with boa.reverts("pausing: paused"):
        registry.request_benchmark(node, sender=operator)


# Seeds


def test_capture_seed__anyone_may(registry: Any, seeded: int, stranger: str) -> None:
    target = registry.benchmark(seeded).seed_block
    seed = registry.capture_benchmark_seed(seeded, sender=stranger)
    key = draw_key(SEED_DOMAIN, seeded, 1)
    fields = {"key": key, "target_block": target, "seed": seed}
    assert own_events(registry) == [("SeedCaptured", fields)]
    assert registry.benchmark(seeded).seed == seed != EMPTY


def test_capture_seed__too_early__reverts(registry: Any, node: int) -> None:
    with boa.reverts("randomness: too early"):
        registry.capture_benchmark_seed(node)


@pytest.mark.parametrize("function", ["capture_benchmark_seed", "capture_check_seed"])
def test_capture__nothing_requested__reverts(registry: Any, function: str) -> None:
    with boa.reverts("randomness: not requested"):
        getattr(registry, function)(9)


def test_capture_seed__expired__rearms(registry: Any, node: int) -> None:
    mine(258)
    assert registry.capture_benchmark_seed(node) == EMPTY
    assert registry.benchmark(node).seed_block == block() + 1


def test_seeds__differ_by_node_and_attempt(
    registry: Any, node: int, operator: str, register: Callable[..., int]
) -> None:
    other = register("other")
    mine(2)
    seeds = [registry.capture_benchmark_seed(n) for n in (node, other)]
    wait(WINDOW)
    registry.request_benchmark(node, sender=operator)
    mine(2)
    seeds.append(registry.capture_benchmark_seed(node))
    assert len(set(seeds)) == 3


# submit_benchmark


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_submit__records_and_pins_the_check(registry: Any, seeded: int, who: str) -> None:
    requested_at = registry.benchmark(seeded).requested_at
    registry.capture_benchmark_seed(seeded)
    registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=address_of(who))
    target = block() + 1
    assert own_events(registry) == [
        ("SeedRequested", {"key": draw_key(CHECK_DOMAIN, seeded, 1), "target_block": target}),
        (
            "BenchmarkSubmitted",
            {
                "node_id": seeded,
                "attempt": 1,
                "units": UNITS,
                "root": ROOT,
                "artefact": ARTEFACT,
                "elapsed": now() - requested_at,
                "check_block": target,
            },
        ),
    ]
    attempt = registry.benchmark(seeded)
    assert (attempt.submitted_at, attempt.units) == (now(), UNITS)
    assert (attempt.root, attempt.artefact) == (ROOT, ARTEFACT)
    assert (attempt.check_block, attempt.check_seed) == (target, EMPTY)


def test_submit__captures_the_seed_itself(registry: Any, seeded: int, operator: str) -> None:
    registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=operator)
    assert registry.benchmark(seeded).seed != EMPTY


@pytest.mark.parametrize("who", OTHERS)
def test_submit__others__revert(registry: Any, seeded: int, who: str) -> None:
    with boa.reverts("registry: not the owner or operator"):
        registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=address_of(who))


def test_submit__unknown_node__reverts(registry: Any, stranger: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.submit_benchmark(9, UNITS, ROOT, ARTEFACT, sender=stranger)


def test_submit__before_the_seed__reverts(registry: Any, node: int, operator: str) -> None:
    with boa.reverts("randomness: too early"):
        registry.submit_benchmark(node, UNITS, ROOT, ARTEFACT, sender=operator)


def test_submit__seed_expired__reverts_until_captured_anew(
    registry: Any, node: int, operator: str
) -> None:
    mine(258, 258)
    with boa.reverts("registry: seed expired"):
        registry.submit_benchmark(node, UNITS, ROOT, ARTEFACT, sender=operator)
    registry.capture_benchmark_seed(node)
    mine(2)
    registry.submit_benchmark(node, UNITS, ROOT, ARTEFACT, sender=operator)


def test_submit__never_requested__reverts(registry: Any, register: Callable[..., int]) -> None:
    register("watcher", VERIFIER)
    with boa.reverts("registry: no benchmark pending"):
        registry.submit_benchmark(1, UNITS, ROOT, ARTEFACT, sender=address_of("watcher"))


def test_submit__twice__reverts(registry: Any, seeded: int, operator: str) -> None:
    """The answer cannot change once its check is about to be drawn."""
    registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=operator)
    with boa.reverts("registry: no benchmark pending"):
        registry.submit_benchmark(seeded, UNITS, ARTEFACT, ROOT, sender=operator)


def test_submit__after_the_window__reverts(registry: Any, node: int, operator: str) -> None:
    mine(2, WINDOW + 1)
    with boa.reverts("registry: benchmark window passed"):
        registry.submit_benchmark(node, UNITS, ROOT, ARTEFACT, sender=operator)


def test_submit__at_the_end_of_the_window__is_in_time(
    registry: Any, node: int, operator: str
) -> None:
    mine(2, WINDOW)
    registry.submit_benchmark(node, UNITS, ROOT, ARTEFACT, sender=operator)


@pytest.mark.parametrize("units", [0, 1_000_001, 2**256 - 1])
def test_submit__bad_units__reverts(registry: Any, seeded: int, operator: str, units: int) -> None:
    with boa.reverts("registry: bad units"):
        registry.submit_benchmark(seeded, units, ROOT, ARTEFACT, sender=operator)


@pytest.mark.parametrize(("root", "artefact"), [(EMPTY, ARTEFACT), (ROOT, EMPTY)])
def test_submit__empty__reverts(
    registry: Any, seeded: int, operator: str, root: bytes, artefact: bytes
) -> None:
    with boa.reverts("registry: empty benchmark"):
        registry.submit_benchmark(seeded, UNITS, root, artefact, sender=operator)


def test_submit__exiting__reverts(registry: Any, seeded: int, node_owner: str) -> None:
    registry.begin_exit(seeded, sender=node_owner)
    with boa.reverts("registry: exiting"):
        registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=node_owner)


def test_submit__banned__reverts(registry: Any, seeded: int, operator: str, slasher: str) -> None:
    registry.slash(seeded, REPEATED, now(), ZERO, sender=slasher)
    with boa.reverts("registry: banned"):
        registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=operator)


def test_submit__paused__reverts(
    registry: Any, seeded: int, operator: str, coordinator: str
) -> None:
    registry.set_paused(PAUSE_BENCHMARK, sender=coordinator)
    with boa.reverts("pausing: paused"):
        registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=operator)


def test_capture_check_seed__anyone_may(
    registry: Any, seeded: int, operator: str, stranger: str
) -> None:
    registry.submit_benchmark(seeded, UNITS, ROOT, ARTEFACT, sender=operator)
    with boa.reverts("randomness: too early"):
        registry.capture_check_seed(seeded, sender=stranger)
    mine(2)
    target = registry.benchmark(seeded).check_block
    seed = registry.capture_check_seed(seeded, sender=stranger)
    key = draw_key(CHECK_DOMAIN, seeded, 1)
    fields = {"key": key, "target_block": target, "seed": seed}
    assert own_events(registry) == [("SeedCaptured", fields)]
    assert registry.benchmark(seeded).check_seed == seed != registry.benchmark(seeded).seed
