# SPDX-License-Identifier: Apache-2.0
"""Nodes: in lists, and one with its earnings, its part in each round, and its standing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Literal, cast

import sqlalchemy as sa

from agents.protocol import numbers
from scripts._web.index.models import (
    Attempt,
    Deed,
    Earned,
    NodePage,
    NodeSummary,
    Page,
    Slash,
    StakePoint,
)
from scripts._web.index.queries.about_jobs import DAY
from scripts._web.index.queries.about_money import CHAIN_ORDER, payment
from scripts._web.index.queries.about_reports import reports, violation_name
from scripts._web.index.queries.base import Row, cid_of, digest_of, newest_first, within
from scripts._web.index.reading import NotFound, Reading
from scripts._web.index.tables import (
    ACCOUNTS,
    BENCHMARKS,
    EVENTS,
    FACTS,
    NODES,
    PAYMENTS,
    ROUNDS,
    SEATS,
    VOICES,
)

MOST = 200  # payments, deeds, attempts of one node in one answer
EARNED_DAYS = 90
SCORE_PERIODS = 4  # unbonding periods that a score lasts (NodeRegistry.SCORE_PERIODS)
_CREDITED = ("cut", "share", "released", "retained released", "share settled")
_STAKE_EVENTS = ("NodeRegistered", "StakeAdded", "ExitBegun", "StakeWithdrawn", "NodeSlashed")


def nodes(look: Reading, after: int = 0, limit: int = 100) -> Page[NodeSummary]:
    """Nodes by ascending id, those after `after`."""
    query = sa.select(NODES).where(NODES.c.node_id > after).order_by(NODES.c.node_id)
    rows = look.all(query.limit(limit + 1))
    lasting = score_lasts(look)
    items = [node_summary(row, look.at.time, lasting) for row in rows[:limit]]
    following = str(items[-1].node_id) if len(rows) > limit else None
    return Page[NodeSummary](at=look.at, items=items, next=following)


def node(look: Reading, node_id: int) -> NodePage:
    """A node. Raises NotFound."""
    row = look.one(within(NODES, node_id=node_id))
    if row is None:
        raise NotFound(f"There is no node {node_id}.")
    account = look.one(within(ACCOUNTS, account=row["payout"]))
    newest = within(PAYMENTS, node_id=node_id).order_by(*newest_first(*CHAIN_ORDER))
    stakes, slashes = _stakes(look, node_id)
    done, missed = _counts(look, node_id)
    return NodePage(
        at=look.at,
        node=node_summary(row, look.at.time, score_lasts(look)),
        encryption_key=digest_of(row["encryption_key"]),
        pending=0 if account is None else account["credited"] - account["claimed"],
        done=done,
        missed=missed,
        deeds=_deeds(look, node_id),
        earned=_earned(look, node_id),
        stakes=stakes,
        slashes=slashes,
        attempts=_attempts(look, node_id),
        reports=reports(look, node_id=node_id, limit=MOST).items,
        payments=[payment(each) for each in look.all(newest.limit(MOST))],
    )


# -- a node in a list --------------------------------------------------------------------------


def score_lasts(look: Reading) -> int:
    """Seconds that a benchmark's score lasts."""
    row = look.one(within(FACTS, name="parameters"))
    return SCORE_PERIODS * int(row["value"]["unbonding_period"]) if row else 0


def node_summary(row: Row, now: int, score_lasts_s: int) -> NodeSummary:
    """A node in a list."""
    same = ("node_id", "owner", "payout", "stake", "unbonding", "strikes", "locks", "earned")
    also = ("slashed", "held", "retained", "registered_at", "class_id")
    until = row["scored_at"] + score_lasts_s if row["scored_at"] and row["score"] else 0
    return NodeSummary(
        **{name: row[name] for name in (*same, *also)},
        operator=None if row["operator"] == numbers.NOBODY else row["operator"],
        roles=_role_names(row["roles"]),
        approved=_role_names(row["approved_roles"]),
        state=cast(Any, _state(row, now)),
        unlock_at=row["unlock_at"] or None,
        suspended_until=row["suspended_until"] or None,
        score=row["score"] if now < until else 0,
        scored_at=row["scored_at"] or None,
        score_until=until or None,
    )


def _role_names(bits: int) -> list[Any]:
    return [role.name.lower() for role in numbers.Role if role.name and bits & role]


def _state(row: Row, now: int) -> str:
    if row["banned"]:
        return "banned"
    if row["unlock_at"]:
        return "exiting" if row["operator"] != numbers.NOBODY else "closed"
    if row["suspended_until"] > now:
        return "suspended"
    if row["locks"]:
        return "locked"
    return "ready" if row["active"] else "paused"


# -- money and standing ------------------------------------------------------------------------


