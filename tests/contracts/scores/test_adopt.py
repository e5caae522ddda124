# SPDX-License-Identifier: Apache-2.0
"""adopt: the sponsor, before the first round, once. Settings: the owner, and nothing that ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.events import event
from tests.stage.contracts.scores import COMMIT_S, REVEAL_S, ScoreStage, make_scores
from tests.stage.contracts.system import REWARD, UNBONDING, System, events_of, refuses

ADOPT, OPEN = 1, 2
LEAST = UNBONDING // 20_000 + 1


@pytest.fixture
def other_job(stage: ScoreStage) -> int:
    """Another job of the same sponsor, not adopted and without money."""
    return stage.system.job(stage.job.sponsor, escrow=0)


def test_adopt__keeps_the_windows(stage: ScoreStage, scores: Any, other_job: int) -> None:
    assert not scores.adopted(other_job)
    assert scores.windows_of(other_job) == (0, 0)
    scores.adopt(other_job, LEAST, 86_400, sender=stage.job.sponsor)
    assert events_of(scores) == [
        event("JobAdopted", job_id=other_job, commit_s=LEAST, reveal_s=86_400)
    ]
    assert scores.adopted(other_job)
    assert scores.windows_of(other_job) == (LEAST, 86_400)
    assert scores.windows_of(stage.job_id) == (COMMIT_S, REVEAL_S)


def test_first_round__without_money__cannot_be_opened_before_the_adoption(
    stage: ScoreStage, scores: Any, other_job: int
) -> None:
    """Why a sponsor adopts before it funds."""
    with refuses("pool: escrow too low"):
        stage.system.rounds.open_round(other_job, sender=stage.job.stranger)
    scores.adopt(other_job, COMMIT_S, REVEAL_S, sender=stage.job.sponsor)


def test_pausing_the_opening__rounds_are_paid_by_results_and_verifiers_keep_cuts(
    stage: ScoreStage, scores: Any, owner: str
) -> None:
    round_id = stage.job.to_aggregate()
    scores.set_paused(OPEN, sender=owner)
    with refuses("pausing: paused"):
        stage.commit(round_id, stage.verifiers[0], [3, 2, 1])
    stage.finish(round_id, contributions=[1, 2, 1])
    pool = stage.system.pool
    rest = REWARD - REWARD // 20 - 3 * (REWARD // 10 // 3)
    paid = [pool.pending(p.payout) for p in stage.job.trainers]
    assert paid == [rest // 4, rest // 2, rest // 4]
    assert [pool.pending(p.payout) for p in stage.verifiers] == [REWARD // 10 // 3] * 3


def test_job_that_is_not_adopted__has_no_scoring(system: System) -> None:
    stage = make_scores(system, adopt=False)
    round_id = stage.job.to_aggregate()
    with refuses("scores: not adopted"):
        stage.commit(round_id, stage.verifiers[0], [1, 2, 3])
    player = stage.job.trainers[0]
    with refuses("scores: not adopted"):
        stage.scores.post_samples(1, round_id, player.node_id, b"\x01" * 32, sender=player.operator)
    assert stage.scores.settlement(1, round_id) == (False, 0, 0)
    assert stage.scores.cut_factors(1, round_id, [1, 2, 99]) == [10_000] * 3
    stage.finish(round_id, contributions=[1, 2, 3])
    assert system.pool.pool(1, round_id).scored_round == 0
