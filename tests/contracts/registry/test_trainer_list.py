# SPDX-License-Identifier: Apache-2.0
"""Rule: a trainer has a place in its role's list only while it is active, measured and bonded, so
that registrations that do no work take no place in what a round looks at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import address_of, benchmark_passed, first, give, submit

SCORE = stage.UNITS * 1_000_000 // 24


@pytest.fixture
def listed(registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register) -> int:
    """A measured TRAINER with exactly the least stake."""
    node_id = register("worker", stage.TRAINER, stage.TRAINER_STAKE)
    benchmark_passed(registry, benchmarks, node_id, verifiers)
    return node_id


def trainers(registry: Any) -> list[int]:
    """The trainers' list; its three views must tell the same."""
    nodes = list(registry.role_nodes(stage.TRAINER, 0, 128))
    assert registry.role_count(stage.TRAINER) == len(nodes)
    assert set(registry.eligible_nodes(stage.TRAINER, 0, 128)[0]) <= set(nodes)
    return nodes


def test_trainer_list__registered_only__is_not_listed(
    registry: Any, register: stage.Register
) -> None:
    for name in ("one", "two", "three"):
        register(name)
    assert trainers(registry) == []


def test_trainer_list__idle_crowd__does_not_hide_a_worker(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register
) -> None:
    """A scan of one place finds the worker, whoever registered before and after it."""
    for i in range(5):
        register(f"idle {i}", stage.TRAINER, stage.TRAINER_STAKE)
    worker = register("worker")
    register("late idle", stage.TRAINER, stage.TRAINER_STAKE)
    benchmark_passed(registry, benchmarks, worker, verifiers)
    for start in (0, 1, 7):
        assert registry.eligible_nodes(stage.TRAINER, start, 1) == ([worker], [SCORE])


def test_trainer_list__benchmark__lists_once_the_quorum_has_passed_it(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register
) -> None:
    worker = register("worker")
    submit(registry, benchmarks, worker)
    assert trainers(registry) == []
    give(benchmarks, worker, first(verifiers))
    assert trainers(registry) == []
    give(benchmarks, worker, first(verifiers, skip=1))
    assert trainers(registry) == [worker]


def test_trainer_list__failed_benchmark__changes_nothing(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register, listed: int
) -> None:
    cheat = register("cheat")
    submit(registry, benchmarks, cheat)
    give(benchmarks, cheat, verifiers, passed=False)
    wait(stage.WINDOW + 1)
    benchmarks.request_benchmark(listed, sender=address_of("worker"))
    submit(registry, benchmarks, listed)
    give(benchmarks, listed, verifiers, passed=False)
    assert trainers(registry) == [listed]


def test_trainer_list__passed_again__stays_listed_once(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, listed: int
) -> None:
    benchmarks.request_benchmark(listed, sender=address_of("worker"))
    benchmark_passed(registry, benchmarks, listed, verifiers)
    assert trainers(registry) == [listed]


def test_trainer_list__resting__leaves_and_returns(registry: Any, listed: int) -> None:
    registry.set_active(listed, False, sender=address_of("worker"))
    assert trainers(registry) == []
    registry.set_active(listed, True, sender=address_of("worker"))
    assert trainers(registry) == [listed]


def test_trainer_list__measured_while_resting__listed_when_active(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register
) -> None:
    worker = register("worker")
    registry.set_active(worker, False, sender=address_of("worker"))
    benchmark_passed(registry, benchmarks, worker, verifiers)
    assert trainers(registry) == []
    registry.set_active(worker, True, sender=address_of("worker"))
    assert trainers(registry) == [worker]


def test_trainer_list__activated_without_a_score__is_not_listed(
    registry: Any, register: stage.Register
) -> None:
    worker = register("worker")
    for active in (False, True):
        registry.set_active(worker, active, sender=address_of("worker"))
    assert trainers(registry) == []


def test_trainer_list__slashed_below_the_minimum__until_topped_up(
    registry: Any, listed: int, fund: stage.Fund
) -> None:
    taken = registry.slash(listed, stage.NO_REVEAL, now(), stage.ZERO, sender=stage.SLASHER)
    assert trainers(registry) == []
    owner = address_of("worker owner")
    fund(owner, taken)
    registry.add_stake(listed, stage.ZOO, sender=owner)
    assert trainers(registry) == []
    registry.add_stake(listed, taken - stage.ZOO, sender=owner)
    assert registry.node(listed).stake == stage.TRAINER_STAKE
    assert trainers(registry) == [listed]


def test_trainer_list__suspended_above_the_minimum__keeps_its_place(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register
) -> None:
    """Time alone ends a suspension, so no call could bring a delisted node back."""
    worker = register("worker", stage.TRAINER, stage.STAKE)
    benchmark_passed(registry, benchmarks, worker, verifiers)
    registry.slash(worker, stage.INVALID, now(), stage.ZERO, sender=stage.SLASHER)
    assert trainers(registry) == [worker]
    assert registry.eligible_nodes(stage.TRAINER, 0, 128) == ([], [])
    wait(7 * 86_400)
    assert registry.eligible_nodes(stage.TRAINER, 0, 128) == ([worker], [SCORE])


def test_trainer_list__banned_with_stake_left__leaves_for_good(
    registry: Any, listed: int, fund: stage.Fund
) -> None:
    offence = now()
    wait(1)
    owner = address_of("worker owner")
    fund(owner, stage.STAKE)
    registry.add_stake(listed, stage.STAKE, sender=owner)
    registry.slash(listed, stage.REPEATED, offence, stage.ZERO, sender=stage.SLASHER)
    assert registry.node(listed).stake == stage.STAKE
    registry.set_active(listed, True, sender=owner)
    assert trainers(registry) == []


def test_trainer_list__role_dropped_and_taken_again__needs_no_new_score(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register
) -> None:
    worker = register("worker")
    benchmark_passed(registry, benchmarks, worker, verifiers)
    owner = address_of("worker owner")
    registry.set_roles(worker, stage.VERIFIER, sender=owner)
    assert trainers(registry) == []
    registry.set_roles(worker, stage.TRAINER, sender=owner)
    assert trainers(registry) == [worker]


def test_trainer_list__minimum_raised__stale_place_is_not_eligible(
    registry: Any, verifiers: stage.Keys, listed: int, parameters: tuple[Any, ...]
) -> None:
    """The place goes with the node's next change; until then it only costs a look."""
    raised = (parameters[0], stage.TRAINER_STAKE + stage.ZOO, *parameters[2:])
    registry.set_parameters(raised, sender=stage.COORDINATOR)
    assert trainers(registry) == [listed]
    assert registry.eligible_nodes(stage.TRAINER, 0, 128) == ([], [])
    registry.set_active(listed, True, sender=address_of("worker"))
    assert trainers(registry) == []


def test_trainer_list__minimum_lowered__listed_with_the_next_change(
    registry: Any, listed: int, parameters: tuple[Any, ...]
) -> None:
    registry.slash(listed, stage.NO_REVEAL, now(), stage.ZERO, sender=stage.SLASHER)
    lowered = (parameters[0], stage.TRAINER_STAKE // 2, *parameters[2:])
    registry.set_parameters(lowered, sender=stage.COORDINATOR)
    assert not registry.is_eligible(listed, stage.TRAINER)
    registry.set_active(listed, True, sender=address_of("worker"))
    assert trainers(registry) == [listed]
    assert registry.is_eligible(listed, stage.TRAINER)
