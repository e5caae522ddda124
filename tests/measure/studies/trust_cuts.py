# SPDX-License-Identifier: Apache-2.0
"""What honest validators keep of their cuts, because they draw and measure different nodes.

Nine equal trainers and three honest validators play ten rounds under the job of the gauntlet's
attacks. A validator's cut follows from its trust, and trust from how far its vector agrees with the
consensus. Printed by how many nodes each validator evaluates: the mean of its trust against the
best of its round, of the square of that, and of the factor that the contract applies.

    python -m tests.measure.studies.trust_cuts
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console

from agents.protocol.median import agreement, cut_factor, middle_trust, next_trust, stake_median
from agents.protocol.numbers import BPS
from agents.rounds.plan import Plan
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from scripts._attacks.riders import SIGNS, fields_of
from scripts._attacks.strategies import trains
from tests.measure.rows import text_table

TRAINERS, VALIDATORS, ROUNDS, SEEDS = 9, 3, 10, 3
EVALUATED = (4, 6, 8)


@dataclass
class Watched(GauntletSwarm):
    """`vectors`: what each validator committed to in the newest round."""

    vectors: dict[int, list[int]] = field(default_factory=dict)

    def _vector(
        self, index: int, plan: Plan, sent: Mapping[int, State], plausible: set[int]
    ) -> list[int]:
        self.vectors[index] = super()._vector(index, plan, sent, plausible)
        return self.vectors[index]


def trusts(evaluated: int, seed: int) -> Iterator[list[int]]:
    """The validators' trusts, round by round."""
    options = {**SIGNS["score_options"], "evaluated": evaluated}
    fields = fields_of({**SIGNS, "score_options": options}, TRAINERS)
    everyone = dict.fromkeys(range(1, TRAINERS + 1), trains())
    known: list[int | None] = [None] * VALIDATORS
    with tempfile.TemporaryDirectory() as folder:
        swarm = Watched.open(EmbeddedStore(Path(folder)), everyone, seed, **fields)
        for _ in range(ROUNDS):
            swarm.round()
            rows = [swarm.vectors[index] for index in range(VALIDATORS)]
            consensus = stake_median(rows, [1] * VALIDATORS, VALIDATORS)
            if not any(consensus):
                continue
            found = [
                next_trust(t, agreement(r, consensus)) for t, r in zip(known, rows, strict=True)
            ]
            known = [*found]
            yield found


def kept(evaluated: int) -> tuple[float, float, float]:
    """The three means, as parts of the whole cut."""
    rounds = [found for seed in range(SEEDS) for found in trusts(evaluated, seed)]
    best = [trust / max(found) for found in rounds for trust in found]
    applied = [
        cut_factor(trust, middle_trust((t, 1) for t in found)) / BPS
        for found in rounds
        for trust in found
    ]
    return fmean(best), fmean(part * part for part in best), fmean(applied)


def main() -> None:
    torch.set_num_threads(1)
    rows = [(str(n), *(f"{part:.1%}" for part in kept(n))) for n in EVALUATED]
    headings = ("evaluated", "trust over the best", "squared", "squared, over the middle")
    Console().print(text_table("Parts of the cuts of honest validators", headings, rows))


if __name__ == "__main__":
    main()
