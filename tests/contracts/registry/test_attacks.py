# SPDX-License-Identifier: Apache-2.0
"""Each test plays an attack to its end and names the attacker's profit in ZOO wei: it is negative,
or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import mine, now, wait
from tests.stage.contracts.registry import (
    COPIED,
    EMPTY,
    NO_REVEAL,
    PAUSE_BENCHMARK,
    PAUSE_REGISTER,
    REPEATED,
    STAKE,
    TRAINER,
    UNBONDING,
    VERIFIER,
    ZOO,
    Keys,
    account,
    address_of,
    benchmark_passed,
    first,
    give,
    sign_verdict,
    submit,
)


@pytest.fixture
def wealth(token: Any) -> Callable[..., int]:
    """What some addresses hold together."""
    return lambda *people: sum(token.balanceOf(person) for person in people)


@pytest.fixture
def leave(registry: Any) -> Callable[[int], None]:
    """Takes a node's stake out as soon as that is possible."""

    def go(node_id: int) -> None:
        owner = registry.owner_of(node_id)
        if registry.node(node_id).unlock_at == 0:
            registry.begin_exit(node_id, sender=owner)
        wait(UNBONDING)
        registry.withdraw(node_id, sender=owner)

    return go


@pytest.mark.parametrize("violation", [NO_REVEAL, COPIED, REPEATED])
def test_self_report_through_a_friend__loses_at_least_half(
    registry: Any,
    node: int,
    slasher: str,
    node_owner: str,
    stranger: str,
    wealth: Any,
    leave: Any,
    violation: int,
) -> None:
    before = wealth(node_owner, stranger) + STAKE
    taken = registry.slash(node, violation, now(), stranger, sender=slasher)
    registry.claim_bounty(sender=stranger)
    leave(node)
    profit = wealth(node_owner, stranger) - before
    assert profit <= -taken // 2 < 0


def test_exit_before_the_slash__loses_the_same(
    registry: Any, register: Callable[..., int], slasher: str, wealth: Any, leave: Any
) -> None:
    """Stake flight: unbonding, at its last second, pays as much as staying."""
    stays, flees = register("stays"), register("flees")
    offence = now()
    registry.begin_exit(flees, sender=address_of("flees owner"))
    wait(UNBONDING - 1)
    losses = [
        registry.slash(n, COPIED, offence, address_of("r"), sender=slasher) for n in (stays, flees)
    ]
    assert losses[0] == losses[1] == STAKE // 2
    leave(flees)
    profit = wealth(address_of("flees owner")) - STAKE
    assert profit == -STAKE // 2


def test_second_node_under_the_same_operator__is_impossible(
    registry: Any, node: int, operator: str, fund: Callable[[str, int], None], stranger: str
) -> None:
    fund(stranger, STAKE)
    with boa.reverts("registry: operator in use"):
        registry.register_node(operator, stranger, TRAINER, STAKE, EMPTY, sender=stranger)
    assert registry.owner_of(node) != stranger


def test_crowding_the_verifier_list__does_not_push_anyone_out(
    registry: Any, register: Callable[..., int], verifiers: Keys
) -> None:
    """Rounds scan a bounded part of the list; unapproved nodes are not in it."""
    for i in range(10):
        register(f"sybil {i}", VERIFIER)
    assert registry.eligible_nodes(VERIFIER, 0, 3)[0] == list(verifiers)


def test_self_certified_benchmark__never_settles(
    registry: Any, benchmarks: Any, register: Callable[..., int], verifiers: Keys, coordinator: str
) -> None:
    """With a quorum of two, one verifier of one's own and one bribed are not enough."""
    cheat = register("cheat")
    own = register("own verifier", VERIFIER, owner=address_of("cheat owner"))
    registry.approve_role(own, VERIFIER, True, sender=coordinator)
    submit(registry, benchmarks, cheat, units=1_000_000)
    give(benchmarks, cheat, first(verifiers))
    with boa.reverts("benchmarks: own benchmark"):
        benchmarks.submit_verdicts(
            cheat, True, [own], [sign_verdict(benchmarks, account("own verifier"), cheat, True)]
        )
    assert registry.node(cheat).benchmark_score == 0


def test_precomputed_benchmark__cannot_be_submitted_before_its_seed(
    benchmarks: Any, node: int, operator: str
) -> None:
    for blocks in (0, 1):
        mine(blocks)
        with boa.reverts("randomness: too early"):
            benchmarks.submit_benchmark(node, 1, b"\x01" * 32, b"\x01" * 32, sender=operator)


def test_stolen_operator_key__reaches_no_money(
    registry: Any, node: int, operator: str, stranger: str, token: Any
) -> None:
    for function, arguments in (
        ("begin_exit", (node,)),
        ("withdraw", (node,)),
        ("set_payout", (node, stranger)),
        ("set_operator", (node, stranger)),
        ("set_roles", (node, VERIFIER)),
        ("add_stake", (node, ZOO)),
    ):
        with boa.reverts("registry: not the owner"):
            getattr(registry, function)(*arguments, sender=operator)
    assert token.balanceOf(operator) == 0


def test_hostile_coordinator__cannot_hold_stake_or_credit(
    registry: Any,
    benchmarks: Any,
    node: int,
    coordinator: str,
    slasher: str,
    reporter: str,
    node_owner: str,
    wealth: Any,
    leave: Any,
) -> None:
    """Everything paused, a slasher locked the node for spite and was delisted: all still leave."""
    registry.slash(node, NO_REVEAL, now(), reporter, sender=slasher)
    registry.lock(node, sender=slasher)
    registry.set_slasher(slasher, False, sender=coordinator)
    registry.set_paused(PAUSE_REGISTER, sender=coordinator)
    benchmarks.set_paused(PAUSE_BENCHMARK, sender=coordinator)
    before = wealth(node_owner)
    leave(node)
    assert wealth(node_owner) - before == STAKE - STAKE // 20
    assert registry.claim_bounty(sender=reporter) == STAKE // 200


def test_donated_tokens__belong_to_nobody(
    registry: Any, token: Any, node: int, holder: str, leave: Any, node_owner: str, wealth: Any
) -> None:
    """Tokens sent unasked do not change what anyone is owed."""
    token.transfer(registry.address, 7 * ZOO, sender=holder)
    before = wealth(node_owner)
    leave(node)
    assert wealth(node_owner) - before == STAKE
    assert token.balanceOf(registry.address) == 7 * ZOO
    assert registry.total_stake() == registry.total_bounties() == 0


def test_fresh_identity_after_a_ban__starts_from_nothing(
    registry: Any,
    benchmarks: Any,
    node: int,
    slasher: str,
    verifiers: Keys,
    leave: Any,
    node_owner: str,
    fund: Any,
) -> None:
    """Whitewashing costs the stake, and neither score nor approval comes along."""
    benchmark_passed(registry, benchmarks, node, verifiers)
    operator, payout = registry.operator_of(node), registry.node(node).payout
    assert registry.slash(node, REPEATED, now(), address_of("r"), sender=slasher) == STAKE
    with boa.reverts("registry: operator in use"):
        registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, sender=node_owner)
    leave(node)
    again = registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, sender=node_owner)
    assert not registry.is_eligible(again, TRAINER)
    assert registry.node(again).benchmark_score == 0