def _earned(look: Reading, node_id: int) -> list[Earned]:
    """What was credited to a node on each of the last days, oldest first."""
    query = sa.select(PAYMENTS.c.time, PAYMENTS.c.amount).where(
        PAYMENTS.c.node_id == node_id,
        PAYMENTS.c.kind.in_(_CREDITED),
        PAYMENTS.c.time > look.at.time - EARNED_DAYS * DAY,
    )
    days: defaultdict[int, int] = defaultdict(int)
    for row in look.all(query):
        days[row["time"] // DAY * DAY] += row["amount"]
    return [Earned(day=day, amount=days[day]) for day in sorted(days)]


def _stakes(look: Reading, node_id: int) -> tuple[list[StakePoint], list[Slash]]:
    """A node's stake after each change of it, and its slashes; oldest first."""
    query = within(EVENTS, node_id=node_id).where(EVENTS.c.name.in_(_STAKE_EVENTS))
    stake, points, slashes = 0, [], []
    for row in look.all(query.order_by(EVENTS.c.block, EVENTS.c.log_index)):
        args = row["args"]
        if row["name"] == "NodeSlashed":
            amount = int(args["amount"])
            stake = max(0, stake - amount)
            word = violation_name(int(args["violation"]))
            slashes.append(Slash(time=row["time"], tx=row["tx"], violation=word, amount=amount))
        else:
            stake = int(args.get("stake", 0))
        points.append(StakePoint(time=row["time"], tx=row["tx"], event=row["name"], stake=stake))
    return points[-MOST:], slashes[-MOST:]


def _attempts(look: Reading, node_id: int) -> list[Attempt]:
    """A node's newest attempts at its benchmark, newest first."""
    query = within(BENCHMARKS, node_id=node_id).order_by(BENCHMARKS.c.attempt.desc())
    same = ("attempt", "requested_at", "submitted_at", "units", "elapsed", "passes", "fails")
    also = ("settled", "passed", "overruled", "condemned", "score")
    return [
        Attempt(
            **{name: row[name] for name in (*same, *also)},
            artefact_cid=cid_of(row["artefact"]),
        )
        for row in look.all(query.limit(MOST))
    ]


# -- what it did -------------------------------------------------------------------------------

_MISSED = (
    SEATS.c.invalid
    | (SEATS.c.committed_at.is_(None) & (ROUNDS.c.phase > numbers.Phase.COMMIT))
    | (SEATS.c.revealed_at.is_(None) & (ROUNDS.c.phase > numbers.Phase.REVEAL))
)


def _counts(look: Reading, node_id: int) -> tuple[int, int]:
    """Rounds of every job that a node trained in as it should, and that it did not."""
    joined = sa.select(sa.func.count()).select_from(_rounds_of(SEATS))
    mine = joined.where(SEATS.c.node_id == node_id)
    done = mine.where(SEATS.c.revealed_at.is_not(None), sa.not_(SEATS.c.invalid))
    return look.number(done), look.number(mine.where(_MISSED))


def _rounds_of(table: sa.Table) -> sa.Join:
    same = (ROUNDS.c.job_id == table.c.job_id) & (ROUNDS.c.round_id == table.c.round_id)
    return table.join(ROUNDS, same)


def _deeds(look: Reading, node_id: int) -> list[Deed]:
    """A node's part in the newest rounds that drew it, newest first."""
    found = []
    for table, role in ((SEATS, "trainer"), (VOICES, "verifier")):
        columns = (ROUNDS.c.phase, ROUNDS.c.opened_at, ROUNDS.c.result_hash.label("standing"))
        query = sa.select(table, *columns).select_from(_rounds_of(table))
        query = query.where(table.c.node_id == node_id)
        query = query.order_by(ROUNDS.c.opened_at.desc(), ROUNDS.c.job_id.desc()).limit(MOST)
        found += [_deed(row, cast(Any, role)) for row in look.all(query)]
    found.sort(key=lambda deed: (deed.opened_at, deed.job_id), reverse=True)
    return found[:MOST]


def _deed(row: Row, role: Literal["trainer", "verifier"]) -> Deed:
    return Deed(
        job_id=row["job_id"],
        round_id=row["round_id"],
        opened_at=row["opened_at"],
        phase=cast(Any, numbers.Phase(row["phase"]).name.lower()),
        role=role,
        did=cast(Any, _trained(row) if role == "trainer" else _voted(row)),
        due=row["paid"] if role == "trainer" else 0,
    )


def _trained(row: Row) -> str:
    phase = row["phase"]
    if row["invalid"]:
        return "invalid"
    if row["revealed_at"] is not None:
        return "done"
    if row["committed_at"] is not None:
        return "waiting" if phase <= numbers.Phase.REVEAL else "silent"
    return "waiting" if phase == numbers.Phase.COMMIT else "missed"


def _voted(row: Row) -> str:
    if row["standing"] and row["result_hash"] == row["standing"]:
        return "done"
    return "missed" if row["phase"] == numbers.Phase.FINALIZED else "waiting"
