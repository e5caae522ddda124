# SPDX-License-Identifier: Apache-2.0
"""Jobs: in lists with their live clock, and one with its terms and rounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import sqlalchemy as sa

from agents.protocol import numbers
from scripts._web.index.models import Clock, JobPage, JobSummary, Page, RoundSummary, Terms
from scripts._web.index.queries.base import Row, cid_of
from scripts._web.index.reading import NotFound, Reading
from scripts._web.index.tables import JOBS, PAYMENTS, ROUNDS, SEATS

DAY = 86_400
MOST_ROUNDS = 200  # with a job; `rounds` gives older ones
DUE = ("cut", "share", "held", "retained", "set aside", "unclaimed")
"""Kinds of payments by which a round's pool gives a node something, or keeps it for it."""


def jobs(look: Reading, before: int | None = None, limit: int = 100) -> Page[JobSummary]:
    """Jobs, newest first, those with ids below `before`."""
    query = sa.select(JOBS).order_by(JOBS.c.job_id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(JOBS.c.job_id < before)
    rows = look.all(query)
    following = str(rows[limit - 1]["job_id"]) if len(rows) > limit else None
    items = summaries(look, rows[:limit])
    return Page[JobSummary](at=look.at, items=items, next=following)


def job_row(look: Reading, job_id: int) -> Row:
    """The row of a job. Raises NotFound."""
    row = look.one(sa.select(JOBS).where(JOBS.c.job_id == job_id))
    if row is None:
        raise NotFound(f"There is no job {job_id}.")
    return row


def job(look: Reading, job_id: int) -> JobPage:
    """A job. Raises NotFound."""
    row = job_row(look, job_id)
    [summary] = summaries(look, [row])
    return JobPage(
        at=look.at,
        job=summary,
        terms=terms_of(row["terms"]),
        model=row["model"],
        funded=row["funded"],
        refunded=row["refunded"],
        scored=row["scored"],
        absent=row["absent"],
        rounds=_rounds(look, job_id, None, MOST_ROUNDS),
    )


def rounds(
    look: Reading, job_id: int, before: int | None = None, limit: int = 100
) -> Page[RoundSummary]:
    """Rounds of a job, newest first, those with ids below `before`. Raises NotFound."""
    job_row(look, job_id)
    items = _rounds(look, job_id, before, limit + 1)
    following = str(items[limit - 1].round_id) if len(items) > limit else None
    return Page[RoundSummary](at=look.at, items=items[:limit], next=following)


def _rounds(look: Reading, job_id: int, before: int | None, limit: int) -> list[RoundSummary]:
    query = sa.select(ROUNDS).where(ROUNDS.c.job_id == job_id)
    if before is not None:
        query = query.where(ROUNDS.c.round_id < before)
    rows = look.all(query.order_by(ROUNDS.c.round_id.desc()).limit(limit))
    return [round_summary(row) for row in rows]


def summaries(look: Reading, rows: Iterable[Row]) -> list[JobSummary]:
    """Jobs in a list, each with its newest round; a few questions for all of them."""
    found = {row["job_id"]: row for row in rows}
    newest = (JOBS.c.job_id == ROUNDS.c.job_id) & (JOBS.c.rounds_opened == ROUNDS.c.round_id)
    wanted = ROUNDS.c.job_id.in_(found)
    clocks = look.all(sa.select(ROUNDS).select_from(ROUNDS.join(JOBS, newest)).where(wanted))
    sat = (JOBS.c.job_id == SEATS.c.job_id) & (JOBS.c.rounds_opened == SEATS.c.round_id)
    seats = sa.select(SEATS.c.job_id, SEATS.c.node_id).select_from(SEATS.join(JOBS, sat))
    nodes: dict[int, list[int]] = {job_id: [] for job_id in found}
    for seat in look.all(seats.where(SEATS.c.job_id.in_(found)).order_by(SEATS.c.node_id)):
        nodes[seat["job_id"]].append(seat["node_id"])
    today = dict.fromkeys(found, 0)
    paid = sa.select(PAYMENTS.c.job_id, PAYMENTS.c.amount).where(
        PAYMENTS.c.time > look.at.time - DAY,
        PAYMENTS.c.kind.in_(DUE),
        PAYMENTS.c.job_id.in_(found),
    )
    for payment in look.all(paid):
        today[payment["job_id"]] += payment["amount"]
    running = {row["job_id"]: clock(row) for row in clocks}
    return [
        _summary(row, running.get(job_id), nodes[job_id], today[job_id])
        for job_id, row in found.items()
    ]


def _summary(row: Row, running: Clock | None, nodes: list[int], today: int) -> JobSummary:
    same = ("job_id", "sponsor", "cancel_requested", "rounds_opened", "rounds_done", "escrow")
    also = ("carried", "paid", "created_at", "ended_at")
    reward = int(row["terms"]["reward_per_round"])
    return JobSummary(
        **{name: row[name] for name in (*same, *also)},
        status=cast(Any, numbers.JobStatus(row["status"]).name.lower()),
        rounds=int(row["terms"]["rounds"]),
        clock=running,
        nodes=nodes,
        reward_per_round=reward,
        rounds_left_in_escrow=row["escrow"] // reward if reward else 0,
        paid_today=today,
    )


def clock(row: Row) -> Clock:
    """The clock of a round."""
    phase = numbers.Phase(row["phase"])
    acted, expected = {
        numbers.Phase.COMMIT: (row["n_committed"], row["n_eligible"]),
        numbers.Phase.REVEAL: (row["n_revealed"], row["n_committed"]),
        numbers.Phase.AGGREGATE: (int(bool(row["proposer"])), 1),
    }.get(phase, (row["n_revealed"], row["n_eligible"]))
    return Clock(
        round_id=row["round_id"],
        phase=cast(Any, phase.name.lower()),
        since=row["phase_since"],
        deadline=row["deadline"],
        acted=acted,
        expected=expected,
    )


def round_summary(row: Row) -> RoundSummary:
    """A round in a list."""
    same = ("round_id", "opened_at", "ended_at", "prev_model", "pool", "paid", "ledger_index")
    counts = ("n_eligible", "n_committed", "n_revealed", "n_invalid")
    return RoundSummary(
        **{name: row[name] for name in (*same, *counts)},
        phase=cast(Any, numbers.Phase(row["phase"]).name.lower()),
        model=row["model"] or None,
        void_reason=row["void_reason"] or None,
        ledger_head=row["ledger_head"] or None,
    )


def terms_of(terms: Row) -> Terms:
    """The terms as the event gave them."""
    digests = ("spec", "genesis_model", "genesis_checkpoint")
    values = {name: value if name in digests else int(value) for name, value in terms.items()}
    return Terms(
        **values,
        spec_cid=cid_of(terms["spec"]) or "",
        genesis_checkpoint_cid=cid_of(terms["genesis_checkpoint"]) or "",
    )
