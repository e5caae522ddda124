# SPDX-License-Identifier: Apache-2.0
"""The curves of a job and of a node, from what the index and the store hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.protocol.numbers import ZOO
from scripts._report.amounts import zoo
from scripts._web.api.finished import Finished
from scripts._web.index.models import Payment, StakePoint
from scripts._web.pages.draw.curve import Point


@dataclass(frozen=True)
class Curve:
    """A curve of a page with the words around it."""

    name: str
    points: Sequence[Point]
    x_name: str
    y_name: str
    tone: str = "accent"
    bars: bool = False


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


def stakes(points: Sequence[StakePoint]) -> list[Point]:
    """The stake of a node after each change; nothing where it has never changed."""
    found = [
        Point(
            place,
            each.stake / ZOO,
            f"{_CHANGES.get(each.event, each.event)}: {zoo(each.stake)} ZOO",
        )
        for place, each in enumerate(points, start=1)
    ]
    return found if len(found) > 1 else []


_CHANGES = {
    "NodeRegistered": "registered",
    "StakeAdded": "stake added",
    "ExitBegun": "exit begun",
    "StakeWithdrawn": "withdrawn",
    "NodeSlashed": "slashed",
}
