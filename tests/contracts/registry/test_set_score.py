# SPDX-License-Identifier: Apache-2.0
"""Rule: a score reaches the registry from NodeBenchmarks only, after a quorum of verdicts, and
gives a place to nobody who could not have one.

The attacks play the call between the two contracts: the wrong caller, a call in the middle of
another one, and a score that comes when the node is in another state than when it asked."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import mine, now, wait
from tests.stage.contracts.events import events_of
from tests.stage.contracts.intruder import Intruder
from tests.stage.contracts.registry import (
    COORDINATOR,
    EMPTY,
    HOLDER,
    NODE_OWNER,
    OPERATOR,
    PAUSE_BENCHMARK,
    PAYOUT,
    REPEATED,
    SECONDS,
    SLASHER,
    STAKE,
    STRANGER,
    TRAINER,
    UNBONDING,
    UNITS,
    VERIFIER,
    ZERO,
    ZOO,
    Keys,
    account,
    address_of,
    consent,
    first,
    give,
    sign_verdict,
    submit,
)

SCORE = UNITS * 1_000_000 // SECONDS

# A source of randomness that gives itself a score before it answers.
RINGING_SOURCE = """
# pragma version ~=0.4.3
interface Registry:
    def set_score(node_id: uint256, score: uint256): nonpayable

registry: address
quiet: bool

@external
def point(registry: address):
    self.registry = registry

@external
def fall_quiet():
    self.quiet = True

@external
def random_at(target: uint256) -> bytes32:
    if not self.quiet:
        extcall Registry(self.registry).set_score(1, max_value(uint256))
    return keccak256("drawn")
