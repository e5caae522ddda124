# SPDX-License-Identifier: Apache-2.0
"""Rule: an open report holds the withdrawal back, and only its own slasher releases it."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import wait
from tests.stage.contracts.registry import UNBONDING, address_of, own_events


def test_lock_and_unlock__count_per_node(registry: Any, node: int, slasher: str) -> None:
    for locks in (1, 2):
        registry.lock(node, sender=slasher)
        assert own_events(registry) == [("StakeLocked", {"node_id": node, "locks": locks})]
        assert registry.node(node).locks == locks
    for locks in (1, 0):
        registry.unlock(node, sender=slasher)
        assert own_events(registry) == [("StakeUnlocked", {"node_id": node, "locks": locks})]
        assert registry.node(node).locks == locks


@pytest.mark.parametrize("who", ["node_owner", "operator", "coordinator", "stranger"])
def test_lock__not_a_slasher__reverts(registry: Any, node: int, who: str) -> None:
    with boa.reverts("registry: not a slasher"):
        registry.lock(node, sender=address_of(who))


def test_lock__unknown_node__reverts(registry: Any, slasher: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.lock(3, sender=slasher)


@pytest.mark.parametrize("who", ["node_owner", "operator", "coordinator", "stranger"])
def test_unlock__without_a_lock__reverts(registry: Any, node: int, slasher: str, who: str) -> None:
    registry.lock(node, sender=slasher)
    with boa.reverts("registry: no lock"):
        registry.unlock(node, sender=address_of(who))


def test_unlock__of_another_slasher__reverts(
    registry: Any, node: int, slasher: str, second_slasher: str
) -> None:
    registry.lock(node, sender=slasher)
    with boa.reverts("registry: no lock"):
        registry.unlock(node, sender=second_slasher)


def test_unlock__more_than_locked__reverts(registry: Any, node: int, slasher: str) -> None:
    registry.lock(node, sender=slasher)
    registry.unlock(node, sender=slasher)
    with boa.reverts("registry: no lock"):
        registry.unlock(node, sender=slasher)


def test_locks__of_two_slashers__add_up(
    registry: Any, node: int, slasher: str, second_slasher: str
) -> None:
    registry.lock(node, sender=slasher)
    registry.lock(node, sender=second_slasher)
    registry.unlock(node, sender=slasher)
    assert registry.node(node).locks == 1


def test_locks__of_a_delisted_slasher__stop_counting(
    registry: Any, node: int, node_owner: str, slasher: str, second_slasher: str, coordinator: str
) -> None:
    """A broken slasher cannot hold stake forever; the other slashers' locks stay."""
    registry.lock(node, sender=slasher)
    registry.lock(node, sender=second_slasher)
    registry.begin_exit(node, sender=node_owner)
    wait(UNBONDING)
    registry.set_slasher(slasher, False, sender=coordinator)
    assert registry.node(node).locks == 1
    with boa.reverts("registry: stake locked"):
        registry.withdraw(node, sender=node_owner)
    registry.unlock(node, sender=second_slasher)
    registry.withdraw(node, sender=node_owner)


def test_locks__of_a_relisted_slasher__count_again(
    registry: Any, node: int, slasher: str, coordinator: str
) -> None:
    registry.lock(node, sender=slasher)
    registry.set_slasher(slasher, False, sender=coordinator)
    registry.set_slasher(slasher, True, sender=coordinator)
    assert registry.node(node).locks == 1


def test_unlock__by_a_delisted_slasher__still_works(
    registry: Any, node: int, slasher: str, coordinator: str
) -> None:
    registry.lock(node, sender=slasher)
    registry.set_slasher(slasher, False, sender=coordinator)
    registry.unlock(node, sender=slasher)
    registry.set_slasher(slasher, True, sender=coordinator)
    assert registry.node(node).locks == 0


def test_lock_and_unlock__closed_node__do_not_revert(
    registry: Any, node: int, node_owner: str, slasher: str
) -> None:
    registry.begin_exit(node, sender=node_owner)
    wait(UNBONDING)
    registry.withdraw(node, sender=node_owner)
    registry.lock(node, sender=slasher)
    registry.unlock(node, sender=slasher)
