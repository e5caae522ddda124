# SPDX-License-Identifier: Apache-2.0
"""A trainer that is banned in the middle of a round, and has a place in it.

Rule: the snapshot of a round is fixed, so a banned node may still commit and reveal in it. It has
no stake left, and what it can win is a part of that round's pay.
"""

from __future__ import annotations

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import INVALID, REPEATED, ZERO, Player
from tests.stage.contracts.wealth import of_player


def banned(stage: RoundStage) -> Player:
    """A trainer of the open round, convicted in another job. It has lost its whole stake."""
    liar, system = stage.trainers[0], stage.system
    slasher = system.reports.address
    system.registry.slash(liar.node_id, REPEATED, now(), ZERO, sender=slasher)
    assert system.registry.bonded(liar.node_id) == 0
    return liar


def pay(stage: RoundStage, *players: Player) -> int:
    """What trainers have of the pool, with what it retains."""
    pool = stage.system.pool
    retained = sum(int(pool.retained(stage.job_id, player.node_id)) for player in players)
    return of_player(stage.system, *players) + retained


def test_commits_and_stays_silent__wins_nothing_and_costs_nobody_pay(stage: RoundStage) -> None:
    """It has nothing to be slashed. The round waits for its reveal, once: it is in no later one."""
    system, round_id = stage.system, stage.to_commit()
    liar = banned(stage)
    stage.commit_all(round_id, *stage.trainers)
    others = stage.trainers[1:]
    stage.reveal_all(round_id, *others)
    system.time_out(stage.job_id, round_id)
    assert system.rounds.slash_unrevealed(stage.job_id, round_id, liar.node_id) == 0
    before, nodes = pay(stage, liar), [other.node_id for other in others]
    whole = pay(stage, *others)
    stage.propose(round_id, nodes=nodes, contributions=[1] * len(nodes))
    stage.attest(round_id)
    system.results.finalize(stage.job_id, round_id, nodes, [1] * len(nodes))
    assert pay(stage, liar) == before
    pool = system.pool.pool(stage.job_id, round_id)
    assert pool.trainer_amount - len(nodes) < pay(stage, *others) - whole <= pool.trainer_amount
    following = stage.to_commit()
    assert not system.rounds.is_expected(stage.job_id, following, liar.node_id)


def test_reveals_noise_and_is_found__is_not_paid(stage: RoundStage) -> None:
    """Finders get their deposits back and no bounty, for there is nothing to take."""
    system, round_id = stage.system, stage.to_commit()
    liar = banned(stage)
    stage.commit_all(round_id, *stage.trainers)
    stage.reveal_all(round_id, *stage.trainers)
    stage.propose(round_id)
    before, verifiers = pay(stage, liar), of_player(system, *stage.verifiers)
    report = stage.find(round_id, liar, INVALID, *stage.verifiers[:2])
    assert of_player(system, *stage.verifiers) == verifiers
    stage.attest(round_id)
    stage.finalize()
    mine(1, system.reports.report_of(report).deadline - now() + 1)
    assert system.reports.execute(report) == 0
    assert pay(stage, liar) == before


def test_reveals_noise_and_is_not_drawn__is_paid_as_any_liar(stage: RoundStage) -> None:
    """The draw counts what stood when the round was opened, and a stake for as many findings as its
    node has rounds running (tests/attacks/test_many_jobs.py): that is for this case too."""
    round_id = stage.to_commit()
    liar = banned(stage)
    stage.commit_all(round_id, *stage.trainers)
    stage.reveal_all(round_id, *stage.trainers)
    before = pay(stage, liar)
    stage.propose(round_id)
    stage.attest(round_id)
    stage.finalize()
    pool = stage.system.pool.pool(stage.job_id, round_id)
    assert pay(stage, liar) - before == pool.trainer_amount * 1 // sum(stage.shares)