"""


@pytest.fixture
def direct(registry_code: Any, token: Any, parameters: tuple[Any, ...]) -> Any:
    """A registry whose NodeBenchmarks is a key, with one node of `holder`."""
    bench = address_of("benchmarks key")
    registry = registry_code.deploy(token.address, bench, COORDINATOR, [SLASHER], parameters)
    token.approve(registry.address, STAKE, sender=HOLDER)
    node = (address_of("operator"), HOLDER, TRAINER, STAKE, EMPTY)
    registry.register_node(*node, consent(registry, account("operator"), HOLDER), sender=HOLDER)
    return registry


def test_set_score__first_and_last__gives_and_takes_the_place(direct: Any) -> None:
    bench = address_of("benchmarks key")
    for score, listed in ((7, [1]), (9, [1]), (0, [])):
        direct.set_score(1, score, sender=bench)
        assert direct.node(1).benchmark_score == score
        assert direct.role_nodes(TRAINER, 0, 128) == listed
        assert direct.eligible_nodes(TRAINER, 0, 128) == (listed, [score] * len(listed))
        assert events_of(direct) == []


@pytest.mark.parametrize("node_id", [0, 2])
def test_set_score__unknown_node__reverts(direct: Any, node_id: int) -> None:
    with boa.reverts("registry: unknown node"):
        direct.set_score(node_id, 7, sender=address_of("benchmarks key"))


# The wrong caller


@pytest.mark.parametrize(
    "who", ["node_owner", "operator", "payout", "coordinator", "slasher", "treasury", "stranger"]
)
def test_set_score__by_anybody_else__reverts(registry: Any, node: int, who: str) -> None:
    """Neither the node nor those who govern and slash it can say how fast it is."""
    with boa.reverts("registry: not benchmarks"):
        registry.set_score(node, 2**255, sender=address_of(who))
    assert registry.node(node).benchmark_score == 0
    assert registry.role_count(TRAINER) == 0


def test_benchmarks_of_ones_own__cannot_score(
    registry: Any, benchmarks_code: Any, node: int, verifiers: Keys
) -> None:
    """The attacker deploys the same code for the same registry and bribes a quorum there."""
    forged = benchmarks_code.deploy(registry.address, STRANGER, ZERO)
    forged.request_benchmark(node, sender=OPERATOR)
    submit(registry, forged, node, units=1_000_000)
    give(forged, node, first(verifiers))
    with boa.reverts("registry: not benchmarks"):
        give(forged, node, first(verifiers, 1, skip=1))
    assert not forged.benchmark(node).settled
    assert registry.node(node).benchmark_score == 0


@pytest.mark.parametrize("other", ["registry", "forged"])
def test_verdict_for_another_contract__does_not_count(
    registry: Any, benchmarks: Any, benchmarks_code: Any, answered: int, verifiers: Keys, other: str
) -> None:
    """The registry was the verifying contract before it was split; a copy is easily deployed."""
    at = registry.address
    if other == "forged":
        at = benchmarks_code.deploy(registry.address, STRANGER, ZERO).address
    ((verifier, key),) = first(verifiers).items()
    signature = sign_verdict(benchmarks, key, answered, True, verifyingContract=at)
    with boa.reverts("benchmarks: bad signature"):
        benchmarks.submit_verdicts(answered, True, [verifier], [signature])


# In the middle of another call


@pytest.fixture
def one_verdict(benchmarks: Any, answered: int, verifiers: Keys) -> int:
    """A node that has answered and has one of two verdicts."""
    give(benchmarks, answered, first(verifiers))
    return answered


def intruder_of(token: Any, benchmarks: Any, function: str, *arguments: Any) -> Intruder:
    """The token calls back while it is asked to move money."""
    return Intruder(benchmarks, function, arguments, (token, ("transfer", "transferFrom")))


@pytest.mark.parametrize("during", ["add_stake", "withdraw"])
def test_score_in_the_middle_of_a_payment__is_refused_and_can_be_given_later(
    token: Any, registry: Any, benchmarks: Any, one_verdict: int, verifiers: Keys, during: str
) -> None:
    """The registry is entered already, so `set_score` stops, and the verdict with it."""
    node, keys = one_verdict, first(verifiers, 1, skip=1)
    ((verifier, key),) = keys.items()
    signature = sign_verdict(benchmarks, key, node, True)
    if during == "withdraw":
        registry.begin_exit(node, sender=NODE_OWNER)
        wait(UNBONDING)
    verdict = (node, True, [verifier], [signature])
    intruder = intruder_of(token, benchmarks, "submit_verdicts", *verdict)
    payment = (node,) if during == "withdraw" else (node, ZOO)
    intruder.locked_out(lambda: getattr(registry, during)(*payment, sender=NODE_OWNER), 1)
    assert (benchmarks.benchmark(node).passes, registry.node(node).benchmark_score) == (1, 0)
    if during == "add_stake":
        give(benchmarks, node, keys)
        assert registry.node(node).benchmark_score > 0
        assert registry.eligible_nodes(TRAINER, 0, 128)[0] == [node]


def test_request_in_the_middle_of_a_payment__sees_the_finished_record(
    token: Any, registry: Any, benchmarks: Any, one_verdict: int, verifiers: Keys
) -> None:
    """Reading the registry meanwhile is harmless: its record is complete before the token is
    called. A node that leaves can't start an attempt on its way out."""
    node = one_verdict
    give(benchmarks, node, first(verifiers, 1, skip=1))
    attempt = benchmarks.benchmark(node).attempt
    registry.begin_exit(node, sender=NODE_OWNER)
    wait(UNBONDING)
    intruder = intruder_of(token, benchmarks, "request_benchmark", node)
    reason = "benchmarks: not the owner or operator"
    intruder.locked_out(lambda: registry.withdraw(node, sender=NODE_OWNER), 1, reason)
    assert benchmarks.benchmark(node).attempt == attempt


