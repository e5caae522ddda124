# SPDX-License-Identifier: Apache-2.0
"""adopt: the sponsor, before the first round, once. Settings: the owner, and nothing that ends."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event
from tests.stage.contracts.scores import COMMIT_S, REVEAL_S, ScoreStage, make_scores
from tests.stage.contracts.system import REWARD, UNBONDING, ZERO, Codes, System, events_of, refuses

ADOPT, OPEN = 1, 2
LEAST = UNBONDING // 20_000 + 1


@pytest.fixture
def other_job(stage: ScoreStage) -> int:
    """Another job of the same sponsor, not adopted and without money."""
    return stage.system.job(stage.job.sponsor, escrow=0)


@pytest.mark.parametrize("zero", range(5))
def test_constructor__zero_address__reverts(codes: Codes, zero: int) -> None:
    addresses = [str(boa.env.generate_address())] * 5
    addresses[zero] = ZERO
    with boa.reverts("scores: zero address"):
        codes.scores.deploy(*addresses)


def test_constructor__parts__are_public(stage: ScoreStage, scores: Any, owner: str) -> None:
    assert scores.registry() == stage.system.registry.address
    assert scores.jobs() == stage.system.jobs.address
    assert scores.rounds() == stage.system.rounds.address
    assert scores.results() == stage.system.results.address
    assert (scores.owner(), scores.pending_owner(), scores.paused()) == (owner, ZERO, 0)


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


@pytest.mark.parametrize(
    "windows",
    [(0, 100), (100, 0), (LEAST - 1, 100), (100, LEAST - 1), (86_401, 100), (100, 2**255)],
)
def test_adopt__window_out_of_bounds__reverts(
    stage: ScoreStage, scores: Any, other_job: int, windows: tuple[int, int]
) -> None:
    with refuses("scores: bad window"):
        scores.adopt(other_job, *windows, sender=stage.job.sponsor)


def test_adopt__not_the_sponsor__reverts(stage: ScoreStage, scores: Any, other_job: int) -> None:
    """A stranger could make somebody's job pay by scores that nobody gives."""
    player = stage.verifiers[0]
    for sender in (stage.job.stranger, player.operator, player.owner, scores.owner()):
        with refuses("scores: not sponsor"):
            scores.adopt(other_job, COMMIT_S, REVEAL_S, sender=sender)
    for unknown in (0, other_job + 1, 2**255):
        with refuses("scores: not sponsor"):
            scores.adopt(unknown, COMMIT_S, REVEAL_S, sender=stage.job.sponsor)


def test_adopt__twice__reverts(stage: ScoreStage, scores: Any) -> None:
    for windows in ((COMMIT_S, REVEAL_S), (COMMIT_S + 1, REVEAL_S)):
        with refuses("scores: already adopted"):
            scores.adopt(stage.job_id, *windows, sender=stage.job.sponsor)


def test_adopt__after_the_first_round_opened__reverts(
    stage: ScoreStage, scores: Any, other_job: int
) -> None:
    """Nodes that came for one way of being paid are not given another."""
    stage.system.fund(other_job, REWARD, stage.job.stranger)
    stage.system.rounds.open_round(other_job, sender=stage.job.stranger)
    with refuses("scores: round opened"):
        scores.adopt(other_job, COMMIT_S, REVEAL_S, sender=stage.job.sponsor)


def test_first_round__without_money__cannot_be_opened_before_the_adoption(
    stage: ScoreStage, scores: Any, other_job: int
) -> None:
    """Why a sponsor adopts before it funds."""
    with refuses("pool: escrow too low"):
        stage.system.rounds.open_round(other_job, sender=stage.job.stranger)
    scores.adopt(other_job, COMMIT_S, REVEAL_S, sender=stage.job.sponsor)


def test_adopt__paused__reverts(stage: ScoreStage, scores: Any, other_job: int, owner: str) -> None:
    scores.set_paused(ADOPT, sender=owner)
    with refuses("pausing: paused"):
        scores.adopt(other_job, COMMIT_S, REVEAL_S, sender=stage.job.sponsor)
    scores.set_paused(OPEN, sender=owner)
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
