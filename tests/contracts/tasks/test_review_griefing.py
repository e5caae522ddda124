# SPDX-License-Identifier: Apache-2.0
"""What somebody could do at others' cost, or to keep what a verdict takes, and why it fails."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import TASK_TERMS, UNBONDING, ZOO, refuses
from tests.stage.contracts.tasks import (
    AGREED,
    BOND,
    COLLUSION,
    CPU,
    FEE,
    REVEALING,
    RIGHT,
    SPEC,
    WRONG,
    TaskWorld,
    slashed,
)

MIN_RUN_S = 60


@pytest.mark.parametrize("run_s", [0, 1, MIN_RUN_S - 1])
def test_no_task_is_too_short_to_be_answered(world: TaskWorld, run_s: int) -> None:
    """A task of one second would slash whoever is drawn: no commit gets into a block in time, and
    its fee, a thousandth of a ZOO, would come back to the creator."""
    with refuses("tasks: bad run time"):
        world.tasks.create_task(CPU, SPEC, FEE, run_s, sender=world.creator)


def test_the_shortest_task(world: TaskWorld) -> None:
    fee = MIN_RUN_S * TASK_TERMS["fee_per_s"]
    with refuses("tasks: bad fee"):
        world.create(fee=fee - 1, run_s=MIN_RUN_S)
    task_id = world.create(fee=fee, run_s=MIN_RUN_S)
    world.draw(task_id)
    assert world.state(task_id).time == boa.env.timestamp + MIN_RUN_S
    mine(1, MIN_RUN_S)
    world.commit_all(task_id, {0: RIGHT, 1: RIGHT})
    assert world.status(task_id) == REVEALING


@pytest.mark.parametrize("role", ["payout", "operator"])
def test_naming_the_court_as_ones_own_address_keeps_nothing_from_it(
    world: TaskWorld, role: str
) -> None:
    """Nobody is a reporter of its own node's offence. Two who collude and name TaskAppeals as one
    of their addresses would otherwise leave it no share: nothing for the creator they cheated, for
    the verifiers, for the appellant."""
    task_id = world.play(WRONG, WRONG)
    assert world.status(task_id) == AGREED
    pair = world.runners(task_id)
    setter = getattr(world.registry, f"set_{role}")
    for player in pair if role == "payout" else pair[:1]:
        setter(player.node_id, world.appeals.address, sender=player.owner)
    world.appeal(task_id)
    with world.moves() as moved:
        world.judge(task_id, RIGHT)
    half = slashed(5_000) // 2
    assert [world.registry.offences(p.node_id, COLLUSION) for p in pair] == [1, 1]
    assert moved["appeals", "creator"] == FEE
    assert moved["appeals", "appellant"] == BOND + 2 * half - FEE - BOND
    assert moved["bounty", "treasury"] == 2 * half
    assert sum(moved.get(("appeals", v.name), 0) for v in world.verifiers) == BOND


def test_an_exiting_node_may_be_unseated_by_anyone(world: TaskWorld) -> None:
    """Its owner has begun to leave and may have switched the machine off: the next draw would slash
    it. Draws that were requested before may mean it still, so an exit dodges nothing."""
    leaver = world.nodes[0]
    with refuses("executors: enough stake"):
        world.tasks.evict(leaver.node_id, sender=world.stranger)
    task_id = world.create()
    world.registry.begin_exit(leaver.node_id, sender=leaver.owner)
    mine(2)
    before = world.tasks.expected(task_id)
    world.tasks.evict(leaver.node_id, sender=world.stranger)
    assert world.tasks.expected(task_id) == before
    assert not world.tasks.executor(leaver.node_id).seated

    for _ in range(20):
        mine(2)
        later = world.create(fee=ZOO)
        mine(2)
        assert leaver.node_id not in world.tasks.expected(later)


def test_an_exiting_node_takes_no_seat(world: TaskWorld) -> None:
    leaver = world.nodes[0]
    world.tasks.leave(leaver.node_id, sender=leaver.operator)
    world.registry.begin_exit(leaver.node_id, sender=leaver.owner)
    mine(300)
    assert world.registry.node(leaver.node_id).unlock_at > boa.env.timestamp + UNBONDING // 2
    with refuses("executors: too little stake"):
        world.tasks.join(leaver.node_id, CPU, sender=leaver.operator)
