# SPDX-License-Identifier: Apache-2.0
"""The curves of a job and of a node, from what the index and the store hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from agents.protocol.numbers import ZOO, Phase, Violation
from agents.rounds.report import RoundReport
from scripts._report.amounts import zoo
from scripts._web.index.models import LossPoint, Payment
from scripts._web.index.reading import Reading
from scripts._web.index.tables import EVENTS, ROUNDS
from scripts._web.api.artefacts import Artefacts
from scripts._web.pages.draw.curve import Point

_MOST_ROUNDS = 200


@dataclass(frozen=True)
class Finished:
    """A finalized round with its report. `seconds`: from its opening to its end."""

    round_id: int
    opened_at: int
    ended_at: int
    model: str
    report: RoundReport

    @property
    def seconds(self) -> int:
        """How long it took, a second at least."""
        return max(1, self.ended_at - self.opened_at)

    @property
    def batches(self) -> int:
        """Batches of every update that was merged."""
        return sum(line.batches for line in self.report.nodes if line.merged)


@dataclass(frozen=True)
class Curve:
    """A curve of a page with the words around it."""

    name: str
    points: Sequence[Point]
    x_name: str
    y_name: str
    tone: str = "accent"
    bars: bool = False


def finished_rounds(look: Reading, artefacts: Artefacts, job_id: int) -> list[Finished]:
    """The newest finalized rounds of a job whose reports the store has, oldest first."""
    query = sa.select(ROUNDS).where(ROUNDS.c.job_id == job_id, ROUNDS.c.phase == Phase.FINALIZED)
    rows = look.all(query.order_by(ROUNDS.c.round_id.desc()).limit(_MOST_ROUNDS))
    found = []
    for row in reversed(rows):
        report = artefacts.report(row["report"])
        if report is not None:
            ended = row["ended_at"] or row["opened_at"]
            found.append(Finished(row["round_id"], row["opened_at"], ended, row["model"], report))
    return found


def losses(rounds: Iterable[Finished]) -> list[LossPoint]:
    """The validation loss after each round."""
    return [
        LossPoint(
            round_id=each.round_id,
            time=each.ended_at,
            before=each.report.val_loss_before,
            after=each.report.val_loss,
        )
        for each in rounds
    ]


def of_job(job_id: int, rounds: Sequence[Finished]) -> list[Curve]:
    """Loss and throughput; nothing before the first finalized round."""
    if not rounds:
        return []

    def href(each: Finished) -> str:
        return f"/jobs/{job_id}/rounds/{each.round_id}"

    first = rounds[0]
    loss = [
        Point(
            first.round_id - 1,
            first.report.val_loss_before,
            f"before round {first.round_id}: loss {first.report.val_loss_before:.4g}",
        )
    ]
    loss += [
        Point(
            each.round_id,
            each.report.val_loss,
            f"round {each.round_id}: loss {each.report.val_loss:.4g}",
            href(each),
        )
        for each in rounds
    ]
    work = [
        Point(
            each.round_id,
            each.batches / each.seconds * 60,
            f"round {each.round_id}: {each.batches} batches in {each.seconds} s",
            href(each),
        )
        for each in rounds
    ]
    return [
        Curve("Validation loss", loss, "round", "nats per token"),
        Curve("Throughput", work, "round", "merged batches a minute", "aggregate", bars=True),
    ]


EARNED = ("cut", "share", "released", "retained released", "share settled")
"""Kinds of payments that an account of the node can claim."""


def earnings(node_id: int, payments: Iterable[Payment]) -> list[Point]:
    """What a node has earned in all after each payment that it can claim, oldest first."""
    total = 0
    points: list[Point] = []
    for pay in sorted(payments, key=lambda p: (p.block, p.log_index, p.place)):
        if pay.kind not in EARNED or not pay.credited:
            continue
        total += pay.amount
        place = f"job {pay.job_id}, round {pay.round_id}" if pay.round_id else pay.kind
        href = f"/jobs/{pay.job_id}/rounds/{pay.round_id}/nodes/{node_id}" if pay.round_id else None
        told = f"{place}: +{zoo(pay.amount)}, {zoo(total)} ZOO in all"
        points.append(Point(len(points) + 1, total / ZOO, told, href))
    return [Point(0, 0, "registered: 0 ZOO"), *points] if points else []


@dataclass(frozen=True)
class Slashing:
    """A slash of a node."""

    time: int
    violation: str
    amount: int
    tx: str


def stakes(look: Reading, node_id: int) -> tuple[list[Point], list[Slashing]]:
    """The stake of a node after each change, and its slashes."""
    names = ("NodeRegistered", "StakeAdded", "ExitBegun", "StakeWithdrawn", "NodeSlashed")
    query = sa.select(EVENTS).where(EVENTS.c.node_id == node_id, EVENTS.c.name.in_(names))
    points: list[Point] = []
    slashes: list[Slashing] = []
    stake = 0
    for row in look.all(query.order_by(EVENTS.c.block, EVENTS.c.log_index)):
        args, name = row["args"], row["name"]
        if name == "NodeSlashed":
            amount = int(args["amount"])
            stake = max(0, stake - amount)
            word = _violation(int(args["violation"]))
            slashes.append(Slashing(row["time"], word, amount, row["tx"]))
            told = f"slashed {zoo(amount)} ZOO for {word}: {zoo(stake)} ZOO"
        elif name in ("ExitBegun", "StakeWithdrawn"):
            stake = 0
            told = "left: its stake unbonds" if name == "ExitBegun" else "stake withdrawn"
        else:
            stake = int(args["stake"])
            told = f"{'registered with' if name == 'NodeRegistered' else 'now'} {zoo(stake)} ZOO"
        points.append(Point(len(points) + 1, stake / ZOO, told))
    return (points if len(points) > 1 else []), slashes


def _violation(number: int) -> str:
    try:
        return Violation(number).name
    except ValueError:
        return f"violation {number}"
