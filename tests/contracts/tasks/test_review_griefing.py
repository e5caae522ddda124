# SPDX-License-Identifier: Apache-2.0
"""What somebody could do at others' cost, or to keep what a verdict takes, and why it fails."""

from __future__ import annotations

import boa

from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import TASK_TERMS, ZOO, refuses
from tests.stage.contracts.tasks import BOND, COLLUSION, FEE, RIGHT, WRONG, TaskStage, slashed

MIN_RUN_S = 60


def test_the_shortest_task(stage: TaskStage) -> None:
    fee = MIN_RUN_S * TASK_TERMS["fee_per_s"]
    with refuses("tasks: bad fee"):
        stage.create(fee=fee - 1, run_s=MIN_RUN_S)
    task_id = stage.create(fee=fee, run_s=MIN_RUN_S)
    stage.draw(task_id)
    assert stage.state(task_id).time == boa.env.timestamp + MIN_RUN_S
    mine(1, MIN_RUN_S)
    stage.commit_all(task_id, {0: RIGHT, 1: RIGHT})
    assert stage.status(task_id) == task.REVEALING


def test_naming_the_court_as_ones_own_address_keeps_nothing_from_it(stage: TaskStage) -> None:
    """Nobody is a reporter of its own node's offence. Two who collude and name TaskAppeals as one
    of their addresses would otherwise leave it no share: nothing for the creator they cheated, for
    the verifiers, for the appellant."""
    task_id = stage.play(WRONG, WRONG)
    assert stage.status(task_id) == task.AGREED
    pair = stage.runners(task_id)
    for player in pair:
        stage.registry.set_payout(player.node_id, stage.appeals.address, sender=player.owner)
    stage.appeal(task_id)
    with stage.moves() as moved:
        stage.judge(task_id, RIGHT)
    half = slashed(5_000) // 2
    assert [stage.registry.offences(p.node_id, COLLUSION) for p in pair] == [1, 1]
    assert moved["appeals", "creator"] == FEE
    assert moved["appeals", "appellant"] == BOND + 2 * half - FEE - BOND
    assert moved["bounty", "treasury"] == 2 * half
    assert sum(moved.get(("appeals", v.name), 0) for v in stage.verifiers) == BOND


def test_an_exiting_node_may_be_unseated_by_anyone(stage: TaskStage) -> None:
    """Its owner has begun to leave and may have switched the machine off: the next draw would slash
    it. Draws that were requested before may mean it still, so an exit dodges nothing."""
    leaver = stage.nodes[0]
    with refuses("executors: enough stake"):
        stage.tasks.evict(leaver.node_id, sender=stage.stranger)
    task_id = stage.create()
    stage.registry.begin_exit(leaver.node_id, sender=leaver.owner)
    mine(2)
    before = stage.tasks.expected(task_id)
    stage.tasks.evict(leaver.node_id, sender=stage.stranger)
    assert stage.tasks.expected(task_id) == before
    assert not stage.tasks.executor(leaver.node_id).seated

    for _ in range(20):
        mine(2)
        later = stage.create(fee=ZOO)
        mine(2)
        assert leaver.node_id not in stage.tasks.expected(later)
