# SPDX-License-Identifier: Apache-2.0
"""Rule: an open report holds the withdrawal back, and only its own slasher releases it."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import event, events_of
from tests.stage.contracts.registry import (
    COORDINATOR,
    NODE_OWNER,
    SECOND_SLASHER,
    SLASHER,
    UNBONDING,
)


def test_lock_and_unlock__count_per_node(registry: Any, node: int) -> None:
    for locks in (1, 2):
        registry.lock(node, sender=SLASHER)
        assert events_of(registry) == [event("StakeLocked", node_id=node, locks=locks)]
        assert registry.node(node).locks == locks
    for locks in (1, 0):
        registry.unlock(node, sender=SLASHER)
        assert events_of(registry) == [event("StakeUnlocked", node_id=node, locks=locks)]
        assert registry.node(node).locks == locks


def test_locks__of_two_slashers__add_up(registry: Any, node: int) -> None:
    registry.lock(node, sender=SLASHER)
    registry.lock(node, sender=SECOND_SLASHER)
    registry.unlock(node, sender=SLASHER)
    assert registry.node(node).locks == 1


def test_locks__of_a_delisted_slasher__stop_counting(registry: Any, node: int) -> None:
    """A broken slasher cannot hold stake forever; the other slashers' locks stay."""
    registry.lock(node, sender=SLASHER)
    registry.lock(node, sender=SECOND_SLASHER)
    registry.begin_exit(node, sender=NODE_OWNER)
    wait(UNBONDING)
    registry.set_slasher(SLASHER, False, sender=COORDINATOR)
    assert registry.node(node).locks == 1
    with boa.reverts("registry: stake locked"):
        registry.withdraw(node, sender=NODE_OWNER)
    registry.unlock(node, sender=SECOND_SLASHER)
    registry.withdraw(node, sender=NODE_OWNER)


def test_locks__of_a_relisted_slasher__count_again(registry: Any, node: int) -> None:
    registry.lock(node, sender=SLASHER)
    registry.set_slasher(SLASHER, False, sender=COORDINATOR)
    registry.set_slasher(SLASHER, True, sender=COORDINATOR)
    assert registry.node(node).locks == 1


def test_unlock__by_a_delisted_slasher__still_works(registry: Any, node: int) -> None:
    registry.lock(node, sender=SLASHER)
    registry.set_slasher(SLASHER, False, sender=COORDINATOR)
    registry.unlock(node, sender=SLASHER)
    registry.set_slasher(SLASHER, True, sender=COORDINATOR)
    assert registry.node(node).locks == 0


def test_lock_and_unlock__closed_node__do_not_revert(registry: Any, node: int) -> None:
    registry.begin_exit(node, sender=NODE_OWNER)
    wait(UNBONDING)
    registry.withdraw(node, sender=NODE_OWNER)
    registry.lock(node, sender=SLASHER)
    registry.unlock(node, sender=SLASHER)
