# SPDX-License-Identifier: Apache-2.0
"""Each test plays an attack to its end and names the attacker's profit in ZOO wei: it is negative,
or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import (
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
def wealth(token: Any) -> stage.Register:
    """What some addresses hold together."""
    return lambda *people: sum(token.balanceOf(person) for person in people)


@pytest.fixture
def leave(registry: Any) -> Callable[[int], None]:
    """Takes a node's stake out as soon as that is possible."""

    def go(node_id: int) -> None:
        owner = registry.owner_of(node_id)
        if registry.node(node_id).unlock_at == 0:
            registry.begin_exit(node_id, sender=owner)
        wait(stage.UNBONDING)
        registry.withdraw(node_id, sender=owner)

    return go


@pytest.mark.parametrize("violation", [stage.NO_REVEAL, stage.COPIED, stage.REPEATED])
def test_self_report_through_a_friend__loses_at_least_half(
    registry: Any, node: int, wealth: Any, leave: Any, violation: int
) -> None:
    before = wealth(stage.NODE_OWNER, stage.STRANGER) + stage.STAKE
    taken = registry.slash(node, violation, now(), stage.STRANGER, sender=stage.SLASHER)
    registry.claim_bounty(sender=stage.STRANGER)
    leave(node)
    profit = wealth(stage.NODE_OWNER, stage.STRANGER) - before
    assert profit <= -taken // 2 < 0


def test_exit_before_the_slash__loses_the_same(
    registry: Any, register: stage.Register, wealth: Any, leave: Any
) -> None:
    """Stake flight: unbonding, at its last second, pays as much as staying."""
    stays, flees = register("stays"), register("flees")
    offence = now()
    registry.begin_exit(flees, sender=address_of("flees owner"))
    wait(stage.UNBONDING - 1)
    losses = [
        registry.slash(n, stage.COPIED, offence, address_of("r"), sender=stage.SLASHER)
        for n in (stays, flees)
    ]
    assert losses[0] == losses[1] == stage.STAKE // 2
    leave(flees)
    profit = wealth(address_of("flees owner")) - stage.STAKE
    assert profit == -stage.STAKE // 2


def test_crowding_the_verifier_list__does_not_push_anyone_out(
    registry: Any, register: stage.Register, verifiers: stage.Keys
) -> None:
    """Rounds scan a bounded part of the list; unapproved nodes are not in it."""
    for i in range(10):
        register(f"sybil {i}", stage.VERIFIER)
    assert registry.eligible_nodes(stage.VERIFIER, 0, 3)[0] == list(verifiers)


def test_self_certified_benchmark__never_settles(
    registry: Any, benchmarks: Any, register: stage.Register, verifiers: stage.Keys
) -> None:
    """With a quorum of two, one verifier of one's own and one bribed are not enough."""
    own = register("own verifier", stage.VERIFIER, owner=address_of("cheat owner"))
    registry.approve_role(own, stage.VERIFIER, True, sender=stage.COORDINATOR)
    wait(registry.maturity())
    cheat = register("cheat")
    submit(registry, benchmarks, cheat, units=1_000_000)
    give(benchmarks, cheat, first(verifiers))
    with boa.reverts("benchmarks: own benchmark"):
        benchmarks.submit_verdicts(
            cheat, True, [own], [sign_verdict(benchmarks, account("own verifier"), cheat, True)]
        )
    assert registry.node(cheat).benchmark_score == 0


def test_hostile_coordinator__cannot_hold_stake_or_credit(
    registry: Any, benchmarks: Any, node: int, wealth: Any, leave: Any
) -> None:
    """Everything paused, a slasher locked the node for spite and was delisted: all still leave."""
    registry.slash(node, stage.NO_REVEAL, now(), stage.REPORTER, sender=stage.SLASHER)
    registry.lock(node, sender=stage.SLASHER)
    registry.set_slasher(stage.SLASHER, False, sender=stage.COORDINATOR)
    registry.set_paused(stage.PAUSE_REGISTER, sender=stage.COORDINATOR)
    benchmarks.set_paused(stage.PAUSE_BENCHMARK, sender=stage.COORDINATOR)
    before = wealth(stage.NODE_OWNER)
    leave(node)
    assert wealth(stage.NODE_OWNER) - before == stage.STAKE - stage.STAKE // 20
    assert registry.claim_bounty(sender=stage.REPORTER) == stage.STAKE // 200


def test_donated_tokens__belong_to_nobody(
    registry: Any, token: Any, node: int, leave: Any, wealth: Any
) -> None:
    """Tokens sent unasked do not change what anyone is owed."""
    token.transfer(registry.address, 7 * stage.ZOO, sender=stage.HOLDER)
    before = wealth(stage.NODE_OWNER)
    leave(node)
    assert wealth(stage.NODE_OWNER) - before == stage.STAKE
    assert token.balanceOf(registry.address) == 7 * stage.ZOO
    assert registry.total_stake() == registry.total_bounties() == 0


def test_fresh_identity_after_a_ban__starts_from_nothing(
    registry: Any, benchmarks: Any, node: int, verifiers: stage.Keys, leave: Any
) -> None:
    """Whitewashing costs the stake, and neither score nor approval comes along."""
    benchmark_passed(registry, benchmarks, node, verifiers)
    operator, payout = registry.operator_of(node), registry.node(node).payout
    assert (
        registry.slash(node, stage.REPEATED, now(), address_of("r"), sender=stage.SLASHER)
        == stage.STAKE
    )
    with boa.reverts("registry: operator in use"):
        registry.register_node(
            operator, payout, stage.TRAINER, stage.STAKE, stage.EMPTY, b"", sender=stage.NODE_OWNER
        )
    leave(node)
    signed = consent(registry, account("operator"), stage.NODE_OWNER)
    again = registry.register_node(
        operator, payout, stage.TRAINER, stage.STAKE, stage.EMPTY, signed, sender=stage.NODE_OWNER
    )
    assert not registry.is_eligible(again, stage.TRAINER)
    assert registry.node(again).benchmark_score == 0
