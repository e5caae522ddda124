# SPDX-License-Identifier: Apache-2.0
"""The network as a whole: numbers, what its committee has fixed, and the events behind it all."""

from __future__ import annotations

import sqlalchemy as sa

from agents.protocol.structs import Bounds
from scripts._web.index.models import (
    BoundsNow,
    Committee,
    Happening,
    Home,
    NetworkFacts,
    Page,
    Parameters,
    Penalty,
)
from scripts._web.index.queries.about_jobs import DAY, DUE, jobs
from scripts._web.index.queries.about_reports import violation_name
from scripts._web.index.queries.base import Row, behind, cursor_of, newest_first, within
from scripts._web.index.reading import Reading
from scripts._web.index.tables import EVENTS, FACTS, JOBS, NODES, PAYMENTS, TASKS

MOST_JOBS = 50


def home(look: Reading) -> Home:
    """The network at a glance."""
    now = look.at.time
    ready = sa.select(sa.func.count()).where(
        NODES.c.active,
        sa.not_(NODES.c.banned),
        NODES.c.unlock_at == 0,
        NODES.c.suspended_until <= now,
        NODES.c.locks == 0,
    )
    stakes = look.all(sa.select(NODES.c.stake, NODES.c.unbonding))
    today = sa.select(PAYMENTS.c.amount)
    today = today.where(PAYMENTS.c.time > now - DAY, PAYMENTS.c.kind.in_(DUE))
    return Home(
        at=look.at,
        jobs=jobs(look, limit=MOST_JOBS).items,
        jobs_total=_count(look, JOBS),
        nodes=len(stakes),
        nodes_ready=look.number(ready),
        staked=sum(row["stake"] + row["unbonding"] for row in stakes),
        paid=sum(row["paid"] for row in look.all(sa.select(JOBS.c.paid))),
        paid_today=sum(row["amount"] for row in look.all(today)),
        tasks=_count(look, TASKS),
        events=_count(look, EVENTS),
    )


def _count(look: Reading, table: sa.Table) -> int:
    return look.number(sa.select(sa.func.count()).select_from(table))


def facts(look: Reading) -> NetworkFacts:
    """What the committee has fixed: slashing table, bounds, parameters, members, classes."""
    rows = {row["name"]: row["value"] for row in look.all(sa.select(FACTS))}
    committee, delays = rows.get("committee"), rows.get("delays")
    parameters, bounds = rows.get("parameters"), rows.get("bounds")
    return NetworkFacts(
        at=look.at,
        parameters=None if parameters is None else Parameters(**_numbers(parameters)),
        bounds=None if bounds is None else BoundsNow(**vars(Bounds(**_numbers(bounds)))),
        penalties=[_penalty(number, row) for number, row in _numbered(rows, "penalty")],
        classes={number: row["name"] for number, row in _numbered(rows, "class")},
        committee=None
        if committee is None or delays is None
        else Committee(
            members=committee["members"],
            threshold=committee["threshold"],
            routine_delay=delays["routine"],
            governance_delay=delays["governance"],
        ),
        paused=[
            str(row["contract"])
            for name, row in sorted(rows.items())
            if name.startswith("paused ") and row["bits"]
        ],
    )


def _numbers(value: Row) -> Row:
    return {name: int(v) if v.isdigit() else v for name, v in value.items()}


def _numbered(rows: dict[str, Row], kind: str) -> list[tuple[int, Row]]:
    """The facts of a kind that are counted, in order."""
    found = [
        (int(name.split(" ")[1]), row) for name, row in rows.items() if name.startswith(f"{kind} ")
    ]
    return sorted(found, key=lambda item: item[0])


def _penalty(number: int, row: Row) -> Penalty:
    return Penalty(
        violation=violation_name(number),
        number=number,
        bps=int(row["bps"]),
        escalation_bps=int(row["escalation_bps"]),
        suspension=int(row["suspension"]),
        strike=row["strike"],
        ban=row["ban"],
        reporter_bps=int(row["reporter_bps"]),
    )


def events(
    look: Reading,
    *,
    job_id: int | None = None,
    round_id: int | None = None,
    node_id: int | None = None,
    task_id: int | None = None,
    name: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Happening]:
    """Events of the chain, newest first. `node_id`: about the node or by it. Raises BadCursor."""
    order = (EVENTS.c.block, EVENTS.c.log_index)
    query = within(EVENTS, job_id=job_id, round_id=round_id, task_id=task_id, name=name)
    if node_id is not None:
        query = query.where((EVENTS.c.node_id == node_id) | (EVENTS.c.actor_id == node_id))
    query = query.where(*behind(cursor, *order)).order_by(*newest_first(*order))
    rows = look.all(query.limit(limit + 1))
    items = [Happening(**{n: row[n] for n in Happening.model_fields}) for row in rows[:limit]]
    following = cursor_of(rows[limit - 1], *order) if len(rows) > limit else None
    return Page[Happening](at=look.at, items=items, next=following)
