# SPDX-License-Identifier: Apache-2.0
"""What pages and API ask of the index.

Rule: a query takes a `Reading` and returns models of that one block. What is not there is NotFound
with a sentence.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from typing import Any, Literal, cast

import sqlalchemy as sa

from agents.protocol import numbers
from agents.storage.cid import cid_from_digest
from scripts._web.index.models import (
    Clock,
    Deed,
    Earned,
    Happening,
    Home,
    JobPage,
    JobSummary,
    LossPoint,
    NodePage,
    NodeSummary,
    Page,
    Payment,
    RoundPage,
    RoundSummary,
    Seat,
    Terms,
    Voice,
)
from scripts._web.index.reading import NotFound, Reading
from scripts._web.index.tables import (
    ACCOUNTS,
    EVENTS,
    JOBS,
    NODES,
    PAYMENTS,
    ROUNDS,
    SEATS,
    VOICES,
)

DAY = 86_400
MOST_ROUNDS = 200  # on a job's page; older ones are on further pages of the API
MOST_PAYMENTS = 200
MOST_DEEDS = 100
SCORE_PERIODS = 4  # a score lasts that many unbonding periods (NodeRegistry.SCORE_PERIODS)

Row = dict[str, Any]


def cid_of(digest: str) -> str | None:
    """The CID of an artefact's digest, None where there is none."""
    raw = bytes.fromhex(digest.removeprefix("0x"))
    return cid_from_digest(raw) if raw.strip(b"\0") else None


def _none(text: str) -> str | None:
    return text or None


# -- home and jobs -----------------------------------------------------------------------------


def home(look: Reading) -> Home:
    """The network at a glance."""
    rows = look.all(sa.select(JOBS).order_by(JOBS.c.job_id.desc()))
    jobs = [job_summary(look, row) for row in rows]
    nodes = [node_summary(look, row) for row in look.all(sa.select(NODES))]
    return Home(
        at=look.at,
        jobs=jobs,
        nodes=len(nodes),
        nodes_ready=sum(node.state == "ready" for node in nodes),
        staked=sum(node.stake + node.unbonding for node in nodes),
        paid=sum(job.paid for job in jobs),
        paid_today=sum(job.paid_today for job in jobs),
        events=look.number(sa.select(sa.func.count()).select_from(EVENTS)),
    )


def job_row(look: Reading, job_id: int) -> Row:
    """The row of a job. Raises NotFound."""
    row = look.one(sa.select(JOBS).where(JOBS.c.job_id == job_id))
    if row is None:
        raise NotFound(f"There is no job {job_id}.")
    return row


def job_summary(look: Reading, row: Row) -> JobSummary:
    """A job in a list."""
    job_id, terms = row["job_id"], row["terms"]
    newest = look.one(
        sa.select(ROUNDS).where(
            ROUNDS.c.job_id == job_id, ROUNDS.c.round_id == row["rounds_opened"]
        )
    )
    nodes = look.all(
        sa.select(SEATS.c.node_id)
        .where(SEATS.c.job_id == job_id, SEATS.c.round_id == row["rounds_opened"])
        .order_by(SEATS.c.node_id)
    )
    reward = int(terms["reward_per_round"])
    return JobSummary(
        job_id=job_id,
        sponsor=row["sponsor"],
        status=cast(Any, numbers.JobStatus(row["status"]).name.lower()),
        cancel_requested=row["cancel_requested"],
        rounds=int(terms["rounds"]),
        rounds_opened=row["rounds_opened"],
        rounds_done=row["rounds_done"],
        clock=None if newest is None else clock(newest),
        nodes=[node["node_id"] for node in nodes],
        loss=losses(look, job_id),
        escrow=row["escrow"],
        carried=row["carried"],
        reward_per_round=reward,
        rounds_left_in_escrow=row["escrow"] // reward if reward else 0,
        paid=row["paid"],
        paid_today=paid_since(look, look.at.time - DAY, PAYMENTS.c.job_id == job_id),
        created_at=row["created_at"],
        ended_at=row["ended_at"],
    )


def paid_since(look: Reading, since: int, *where: Any) -> int:
    """What round's pools have given or kept for nodes since a time."""
    kinds = ("cut", "share", "held", "retained", "set aside")
    query = sa.select(PAYMENTS.c.amount).where(
        PAYMENTS.c.time > since, PAYMENTS.c.kind.in_(kinds), *where
    )
    return sum(row["amount"] for row in look.all(query))


def losses(look: Reading, job_id: int) -> list[LossPoint]:
    """The losses of a job's finalized rounds whose reports have been read, oldest first."""
    return []


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


