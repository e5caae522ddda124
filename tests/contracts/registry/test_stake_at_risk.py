# SPDX-License-Identifier: Apache-2.0
"""stake_at_risk: what was bonded then already and cannot be withdrawn before the given time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import COORDINATOR, DAY, NODE_OWNER, SLASHER, STAKE, ZERO, ZOO

FOREVER = 2**256 - 1


def test_at_risk__all_of_it(registry: Any, node: int) -> None:
    for until in (0, now(), now() + 100 * DAY, FOREVER):
        assert registry.stake_at_risk(node, now(), until) == STAKE


@pytest.mark.parametrize("node_id", [0, 99, FOREVER])
def test_at_risk__unknown_node__nothing(registry: Any, node_id: int) -> None:
    assert registry.stake_at_risk(node_id, now(), now()) == 0


def test_at_risk__later_additions_do_not_count(registry: Any, node: int) -> None:
    times = []
    for _ in range(3):
        wait(10)
        registry.add_stake(node, 100 * ZOO, sender=NODE_OWNER)
        times.append(now())
    wait(10)
    for later, time in enumerate(times):
        assert registry.stake_at_risk(node, time, FOREVER) == STAKE + (later + 1) * 100 * ZOO
        assert registry.stake_at_risk(node, time - 1, FOREVER) == STAKE + later * 100 * ZOO
    assert registry.stake_at_risk(node, 0, FOREVER) == STAKE


@pytest.mark.parametrize("additions", [15, 16])
def test_at_risk__ring_of_sixteen__forgets_no_young_addition(
    registry: Any, node: int, additions: int
) -> None:
    before = now()
    for _ in range(additions):
        wait(1)
        registry.add_stake(node, 10 * ZOO, sender=NODE_OWNER)
    assert registry.stake_at_risk(node, before, FOREVER) == STAKE


def test_at_risk__slashed__only_what_is_left(registry: Any, node: int) -> None:
    before = now()
    wait(1)
    registry.add_stake(node, 100 * ZOO, sender=NODE_OWNER)
    registry.slash(node, stage.NO_REVEAL, now(), ZERO, sender=SLASHER)
    left = (STAKE + 100 * ZOO) * 95 // 100
    assert registry.stake_at_risk(node, now(), FOREVER) == left
    assert registry.stake_at_risk(node, before, FOREVER) == left - 100 * ZOO


def test_at_risk__slashed_below_the_additions__nothing_and_no_revert(
    registry: Any, node: int
) -> None:
    before = now()
    wait(1)
    registry.add_stake(node, 9_000 * ZOO, sender=NODE_OWNER)
    registry.set_penalty(stage.NO_REVEAL, (9_999, 0, 0, False, False, 0), sender=COORDINATOR)
    registry.slash(node, stage.NO_REVEAL, now(), ZERO, sender=SLASHER)
    assert registry.stake_at_risk(node, now(), FOREVER) == ZOO
    assert registry.stake_at_risk(node, before, FOREVER) == 0


def test_at_risk__suspended__nothing_until_it_is_over(registry: Any, node: int) -> None:
    """By when it counts from: a suspension that ended before then is past."""
    registry.slash(node, stage.ABORT, now(), ZERO, sender=SLASHER)
    over = now() + 7 * DAY
    for since, expected in ((now(), 0), (over - 1, 0), (over, STAKE * 8 // 10)):
        assert registry.stake_at_risk(node, since, FOREVER) == expected
    wait(8 * DAY)
    assert registry.stake_at_risk(node, over - 1, FOREVER) == 0


def test_at_risk__banned__nothing(registry: Any, node: int) -> None:
    registry.set_penalty(stage.REPEATED, (0, 0, 0, False, True, 0), sender=COORDINATOR)
    registry.slash(node, stage.REPEATED, now(), ZERO, sender=SLASHER)
    assert registry.bonded(node) == STAKE
    assert registry.stake_at_risk(node, now(), now()) == 0


def test_at_risk__exiting__until_it_may_be_withdrawn(registry: Any, node: int) -> None:
    registry.begin_exit(node, sender=NODE_OWNER)
    unlock_at = now() + stage.UNBONDING
    for until, expected in ((now(), STAKE), (unlock_at, STAKE), (unlock_at + 1, 0), (FOREVER, 0)):
        assert registry.stake_at_risk(node, now(), until) == expected
    wait(stage.UNBONDING)
    registry.withdraw(node, sender=NODE_OWNER)
    assert registry.stake_at_risk(node, now(), now()) == 0


def test_at_risk__roles_and_rest_do_not_matter(registry: Any, register: stage.Register) -> None:
    """Neither approval nor a benchmark is needed to run tasks."""
    node_id = register("worker")
    registry.set_active(node_id, False, sender=registry.operator_of(node_id))
    assert registry.stake_at_risk(node_id, now(), FOREVER) == STAKE
