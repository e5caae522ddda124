# SPDX-License-Identifier: Apache-2.0
"""cancel_job: sponsor or owner; at once without an open round, else after it."""

from __future__ import annotations

from typing import Any

from tests.stage.contracts import system as stage
from tests.stage.contracts.events import event
from tests.stage.contracts.rounds import Field
from tests.stage.contracts.system import ACTIVE, CANCELLED, COMMIT, VOID, events_of, refuses


def test_cancel_job__no_round_open__ends_at_once(field: Field, rounds: Any, jobs: Any) -> None:
    jobs.cancel_job(1, sender=field.sponsor)
    assert events_of(jobs) == [
        event("JobCancelRequested", job_id=1),
        event("JobEnded", job_id=1, status=CANCELLED),
    ]
    assert jobs.job_ended(1)
    before = field.system.token.balanceOf(field.sponsor)
    field.system.pool.refund(1, sender=field.sponsor)
    assert field.system.token.balanceOf(field.sponsor) == before + 10 * stage.REWARD
    with refuses("jobs: job not active"):
        rounds.open_round(1)
    with refuses("jobs: job not active"):
        jobs.cancel_job(1, sender=field.sponsor)


def test_cancel_job__round_open__ends_after_it_is_paid(field: Field, jobs: Any) -> None:
    field.to_challenge()
    jobs.cancel_job(1, sender=field.sponsor)
    assert events_of(jobs) == [event("JobCancelRequested", job_id=1)]
    assert jobs.job(1).status == ACTIVE
    with refuses("jobs: cancel requested"):
        jobs.cancel_job(1, sender=field.sponsor)
    with refuses("pool: job not ended"):
        field.system.pool.refund(1, sender=field.sponsor)
    field.attest(1)
    field.finalize()
    assert event("JobEnded", job_id=1, status=CANCELLED) in events_of(field.system.results, jobs)
    assert field.system.pool.pending(field.trainers[0].payout) > 0


def test_cancel_job__round_becomes_void__ends(field: Field, rounds: Any, jobs: Any) -> None:
    field.to_commit()
    jobs.cancel_job(1, sender=field.sponsor)
    field.system.time_out(1, 1)
    assert jobs.job(1).status == CANCELLED


def test_cancel_job__overdue_round__ends_when_it_is_advanced(
    field: Field, rounds: Any, jobs: Any
) -> None:
    """Cancelling moves no round on: the job ends with the round, which anyone may end."""
    field.to_commit()
    field.system.wait_out(1, 1)
    jobs.cancel_job(1, sender=field.sponsor)
    assert field.system.phase(1, 1) == COMMIT
    assert jobs.job(1).status == ACTIVE
    rounds.advance(1, 1, sender=field.stranger)
    assert field.system.phase(1, 1) == VOID
    assert jobs.job(1).status == CANCELLED


def test_cancel_job__owner_may(field: Field, owner: str, jobs: Any) -> None:
    jobs.cancel_job(1, sender=owner)
    assert jobs.job_ended(1)


def test_cancel_job__anyone_else__reverts(field: Field, jobs: Any) -> None:
    others = [p for q in field.trainers[:1] for p in (q.owner, q.operator, q.payout)]
    others += [field.verifiers[0].operator, field.aggregators[0].operator, field.stranger]
    others += [field.system.reports.address, field.system.pool.address, field.challenger]
    for sender in others:
        with refuses("jobs: not sponsor"):
            jobs.cancel_job(1, sender=sender)


def test_cancel_job__unknown_job__reverts(owner: str, jobs: Any) -> None:
    with refuses("jobs: job not active"):
        jobs.cancel_job(5, sender=owner)