def job(look: Reading, job_id: int) -> JobPage:
    """A job. Raises NotFound."""
    row = job_row(look, job_id)
    rounds = look.all(
        sa.select(ROUNDS)
        .where(ROUNDS.c.job_id == job_id)
        .order_by(ROUNDS.c.round_id.desc())
        .limit(MOST_ROUNDS)
    )
    summary = job_summary(look, row)
    known = {point.round_id: point for point in summary.loss}
    return JobPage(
        at=look.at,
        job=summary,
        terms=terms_of(row["terms"]),
        model=row["model"],
        funded=row["funded"],
        refunded=row["refunded"],
        scored=row["scored"],
        absent=row["absent"],
        rounds=[round_summary(each, known.get(each["round_id"])) for each in rounds],
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


def round_summary(row: Row, loss: LossPoint | None) -> RoundSummary:
    """A round in a list."""
    same = ("round_id", "opened_at", "ended_at", "prev_model", "pool", "paid", "ledger_index")
    counts = ("n_eligible", "n_committed", "n_revealed", "n_invalid")
    return RoundSummary(
        **{name: row[name] for name in (*same, *counts)},
        phase=cast(Any, numbers.Phase(row["phase"]).name.lower()),
        model=_none(row["model"]),
        void_reason=_none(row["void_reason"]),
        ledger_head=_none(row["ledger_head"]),
        loss=loss,
    )


# -- a round -----------------------------------------------------------------------------------


def round_(look: Reading, job_id: int, round_id: int) -> RoundPage:
    """A round. Raises NotFound."""
    here = {"job_id": job_id, "round_id": round_id}
    row = look.one(_in(ROUNDS, here))
    if row is None:
        job_row(look, job_id)
        raise NotFound(f"Job {job_id} has no round {round_id}.")
    seats = look.all(_in(SEATS, here).order_by(SEATS.c.node_id))
    voices = look.all(_in(VOICES, here).order_by(VOICES.c.node_id))
    loss = {point.round_id: point for point in losses(look, job_id)}.get(round_id)
    return RoundPage(
        at=look.at,
        job_id=job_id,
        summary=round_summary(row, loss),
        clock=clock(row),
        **{name: row[name] for name in ("opened_block", "opened_tx", "seed_block", "aggregators")},
        seats=[_seat(seat) for seat in seats],
        voices=[_voice(voice, row["result_hash"]) for voice in voices],
        verifier_stake=row["verifier_stake"],
        attested_stake=row["attested_stake"],
        open_reports=row["open_reports"],
        proposer=row["proposer"] or None,
        result_hash=_none(row["result_hash"]),
        update_cid=cid_of(row["update"]),
        report_cid=cid_of(row["report"]),
        proposed_tx=_none(row["proposed_tx"]),
        finalized_tx=_none(row["finalized_tx"]),
        challenger=_none(row["challenger"]),
        challenge_evidence_cid=cid_of(row["challenge_evidence"]),
        settled=row["settled"],
        returned=row["returned"],
        carried_on=row["carried_on"],
        payments=_payments(look.all(_in(PAYMENTS, here).order_by(*_CHAIN_ORDER))),
    )


_CHAIN_ORDER = (PAYMENTS.c.block, PAYMENTS.c.log_index, PAYMENTS.c.place)


def _in(table: sa.Table, where: Row) -> sa.Select[Any]:
    return sa.select(table).where(*(table.c[name] == value for name, value in where.items()))


def _seat(row: Row) -> Seat:
    same = ("node_id", "weight", "committed_at", "revealed_at", "duplicate", "invalid")
    texts = ("commit_tx", "reveal_tx", "content", "trace_root")
    return Seat(
        **{name: row[name] for name in (*same, "contribution", "slashed", "paid")},
        **{name: _none(row[name]) for name in texts},
        content_cid=cid_of(row["content"]),
        proof_cid=cid_of(row["proof"]),
    )


def _voice(row: Row, result: str) -> Voice:
    attested = bool(result) and row["result_hash"] == result
    return Voice(
        node_id=row["node_id"],
        stake=row["stake"],
        attested=attested,
        attested_at=row["attested_at"] if attested else None,
        attest_tx=_none(row["attest_tx"]) if attested else None,
    )


def _payments(rows: list[Row]) -> list[Payment]:
    return [Payment(**row) for row in rows]


# -- nodes -------------------------------------------------------------------------------------


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


def node_summary(look: Reading, row: Row) -> NodeSummary:
    """A node in a list."""
    same = ("node_id", "owner", "payout", "stake", "unbonding", "strikes", "locks", "score")
    money = ("earned", "slashed", "held", "retained", "registered_at")
    operator = None if row["operator"] == numbers.NOBODY else row["operator"]
    return NodeSummary(
        **{name: row[name] for name in (*same, *money)},
        operator=operator,
        roles=_role_names(row["roles"]),
        approved=_role_names(row["approved_roles"]),
        state=cast(Any, _state(row, look.at.time)),
        unlock_at=row["unlock_at"] or None,
        suspended_until=row["suspended_until"] or None,
        scored_at=row["scored_at"] or None,
        score_until=None,
    )


def node(look: Reading, node_id: int) -> NodePage:
    """A node. Raises NotFound."""
    row = look.one(sa.select(NODES).where(NODES.c.node_id == node_id))
    if row is None:
        raise NotFound(f"There is no node {node_id}.")
    deeds = _deeds(look, node_id)
    account = look.one(sa.select(ACCOUNTS).where(ACCOUNTS.c.account == row["payout"]))
    newest = sa.select(PAYMENTS).where(PAYMENTS.c.node_id == node_id)
    newest = newest.order_by(*(column.desc() for column in _CHAIN_ORDER)).limit(MOST_PAYMENTS)
    return NodePage(
        at=look.at,
        node=node_summary(look, row),
        encryption_key=_none(row["encryption_key"].removeprefix("0x").strip("0"))
        and row["encryption_key"],
        pending=0 if account is None else account["credited"] - account["claimed"],
        done=sum(deed.did == "done" for deed in deeds),
        missed=sum(deed.did in ("missed", "silent", "invalid") for deed in deeds),
        deeds=deeds[:MOST_DEEDS],
        earned=_earned(look, node_id),
        payments=_payments(look.all(newest)),
    )


def _earned(look: Reading, node_id: int) -> list[Earned]:
    """What was credited to a node, by day, oldest first."""
    credited = ("cut", "share", "released", "retained released", "share settled")
    query = sa.select(PAYMENTS.c.time, PAYMENTS.c.amount).where(
        PAYMENTS.c.node_id == node_id, PAYMENTS.c.kind.in_(credited)
    )
    days: defaultdict[int, int] = defaultdict(int)
    for row in look.all(query):
        days[row["time"] // DAY * DAY] += row["amount"]
    return [Earned(day=day, amount=days[day]) for day in sorted(days)]


def _deeds(look: Reading, node_id: int) -> list[Deed]:
    """A node's part in every round that drew it, newest first."""
    found = []
    for table, role in ((SEATS, "trainer"), (VOICES, "verifier")):
        joined = table.join(
            ROUNDS, (ROUNDS.c.job_id == table.c.job_id) & (ROUNDS.c.round_id == table.c.round_id)
        )
        columns = (ROUNDS.c.phase, ROUNDS.c.opened_at, ROUNDS.c.result_hash.label("standing"))
        query = sa.select(table, *columns).select_from(joined).where(table.c.node_id == node_id)
        found += [_deed(row, cast(Any, role)) for row in look.all(query)]
    return sorted(found, key=lambda deed: (deed.opened_at, deed.job_id), reverse=True)


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


# -- lists -------------------------------------------------------------------------------------


class BadCursor(NotFound):
    """A cursor that this API never gave."""


def _cursor(place: tuple[int, ...]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _place(cursor: str, length: int) -> tuple[int, ...]:
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        place = None
    if not isinstance(place, list) or len(place) != length:
        raise BadCursor("The cursor is not one that this API gave.")
    if not all(type(part) is int and 0 <= part < 2**62 for part in place):
        raise BadCursor("The cursor is not one that this API gave.")
    return tuple(place)


def payments(
    look: Reading,
    *,
    job_id: int | None = None,
    round_id: int | None = None,
    node_id: int | None = None,
    account: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Payment]:
    """Payments, newest first. Raises BadCursor."""
    wanted = {"job_id": job_id, "round_id": round_id, "node_id": node_id, "account": account}
    query = _in(PAYMENTS, {name: value for name, value in wanted.items() if value is not None})
    if cursor is not None:
        query = query.where(sa.tuple_(*_CHAIN_ORDER) < sa.tuple_(*_place(cursor, 3)))
    query = query.order_by(*(column.desc() for column in _CHAIN_ORDER)).limit(limit + 1)
    items = _payments(look.all(query))
    last = items[limit - 1] if len(items) > limit else None
    following = None if last is None else _cursor((last.block, last.log_index, last.place))
    return Page[Payment](at=look.at, items=items[:limit], next=following)


def events(
    look: Reading,
    *,
    job_id: int | None = None,
    round_id: int | None = None,
    node_id: int | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Happening]:
    """Events of the chain, newest first. Raises BadCursor."""
    order = (EVENTS.c.block, EVENTS.c.log_index)
    wanted = {"job_id": job_id, "round_id": round_id}
    query = _in(EVENTS, {name: value for name, value in wanted.items() if value is not None})
    if node_id is not None:
        query = query.where((EVENTS.c.node_id == node_id) | (EVENTS.c.actor_id == node_id))
    if cursor is not None:
        query = query.where(sa.tuple_(*order) < sa.tuple_(*_place(cursor, 2)))
    rows = look.all(query.order_by(*(column.desc() for column in order)).limit(limit + 1))
    names = Happening.model_fields
    items = [Happening(**{name: row[name] for name in names}) for row in rows[:limit]]
    last = items[-1] if len(rows) > limit else None
    following = None if last is None else _cursor((last.block, last.log_index))
    return Page[Happening](at=look.at, items=items, next=following)


def nodes(look: Reading, *, cursor: str | None = None, limit: int = 100) -> Page[NodeSummary]:
    """Nodes by ascending id. Raises BadCursor."""
    query = sa.select(NODES).order_by(NODES.c.node_id).limit(limit + 1)
    if cursor is not None:
        query = query.where(NODES.c.node_id > _place(cursor, 1)[0])
    rows = look.all(query)
    items = [node_summary(look, row) for row in rows[:limit]]
    following = _cursor((items[-1].node_id,)) if len(rows) > limit else None
    return Page[NodeSummary](at=look.at, items=items, next=following)
