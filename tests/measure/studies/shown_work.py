# SPDX-License-Identifier: Apache-2.0
"""On which tokens a gauntlet update leads, by how much, and how surely, for nodes of unequal data.

Run: `python -m tests.measure.studies.shown_work [--job plain|signs] [--rounds 8]`.

Plays the case `sizes` of `gauntlet_pay`: five nodes train on what they are assigned, one on half
of it, one on as much again. Printed, for each kind of node and for the batches that it has trained
on and those that it has not: the mean sign of the lead over runs of tokens, which is what is paid,
and the mean lead.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from agents.gauntlet.cells import Cells, Values
from agents.gauntlet.primary_evaluation import Yardstick
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import Ranges
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from tests.measure.studies.gauntlet_pay import BATCHES, CASES, JOBS
from tests.stage.memory.gauntlet_run import SPEC, allowed

_drawn = Yardstick._drawn
_shown = Cells.shown


class Watched:
    """What is measured in a round: whose assigned batches were drawn, and the leads on them."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[int]]] = []  # node and its batches, as drawn
        self.leads: list[tuple[Cells, Values]] = []

    def draw(self, ruler: Yardstick, purpose: str, node: int, ranges: Ranges) -> list[torch.Tensor]:
        found = _drawn(ruler, purpose, node, ranges)
        if purpose == "assigned":
            all_of_them = [index for first, last in ranges for index in range(first, last)]
            data = ruler.job.data
            by_bytes = {data.batch(i).numpy().tobytes(): i for i in all_of_them}
            self.batches.append((node, [by_bytes[one.numpy().tobytes()] for one in found]))
        return found

    def show(self, cells: Cells, leads: Values) -> tuple[int, int]:
        self.leads.append((cells, leads))
        return _shown(cells, leads)

    def by_batch(self) -> list[tuple[int, bool, Values]]:
        """Node, whether a batch is of the first half of the node's, and the leads on it."""
        found = []
        for (node, drawn), (cells, leads) in zip(self.batches, self.leads, strict=True):
            early = set(sorted(drawn)[: len(drawn) // 2])
            for index, batch in enumerate(drawn):
                found.append((node, batch in early, leads[cells.batch == index]))
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=("plain", "signs"), action="append")
    parser.add_argument("--rounds", type=int, default=8)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for job in chosen.job or ("plain", "signs"):
        for line in played(job, chosen.rounds):
            print(f"{job} | {line}", flush=True)


def played(job: str, rounds: int) -> Sequence[str]:
    people = CASES["sizes"].population()
    fields = {**SPEC, **JOBS[job], "batches_per_round": BATCHES * len(people)}
    fields["score_options"] = {"evaluated": 16, "eval_batches": 6}
    found: dict[tuple[str, str], list[Values]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, allowed():
        strategies = {node: person[2] for node, person in people.items()}
        market = GauntletSwarm.open(EmbeddedStore(Path(folder) / "store"), strategies, **fields)
        for _ in range(rounds):
            seen = Watched()
            with (
                patch.object(Yardstick, "_drawn", lambda *given, seen=seen: seen.draw(*given)),
                patch.object(Cells, "shown", lambda *given, seen=seen: seen.show(*given)),
            ):
                market.round()
            for node, early, leads in seen.by_batch():
                trained = people[node][1] >= 1 or early
                found[people[node][0], "trained" if trained else "not trained"].append(leads)
    return [
        f"{kind}, {which}: mean sign {mean(np.sign(part) for part in parts):.2f}, "
        f"mean lead {1e3 * mean(parts):.2f} millinats a token"
        for (kind, which), parts in sorted(found.items())
    ]


def mean(parts: Iterable[Values]) -> float:
    """Of batches' means."""
    return statistics.mean(float(part.mean()) for part in parts)


if __name__ == "__main__":
    main()
