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
    COORDINATOR,
    COPIED,
    EMPTY,
    HOLDER,
    NO_REVEAL,
    NODE_OWNER,
    OPERATOR,
    PAUSE_BENCHMARK,
    PAUSE_REGISTER,
    REPEATED,
    REPORTER,
    SLASHER,
    STAKE,
    STRANGER,
    TRAINER,
    UNBONDING,
    VERIFIER,
    ZOO,
    Keys,
    account,
    address_of,
    benchmark_passed,
    consent,
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
    registry: Any, node: int, wealth: Any, leave: Any, violation: int
) -> None:
    before = wealth(NODE_OWNER, STRANGER) + STAKE
    taken = registry.slash(node, violation, now(), STRANGER, sender=SLASHER)
    registry.claim_bounty(sender=STRANGER)
    leave(node)
    profit = wealth(NODE_OWNER, STRANGER) - before
    assert profit <= -taken // 2 < 0


def test_exit_before_the_slash__loses_the_same(
    registry: Any, register: Callable[..., int], wealth: Any, leave: Any
) -> None:
    """Stake flight: unbonding, at its last second, pays as much as staying."""
    stays, flees = register("stays"), register("flees")
    offence = now()
    registry.begin_exit(flees, sender=address_of("flees owner"))
    wait(UNBONDING - 1)
    losses = [
        registry.slash(n, COPIED, offence, address_of("r"), sender=SLASHER) for n in (stays, flees)
    ]
    assert losses[0] == losses[1] == STAKE // 2
    leave(flees)
    profit = wealth(address_of("flees owner")) - STAKE
    assert profit == -STAKE // 2


def test_second_node_under_the_same_operator__is_impossible(
    registry: Any, node: int, fund: Callable[[str, int], None]
) -> None:
    fund(STRANGER, STAKE)
    with boa.reverts("registry: operator in use"):
        registry.register_node(OPERATOR, STRANGER, TRAINER, STAKE, EMPTY, b"", sender=STRANGER)
    assert registry.owner_of(node) != STRANGER


def test_crowding_the_verifier_list__does_not_push_anyone_out(
    registry: Any, register: Callable[..., int], verifiers: Keys
) -> None:
    """Rounds scan a bounded part of the list; unapproved nodes are not in it."""
    for i in range(10):
        register(f"sybil {i}", VERIFIER)
    assert registry.eligible_nodes(VERIFIER, 0, 3)[0] == list(verifiers)


def test_self_certified_benchmark__never_settles(
    registry: Any, benchmarks: Any, register: Callable[..., int], verifiers: Keys
) -> None:
    """With a quorum of two, one verifier of one's own and one bribed are not enough."""
    own = register("own verifier", VERIFIER, owner=address_of("cheat owner"))
    registry.approve_role(own, VERIFIER, True, sender=COORDINATOR)
    wait(registry.maturity())
    cheat = register("cheat")
    submit(registry, benchmarks, cheat, units=1_000_000)
    give(benchmarks, cheat, first(verifiers))
    with boa.reverts("benchmarks: own benchmark"):
        benchmarks.submit_verdicts(
            cheat, True, [own], [sign_verdict(benchmarks, account("own verifier"), cheat, True)]
        )
    assert registry.node(cheat).benchmark_score == 0


def test_precomputed_benchmark__cannot_be_submitted_before_its_seed(
    benchmarks: Any, node: int
) -> None:
    for blocks in (0, 1):
        mine(blocks)
        with boa.reverts("randomness: too early"):
            benchmarks.submit_benchmark(node, 1, b"\x01" * 32, b"\x01" * 32, sender=OPERATOR)


def test_stolen_operator_key__reaches_no_money(registry: Any, node: int, token: Any) -> None:
    for function, arguments in (
        ("begin_exit", (node,)),
        ("withdraw", (node,)),
        ("set_payout", (node, STRANGER)),
        ("set_operator", (node, STRANGER, b"")),
        ("set_roles", (node, VERIFIER)),
        ("add_stake", (node, ZOO)),
    ):
        with boa.reverts("registry: not the owner"):
            getattr(registry, function)(*arguments, sender=OPERATOR)
    assert token.balanceOf(OPERATOR) == 0


def test_hostile_coordinator__cannot_hold_stake_or_credit(
    registry: Any, benchmarks: Any, node: int, wealth: Any, leave: Any
) -> None:
    """Everything paused, a slasher locked the node for spite and was delisted: all still leave."""
    registry.slash(node, NO_REVEAL, now(), REPORTER, sender=SLASHER)
    registry.lock(node, sender=SLASHER)
    registry.set_slasher(SLASHER, False, sender=COORDINATOR)
    registry.set_paused(PAUSE_REGISTER, sender=COORDINATOR)
    benchmarks.set_paused(PAUSE_BENCHMARK, sender=COORDINATOR)
    before = wealth(NODE_OWNER)
    leave(node)
    assert wealth(NODE_OWNER) - before == STAKE - STAKE // 20
    assert registry.claim_bounty(sender=REPORTER) == STAKE // 200


def test_donated_tokens__belong_to_nobody(
    registry: Any, token: Any, node: int, leave: Any, wealth: Any
) -> None:
    """Tokens sent unasked do not change what anyone is owed."""
    token.transfer(registry.address, 7 * ZOO, sender=HOLDER)
    before = wealth(NODE_OWNER)
    leave(node)
    assert wealth(NODE_OWNER) - before == STAKE
    assert token.balanceOf(registry.address) == 7 * ZOO
    assert registry.total_stake() == registry.total_bounties() == 0


def test_fresh_identity_after_a_ban__starts_from_nothing(
    registry: Any, benchmarks: Any, node: int, verifiers: Keys, leave: Any, fund: Any
) -> None:
    """Whitewashing costs the stake, and neither score nor approval comes along."""
    benchmark_passed(registry, benchmarks, node, verifiers)
    operator, payout = registry.operator_of(node), registry.node(node).payout
    assert registry.slash(node, REPEATED, now(), address_of("r"), sender=SLASHER) == STAKE
    with boa.reverts("registry: operator in use"):
        registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, b"", sender=NODE_OWNER)
    leave(node)
    signed = consent(registry, account("operator"), NODE_OWNER)
    again = registry.register_node(
        operator, payout, TRAINER, STAKE, EMPTY, signed, sender=NODE_OWNER
    )
    assert not registry.is_eligible(again, TRAINER)
    assert registry.node(again).benchmark_score == 0