def test_source_that_calls_back__changes_nothing(
    registry_code: Any, benchmarks_code: Any, token: Any, parameters: tuple[Any, ...]
) -> None:
    """A source is asked by a static call: whoever controls it stops the captures, no more."""
    source, at = boa.loads(RINGING_SOURCE), address_of("benchmarks contract")
    registry = registry_code.deploy(token.address, at, COORDINATOR, [], parameters)
    benchmarks = benchmarks_code.deploy(
        registry.address, COORDINATOR, source.address, override_address=at
    )
    source.point(registry.address)
    token.approve(registry.address, STAKE, sender=HOLDER)
    signed = consent(registry, account("operator"), HOLDER)
    registry.register_node(OPERATOR, HOLDER, TRAINER, STAKE, EMPTY, signed, sender=HOLDER)
    benchmarks.request_benchmark(1, sender=OPERATOR)
    mine(2)
    with boa.reverts():
        benchmarks.capture_benchmark_seed(1)
    assert registry.node(1).benchmark_score == 0
    source.fall_quiet()
    assert benchmarks.capture_benchmark_seed(1) != EMPTY


# In another state than the one it was asked for in


@pytest.mark.parametrize("meanwhile", ["exiting", "closed", "banned", "no trainer", "resting"])
def test_score_that_comes_late__gives_no_place(
    registry: Any, benchmarks: Any, node: int, verifiers: Keys, meanwhile: str
) -> None:
    """Who answers and leaves before the verdict is not drawn for work it would not answer for."""
    submit(registry, benchmarks, node)
    if meanwhile == "banned":
        registry.slash(node, REPEATED, now(), ZERO, sender=SLASHER)
    elif meanwhile == "no trainer":
        registry.set_roles(node, VERIFIER, sender=NODE_OWNER)
    elif meanwhile == "resting":
        registry.set_active(node, False, sender=NODE_OWNER)
    else:
        registry.begin_exit(node, sender=NODE_OWNER)
    if meanwhile == "closed":
        mine(1, UNBONDING)
        mine(1)
        registry.withdraw(node, sender=NODE_OWNER)
    give(benchmarks, node, first(verifiers, 2))
    assert benchmarks.benchmark(node).settled
    assert registry.role_count(TRAINER) == 0
    assert not registry.is_eligible(node, TRAINER)
    assert registry.eligible_nodes(TRAINER, 0, 128) == ([], [])


def test_score_of_a_closed_node__does_not_pass_to_its_operators_next_node(
    registry: Any, benchmarks: Any, node: int, verifiers: Keys
) -> None:
    """The verdict is about a node's id; an operator address comes back under another one."""
    submit(registry, benchmarks, node)
    registry.begin_exit(node, sender=NODE_OWNER)
    mine(1, UNBONDING)
    registry.withdraw(node, sender=NODE_OWNER)
    signed = consent(registry, account("operator"), NODE_OWNER)
    again = registry.register_node(
        OPERATOR, PAYOUT, TRAINER, STAKE, EMPTY, signed, sender=NODE_OWNER
    )
    give(benchmarks, node, first(verifiers, 2))
    assert registry.node(again).benchmark_score == 0
    assert not registry.is_eligible(again, TRAINER)
    with boa.reverts("benchmarks: not the owner or operator"):
        benchmarks.request_benchmark(node, sender=OPERATOR)


def test_quorum_raised_meanwhile__needs_the_new_one(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys, parameters: tuple[Any, ...]
) -> None:
    """The registry's parameters count as they are when a verdict comes."""
    give(benchmarks, answered, first(verifiers))
    registry.set_parameters((*parameters[:5], 3, parameters[6]), sender=COORDINATOR)
    give(benchmarks, answered, first(verifiers, 1, skip=1))
    assert registry.node(answered).benchmark_score == 0
    give(benchmarks, answered, first(verifiers, 1, skip=2))
    assert registry.node(answered).benchmark_score == SCORE


# NodeBenchmarks' own switch


def test_benchmarks_paused__scores_and_places_stay(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers, 2))
    benchmarks.set_paused(PAUSE_BENCHMARK, sender=COORDINATOR)
    assert registry.eligible_nodes(TRAINER, 0, 128) == ([answered], [SCORE])
