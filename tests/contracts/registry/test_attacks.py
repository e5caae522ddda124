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
