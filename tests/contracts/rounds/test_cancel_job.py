# SPDX-License-Identifier: Apache-2.0
"""cancel_job: sponsor or owner; at once without an open round, else after it."""

from __future__ import annotations

from typing import Any

from tests.stage.contracts.events import event
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import ACTIVE, CANCELLED, COMMIT, REWARD, VOID, events_of, refuses


def test_cancel_job__no_round_open__ends_at_once(stage: RoundStage, rounds: Any, jobs: Any) -> None:
    jobs.cancel_job(1, sender=stage.sponsor)
    assert events_of(jobs) == [
        event("JobCancelRequested", job_id=1),
        event("JobEnded", job_id=1, status=CANCELLED),
    ]
    assert jobs.job_ended(1)
    before = stage.system.token.balanceOf(stage.sponsor)
    stage.system.pool.refund(1, sender=stage.sponsor)
    assert stage.system.token.balanceOf(stage.sponsor) == before + 10 * REWARD
    with refuses("jobs: job not active"):
        rounds.open_round(1)
    with refuses("jobs: job not active"):
        jobs.cancel_job(1, sender=stage.sponsor)


def test_cancel_job__round_open__ends_after_it_is_paid(stage: RoundStage, jobs: Any) -> None:
    stage.to_challenge()
    jobs.cancel_job(1, sender=stage.sponsor)
    assert events_of(jobs) == [event("JobCancelRequested", job_id=1)]
    assert jobs.job(1).status == ACTIVE
    with refuses("jobs: cancel requested"):
        jobs.cancel_job(1, sender=stage.sponsor)
    with refuses("pool: job not ended"):
        stage.system.pool.refund(1, sender=stage.sponsor)
    stage.attest(1)
    stage.finalize()
    assert event("JobEnded", job_id=1, status=CANCELLED) in events_of(stage.system.results, jobs)
    assert stage.system.pool.pending(stage.trainers[0].payout) > 0


def test_cancel_job__round_becomes_void__ends(stage: RoundStage, rounds: Any, jobs: Any) -> None:
    stage.to_commit()
    jobs.cancel_job(1, sender=stage.sponsor)
    stage.system.time_out(1, 1)
    assert jobs.job(1).status == CANCELLED


def test_cancel_job__overdue_round__ends_when_it_is_advanced(
    stage: RoundStage, rounds: Any, jobs: Any
) -> None:
    """Cancelling moves no round on: the job ends with the round, which anyone may end."""
    stage.to_commit()
    stage.system.wait_out(1, 1)
    jobs.cancel_job(1, sender=stage.sponsor)
    assert stage.system.phase(1, 1) == COMMIT
    assert jobs.job(1).status == ACTIVE
    rounds.advance(1, 1, sender=stage.stranger)
    assert stage.system.phase(1, 1) == VOID
    assert jobs.job(1).status == CANCELLED


def test_cancel_job__owner_may(stage: RoundStage, owner: str, jobs: Any) -> None:
    jobs.cancel_job(1, sender=owner)
    assert jobs.job_ended(1)
