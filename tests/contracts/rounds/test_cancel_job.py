# SPDX-License-Identifier: Apache-2.0
"""cancel_job: sponsor or owner; at once without an open round, else after it."""

from __future__ import annotations

from typing import Any

from tests.stage.contracts.rounds import Field
from tests.stage.contracts.system import ACTIVE, CANCELLED, REWARD, VOID, System, events_of, refuses


def test_cancel_job__no_round_open__ends_at_once(field: Field, rounds: Any) -> None:
    rounds.cancel_job(1, sender=field.sponsor)
    assert events_of(rounds) == [
        ("JobCancelRequested", {"job_id": 1}),
        ("JobEnded", {"job_id": 1, "status": CANCELLED}),
    ]
    assert rounds.job_ended(1)
    before = field.system.token.balanceOf(field.sponsor)
    field.system.pool.refund(1, sender=field.sponsor)
    assert field.system.token.balanceOf(field.sponsor) == before + 10 * REWARD
    with refuses("rounds: job not active"):
        rounds.open_round(1)
    with refuses("rounds: job not active"):
        rounds.cancel_job(1, sender=field.sponsor)


def test_cancel_job__round_open__ends_after_it_is_paid(field: Field, rounds: Any) -> None:
    field.to_challenge()
    rounds.cancel_job(1, sender=field.sponsor)
    assert events_of(rounds) == [("JobCancelRequested", {"job_id": 1})]
    assert rounds.job(1).status == ACTIVE
    with refuses("rounds: cancel requested"):
        rounds.cancel_job(1, sender=field.sponsor)
    with refuses("pool: job not ended"):
        field.system.pool.refund(1, sender=field.sponsor)
    field.attest(1)
    field.finalize()
    assert ("JobEnded", {"job_id": 1, "status": CANCELLED}) in events_of(rounds)
    assert field.system.pool.pending(field.trainers[0].payout) > 0


def test_cancel_job__round_becomes_void__ends(field: Field, rounds: Any) -> None:
    field.to_commit()
    rounds.cancel_job(1, sender=field.sponsor)
    field.system.wait_out(1, 1)
    rounds.advance(1)
    assert rounds.job(1).status == CANCELLED


def test_cancel_job__overdue_round__voids_it_and_ends(field: Field, rounds: Any) -> None:
    field.to_commit()
    field.system.wait_out(1, 1)
    rounds.cancel_job(1, sender=field.sponsor)
    assert field.system.phase(1, 1) == VOID
    assert rounds.job(1).status == CANCELLED


def test_cancel_job__owner_may(field: Field, rounds: Any, owner: str) -> None:
    rounds.cancel_job(1, sender=owner)
    assert rounds.job_ended(1)


def test_cancel_job__anyone_else__reverts(field: Field, rounds: Any) -> None:
    others = [p for q in field.trainers[:1] for p in (q.owner, q.operator, q.payout)]
    others += [field.verifiers[0].operator, field.aggregators[0].operator, field.stranger]
    others += [field.system.reports.address, field.system.pool.address, field.challenger]
    for sender in others:
        with refuses("rounds: not sponsor"):
            rounds.cancel_job(1, sender=sender)


def test_cancel_job__unknown_job__reverts(system: System, rounds: Any, owner: str) -> None:
    with refuses("rounds: job not active"):
        rounds.cancel_job(5, sender=owner)
