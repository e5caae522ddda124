# SPDX-License-Identifier: Apache-2.0
"""On which tokens a gauntlet update leads, by how much, and how surely, for nodes of unequal data.

Run: `python -m tests.measure.studies.shown_work [--job plain|signs] [--rounds 8] [--seq-len 64]
[--codec-options '{"per_chunk": 512}']`.

Plays the case `sizes` of `gauntlet_pay`: five nodes train on what they are assigned, one on half
of it, one on as much again. Printed, for each kind of node and for the batches that it has trained
on and those that it has not: the mean sign of the lead over runs of tokens, which is what is paid,
and the mean lead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from agents.gauntlet.cells import Cells, Values
from agents.gauntlet.primary_evaluation import Yardstick
from agents.storage.embedded import EmbeddedStore
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from tests.measure.studies.gauntlet_pay import BATCHES, CASES, JOBS, changed, longer
from tests.stage.memory.gauntlet_run import SPEC, allowed

_cells = Yardstick._cells
_shown = Cells.shown


class Watched:
    """What is measured in a round: whose cells they are, and the leads on them."""

    def __init__(self) -> None:
        self.owners: list[tuple[int, int, Cells]] = []  # node, how many batches it was assigned
        self.leads: list[tuple[Cells, Values]] = []

    def cut(self, ruler: Yardstick, node: int) -> Cells:
        found = _cells(ruler, node)
        self.owners.append((node, len(ruler.assigned(node)), found))
        return found

    def show(self, cells: Cells, leads: Values) -> tuple[int, int]:
        self.leads.append((cells, leads))
        return _shown(cells, leads)

    def by_batch(self) -> list[tuple[int, float, Values]]:
        """Node, how far into its assigned batches one is, 1 and more for extra ones, and the leads
        on it."""
        found = []
        for cells, leads in self.leads:
            ((node, assigned),) = [
                (node, assigned) for node, assigned, own in self.owners if own is cells
            ]
            for batch in np.unique(cells.batch):
                found.append((node, batch / assigned, leads[cells.batch == batch]))
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=("plain", "signs"), action="append")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=16, help="tokens of a sequence")
    parser.add_argument("--codec-options", default="{}", help="in place of the job's own, JSON")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for job in chosen.job or ("plain", "signs"):
        fields = changed(JOBS[job], json.loads(chosen.codec_options), {})
        for line in played(longer(fields, chosen.seq_len), chosen.rounds):
            print(f"{job} | {line}", flush=True)


def played(job: Mapping[str, Any], rounds: int) -> Sequence[str]:
    people = CASES["sizes"].population()
    fields = {**SPEC, **job, "batches_per_round": BATCHES * len(people)}
    fields["score_options"] = {"evaluated": 16, "eval_batches": 6}
    found: dict[tuple[str, str], list[Values]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, allowed():
        strategies = {node: person[2] for node, person in people.items()}
        market = GauntletSwarm.open(EmbeddedStore(Path(folder) / "store"), strategies, **fields)
        for _ in range(rounds):
            seen = Watched()
            with (
                patch.object(Yardstick, "_cells", lambda *given, seen=seen: seen.cut(*given)),
                patch.object(Cells, "shown", lambda *given, seen=seen: seen.show(*given)),
            ):
                market.round()
            for node, place, leads in seen.by_batch():
                trained = place < people[node][1]
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
