# SPDX-License-Identifier: Apache-2.0
"""Finished rounds with their reports: what the losses, the throughput and the checkpoint come from.

A round whose report this server's store lacks is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from agents.protocol.numbers import Phase
from agents.rounds.report import RoundReport
from scripts._web.api.artefacts import Artefacts
from scripts._web.index.models import LossPoint, Terms
from scripts._web.index.reading import Reading
from scripts._web.index.tables import ROUNDS

MOST_ROUNDS = 200


@dataclass(frozen=True)
class Finished:
    """A finalized round with its report."""

    round_id: int
    opened_at: int
    ended_at: int
    model: str
    report: RoundReport

    @property
    def seconds(self) -> int:
        """From its opening to its end, a second at least."""
        return max(1, self.ended_at - self.opened_at)

    @property
    def batches(self) -> int:
        """Batches of every update that was merged."""
        return sum(line.batches for line in self.report.nodes if line.merged)


@dataclass(frozen=True)
class Checkpoint:
    """The newest checkpoint that the store has. `round_id`: 0 for the one of the beginning."""

    round_id: int
    cid: str
    model: str
    size: int | None


def finished_rounds(look: Reading, artefacts: Artefacts, job_id: int) -> list[Finished]:
    """Return a job's newest finalized rounds, oldest first. The newest are looked for first."""
    query = sa.select(ROUNDS).where(ROUNDS.c.job_id == job_id, ROUNDS.c.phase == Phase.FINALIZED)
    rows = look.all(query.order_by(ROUNDS.c.round_id.desc()).limit(MOST_ROUNDS))
    found = []
    for row in rows:
        report = artefacts.report(row["report"])
        if report is not None:
            ended = row["ended_at"] or row["opened_at"]
            found.append(Finished(row["round_id"], row["opened_at"], ended, row["model"], report))
    return found[::-1]


def losses(rounds: Iterable[Finished]) -> list[LossPoint]:
    """Return the validation loss after each round."""
    return [
        LossPoint(
            round_id=each.round_id,
            time=each.ended_at,
            before=each.report.val_loss_before,
            after=each.report.val_loss,
        )
        for each in rounds
    ]


def checkpoint_of(
    terms: Terms, rounds: Sequence[Finished], artefacts: Artefacts
) -> Checkpoint | None:
    """Return the newest checkpoint of a job that the store has."""
    found = [
        (each.round_id, each.report.checkpoint, each.model)
        for each in reversed(rounds)
        if each.report.checkpoint
    ]
    found.append((0, terms.genesis_checkpoint_cid, terms.genesis_model))
    for round_id, cid, model in found:
        if artefacts.has(cid):
            return Checkpoint(round_id, cid, model, artefacts.size(cid))
    return None
