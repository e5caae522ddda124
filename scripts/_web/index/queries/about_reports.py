# SPDX-License-Identifier: Apache-2.0
"""Reports of violations, with each verifier's voice and evidence."""

from __future__ import annotations

from typing import Any, cast

import sqlalchemy as sa

from agents.protocol import numbers
from scripts._web.index.models import Accuser, Finder, Page, Report
from scripts._web.index.queries.base import Row, behind, cid_of, cursor_of, newest_first, within
from scripts._web.index.reading import Reading
from scripts._web.index.tables import EVENTS, REPORTS

_ORDER = (REPORTS.c.reported_at, REPORTS.c.job_id, REPORTS.c.round_id, REPORTS.c.node_id)


def of_round(look: Reading, job_id: int, round_id: int) -> list[Report]:
    """The reports of a round, oldest first."""
    rows = look.all(within(REPORTS, job_id=job_id, round_id=round_id).order_by(*_ORDER))
    return _with_voices(look, rows)


def reports(
    look: Reading,
    *,
    job_id: int | None = None,
    node_id: int | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Report]:
    """Reports, newest first: of a job's nodes, on a node. Raises BadCursor."""
    order = (*_ORDER, REPORTS.c.violation)
    query = within(REPORTS, job_id=job_id, node_id=node_id).where(*behind(cursor, *order))
    rows = look.all(query.order_by(*newest_first(*order)).limit(limit + 1))
    following = cursor_of(rows[limit - 1], *order) if len(rows) > limit else None
    return Page[Report](at=look.at, items=_with_voices(look, rows[:limit]), next=following)


def _with_voices(look: Reading, rows: list[Row]) -> list[Report]:
    places = {(row["job_id"], row["round_id"]) for row in rows}
    voices: dict[str, list[Accuser]] = {row["report_id"]: [] for row in rows}
    if places:
        query = within(EVENTS, name="ViolationReported").where(
            sa.tuple_(EVENTS.c.job_id, EVENTS.c.round_id).in_(sorted(places))
        )
        for event in look.all(query.order_by(EVENTS.c.block, EVENTS.c.log_index)):
            if event["args"]["report_id"] in voices:
                voices[event["args"]["report_id"]].append(_voice(event))
    found = _finders(look, rows)
    return [_report(row, voices[row["report_id"]], found.get(row["report_id"])) for row in rows]


def _finders(look: Reading, rows: list[Row]) -> dict[str, Finder]:
    """Who was paid for each report, in the transaction that ended it."""
    ends = sorted({row["ended_tx"] for row in rows if row["ended_tx"]})
    if not ends:
        return {}
    events = look.all(within(EVENTS, name="FinderPaid").where(EVENTS.c.tx.in_(ends)))
    return {
        event["args"]["report_id"]: Finder(
            node_id=int(event["args"]["verifier_id"]),
            paid=int(event["args"]["amount"]),
            rest=int(event["args"]["rest"]),
            tx=event["tx"],
        )
        for event in events
    }


def _voice(event: Row) -> Accuser:
    return Accuser(
        node_id=event["actor_id"],
        weight=int(event["args"]["weight"]),
        evidence_cid=cid_of(event["args"]["evidence"]),
        time=event["time"],
        tx=event["tx"],
    )


def _report(row: Row, voices: list[Accuser], finder: Finder | None) -> Report:
    status = numbers.ReportStatus(row["status"])
    same = ("report_id", "job_id", "round_id", "node_id", "weight", "bond", "slashed")
    times = ("reported_at", "confirmed_at", "appealed_at", "ended_at")
    texts = ("confirmed_tx", "appealed_tx", "ended_tx")
    appellant = None if row["appellant"] == numbers.NOBODY else row["appellant"]
    return Report(
        **{name: row[name] for name in (*same, *times)},
        **{name: row[name] or None for name in texts},
        violation=violation_name(row["violation"]),
        status=cast(Any, status.name.lower()),
        appeal_until=row["deadline"] if status == numbers.ReportStatus.CONFIRMED else None,
        decide_until=row["deadline"] if status == numbers.ReportStatus.APPEALED else None,
        appellant=appellant,
        statement_cid=cid_of(row["statement"]),
        finder=finder,
        voices=voices,
    )


def violation_name(number: int) -> str:
    """The name of a row of the slashing table; later rows may have none."""
    try:
        return numbers.Violation(number).name
    except ValueError:
        return f"violation {number}"
