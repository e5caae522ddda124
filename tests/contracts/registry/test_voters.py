# SPDX-License-Identifier: Apache-2.0
"""Who votes on a work: old stake, one voice an owner, at rest or not, twice the minimum at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import (
    COORDINATOR,
    INVALID,
    NODE_OWNER,
    REPEATED,
    SECOND_SLASHER,
    SLASHER,
    STAKE,
    TRAINER,
    UNBONDING,
    VERIFIER,
    VERIFIER_STAKE,
    ZERO,
    ZOO,
    Keys,
    account,
    address_of,
    give,
)
from tests.stage.contracts.registry import first as some

CAP = 2 * VERIFIER_STAKE


def test_maturity__is_a_thousandth_of_the_unbonding_period(registry: Any) -> None:
    assert registry.maturity() == UNBONDING // 1_000 == 1_209


def test_voters__weigh_what_was_bonded_then(
    registry: Any, verifiers: Keys, fund: Callable[[str, int], None]
) -> None:
    """An addition counts from its second on; a registration too; a slash takes weight."""
    first, second, _ = verifiers
    registry.slash(second, INVALID, now(), ZERO, sender=SLASHER)
    fund(address_of("ada owner"), STAKE)
    registry.slash(first, INVALID, now(), ZERO, sender=SLASHER)
    wait(10)
    registry.add_stake(first, 50 * ZOO, sender=address_of("ada owner"))
    weight = STAKE - STAKE // 5
    assert tuple(registry.voters(now() - 1)) == (list(verifiers), [weight, weight, CAP])
    assert tuple(registry.voters(now())) == (list(verifiers), [weight + 50 * ZOO, weight, CAP])
    assert registry.voters(registry.node(first).registered_at - 1)[0] == []


@pytest.mark.parametrize("how", ["resting", "suspended"])
def test_voters__silent_ones_stay(registry: Any, verifiers: Keys, how: str) -> None:
    first = next(iter(verifiers))
    if how == "resting":
        registry.set_active(first, False, sender=registry.owner_of(first))
    else:
        registry.slash(first, INVALID, now(), ZERO, sender=SLASHER)
    assert registry.voters(now())[0] == list(verifiers)
    assert not registry.is_eligible(first, VERIFIER)
    acting = registry.operator_of(first) if how == "resting" else ZERO
    assert registry.acting_operator(first) == acting


@pytest.mark.parametrize("how", ["banned", "exiting", "revoked", "locked", "poor"])
def test_voters__who_is_out_is_out(registry: Any, verifiers: Keys, how: str) -> None:
    first = next(iter(verifiers))
    if how == "banned":
        registry.slash(first, REPEATED, now(), ZERO, sender=SLASHER)
        assert registry.acting_operator(first) == ZERO
    elif how == "exiting":
        registry.begin_exit(first, sender=registry.owner_of(first))
    elif how == "revoked":
        registry.approve_role(first, VERIFIER, False, sender=COORDINATOR)
    elif how == "locked":
        registry.lock(first, sender=SLASHER)
    else:
        for _ in range(2):
            registry.slash(first, 9, now(), ZERO, sender=SLASHER)
        assert registry.bonded(first) < VERIFIER_STAKE
    assert sorted(registry.voters(now())[0]) == [v for v in verifiers if v != first]


def test_voters__one_voice_an_owner__its_first_that_may(
    registry: Any, register: Callable[..., int], verifiers: Keys
) -> None:
    twin = register("twin", VERIFIER, owner=address_of("ada owner"))
    registry.approve_role(twin, VERIFIER, True, sender=COORDINATOR)
    assert registry.voters(now())[0] == list(verifiers)
    first = next(iter(verifiers))
    registry.approve_role(first, VERIFIER, False, sender=COORDINATOR)
    assert twin in registry.voters(now())[0]


def test_attack__seventeenth_addition__does_not_make_the_first_old_stake(
    registry: Any, node: int
) -> None:
    """The ring of 16 forgot the oldest addition: 9,000 ZOO counted as bonded before they were."""
    before = now()
    wait(1)
    registry.add_stake(node, 900 * ZOO, sender=NODE_OWNER)
    for _ in range(15):
        registry.add_stake(node, ZOO, sender=NODE_OWNER)
    with boa.reverts("registry: too many additions"):
        registry.add_stake(node, ZOO, sender=NODE_OWNER)
    assert registry.stake_at_risk(node, before, 0) == STAKE
    wait(UNBONDING)
    registry.add_stake(node, ZOO, sender=NODE_OWNER)


def test_attack__node_with_an_open_finding__gets_no_more_work(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    """A node that verifiers had found guilty went on working for 24 hours of appeal: six findings,
    1,416.7 ZOO earned meanwhile. A lock takes it off every list until the last one is released."""
    give(benchmarks, answered, some(verifiers, 2))
    assert registry.is_eligible(answered, TRAINER)
    assert registry.stake_at_risk(answered, now(), 0) == STAKE
    for slasher in (SLASHER, SECOND_SLASHER):
        registry.lock(answered, sender=slasher)
    for slasher in (SLASHER, SECOND_SLASHER):
        assert not registry.is_eligible(answered, TRAINER)
        assert registry.role_nodes(TRAINER, 0, 128) == []
        assert registry.stake_at_risk(answered, now(), 0) == 0
        registry.unlock(answered, sender=slasher)
    assert registry.is_eligible(answered, TRAINER)
    assert registry.stake_at_risk(answered, now(), 0) == STAKE


def test_lock__of_a_delisted_slasher__lets_the_node_back_with_its_next_change(
    registry: Any, verifiers: Keys
) -> None:
    first = next(iter(verifiers))
    registry.lock(first, sender=SLASHER)
    registry.set_slasher(SLASHER, False, sender=COORDINATOR)
    assert registry.node(first).locks == 0
    assert first not in registry.voters(now())[0]
    registry.set_active(first, True, sender=account("ada").address)
    assert first in registry.voters(now())[0]
