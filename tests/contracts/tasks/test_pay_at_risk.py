# SPDX-License-Identifier: Apache-2.0
"""Pay that may still turn out to be for a fake: what counts, how long, and that a draw passes over
who has more of it than half of its stake."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import TASK_TERMS, ZOO, Player, System, refuses
from tests.stage.contracts.tasks import (
    APPEAL_S,
    APPEAL_WEIGHT,
    COVER,
    CPU,
    HALF,
    NO_COMMIT,
    RIGHT,
    WRONG,
    TaskStage,
    make_tasks,
)

MOST, STAKE = TASK_TERMS["max_fee"], TASK_TERMS["task_stake"]
NO_INPUTS = keccak(text="menagerie.RedundantTasks.unavailable.v1")


def at_risk(stage: TaskStage, player: Player) -> int:
    return int(stage.tasks.executor(player.node_id).at_risk)


def to_window(later: int = 1) -> None:
    """To the first second of the next window in which pay counts, or of a later one."""
    mine(1, later * APPEAL_S - boa.env.timestamp % APPEAL_S)


@pytest.fixture
def pair(system: System) -> TaskStage:
    """Two nodes, whom every draw takes; the third seat of the pool is empty."""
    stage = make_tasks(system, nodes=3, stake=STAKE)
    gone = stage.nodes.pop()
    stage.tasks.leave(gone.node_id, sender=gone.owner)
    mine()
    return stage


def earn(stage: TaskStage, pay: int) -> None:
    """The pair is paid this much each, 1 ZOO at least, in one task after the other."""
    while pay:
        half = pay if pay <= MOST // 2 else min(pay - ZOO, MOST // 2)
        stage.play(RIGHT, RIGHT, task_id=stage.create(fee=2 * half))
        pay -= half


# What counts


def test_pay_at_risk__of_two_who_agree_at_once(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, RIGHT)
    runners = stage.runners(task_id)
    expected = [HALF if player in runners else 0 for player in stage.nodes]
    assert [at_risk(stage, player) for player in stage.nodes] == expected


@pytest.mark.parametrize(
    "answers", [(NO_INPUTS, NO_INPUTS), (RIGHT, WRONG, NO_COMMIT, NO_COMMIT, NO_COMMIT)]
)
def test_pay_at_risk__who_is_not_paid_risks_none(stage: TaskStage, answers: Any) -> None:
    stage.play(*answers)
    assert not any(at_risk(stage, player) for player in stage.nodes)


def test_pay_at_risk__a_decision_is_paid_when_nobody_can_appeal(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, WRONG, RIGHT)
    stage.finalize(task_id)
    assert not any(at_risk(stage, player) for player in stage.nodes)


# How long


def test_pay_at_risk__until_the_end_of_the_next_window(pair: TaskStage) -> None:
    """So never less long than the appeal window, and less than twice as long."""
    to_window()
    pair.play(RIGHT, RIGHT)
    pair.play(RIGHT, RIGHT)
    assert at_risk(pair, pair.nodes[0]) == 2 * HALF
    to_window()
    pair.play(RIGHT, RIGHT)
    assert at_risk(pair, pair.nodes[0]) == 3 * HALF
    to_window()
    assert at_risk(pair, pair.nodes[0]) == HALF
    to_window()
    assert at_risk(pair, pair.nodes[0]) == 0


def test_pay_at_risk__as_long_as_it_is_appealed(pair: TaskStage) -> None:
    """Ten times, beside its window, in which it counts too."""
    task_id = pair.play(RIGHT, RIGHT)
    pair.appeal(task_id)
    assert at_risk(pair, pair.nodes[0]) == (1 + APPEAL_WEIGHT) * HALF
    to_window(2)
    assert at_risk(pair, pair.nodes[0]) == APPEAL_WEIGHT * HALF
    pair.judge(task_id, RIGHT)
    assert at_risk(pair, pair.nodes[0]) == 0


def test_pay_at_risk__an_appeal_of_a_decision_counts_none(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, WRONG, RIGHT)
    stage.appeal(task_id)
    assert not any(at_risk(stage, player) for player in stage.nodes)
    stage.judge(task_id, RIGHT)
    assert not any(at_risk(stage, player) for player in stage.nodes)


def test_pay_at_risk__stays_when_a_node_leaves(pair: TaskStage) -> None:
    pair.play(RIGHT, RIGHT)
    player = pair.nodes[0]
    pair.tasks.leave(player.node_id, sender=player.owner)
    assert at_risk(pair, player) == HALF
    mine(300)
    pair.tasks.join(player.node_id, CPU, sender=player.owner)
    assert at_risk(pair, player) == HALF


# What it does


def test_draw__takes_who_has_half_of_its_stake_at_risk(pair: TaskStage) -> None:
    to_window()
    earn(pair, STAKE // COVER)
    assert len(pair.draw(pair.create())) == 2


def test_draw__passes_over_who_has_more_at_risk(pair: TaskStage) -> None:
    to_window()
    earn(pair, STAKE // COVER + 1)
    task_id = pair.create()
    pair.to_draw(task_id)
    assert pair.tasks.expected(task_id) == []
    with refuses("tasks: hands full"):
        pair.tasks.draw(task_id, sender=pair.stranger)


def test_draw__takes_it_again_when_the_pay_is_safe(pair: TaskStage) -> None:
    to_window()
    earn(pair, STAKE // COVER + 1)
    to_window(2)
    assert len(pair.draw(pair.create())) == 2


def test_draw__takes_it_again_with_more_stake(system: System, pair: TaskStage) -> None:
    """Stake counts as of a request, so a task that waits has no use of it before its next one."""
    to_window()
    earn(pair, STAKE // COVER + 1)
    for player in pair.nodes:
        system.add_stake(player, ZOO)
    mine()
    assert len(pair.draw(pair.create())) == 2
