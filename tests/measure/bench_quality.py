# SPDX-License-Identifier: Apache-2.0
"""Validation loss by codec: what is recorded, and one paired seed run here and now.

A full run takes a minute and a half of CPU, so the figures with a goal come from
`docs/quality.json`, where `python -m tests.measure.quality --record` put them, and a short run of
the same methods shows that they still learn. A job's own rounds and two poisoners of eight have
goals beside runs of the same section. `--full` records what is missing first, and draws all
that is recorded against tokens, bytes and time, into `report/quality/`.

    python -m tests.measure.bench_quality
    python -m tests.measure.bench_quality --full
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.measure.quality import curves, job, poison
from tests.measure.quality.grid import Grid
from tests.measure.quality.methods import METHODS
from tests.measure.quality.record import Key, Records
from tests.measure.quality.sections import sections
from tests.measure.quality.task import TOKENS_A_STEP, Task
from tests.measure.quality.trainer import Run, Trainer
from tests.measure.rows import Row

REPORT = Path("report/quality")
STEPS = 200
SHORT = 40
SEEDS = (0, 1, 2)
SHOWN = (
    *("adamw", "adamw-tuned", "diloco", "sparse", "sparse-muon"),
    *("cells-muon", "cells-muon-quarter", "directions-muon-quarter"),
    *("demo", "demo-muon"),
)


@dataclass(frozen=True)
class Goal:
    """Bounds at 819,200 tokens: nats a byte (below), MB uploaded per peer (at most); the peer's."""

    loss: float
    megabytes: float
    peer: str


GOALS = {
    "sparse": Goal(2.60, 0.52, "SparseLoCo 2.650 at 0.515 MB"),
    "sparse-muon": Goal(2.40, 0.52, "SparseLoCo 2.650 at 0.515 MB"),
    "cells-muon": Goal(2.40, 0.52, "SparseLoCo 2.650 at 0.515 MB"),
    "demo": Goal(2.80, 0.92, "DeMo 2.898 at 0.920 MB"),
    "demo-muon": Goal(2.45, 0.92, "DeMo 2.898 at 0.920 MB"),
}
COMPARED = (("sparse", "diloco"),)
# Beside AdamW, each at its best rates.
TUNED = ("sparse-muon", "directions-muon-quarter", "demo-muon")
JOB_STEPS = 600
# Of the job's loss over theirs, less one. Of central Muon at two rates the better one counts.
JOB_GOALS = {"adamw-tuned": 0.0, "muon-tuned": 0.08, "muon-x3": 0.08}
PEERS = {"adamw": "2.471", "diloco": "2.685 (seed 1: 2.764)"}


def row(name: str, runs: Sequence[Run]) -> Row:
    """A recorded method: the mean over its seeds, beside its goal."""
    loss = statistics.mean(run.val["1.0"] for run in runs)
    megabytes = runs[0].uploaded / 1e6
    shown = f"{loss:.3f} nats/byte, {megabytes:.3f} MB up per peer, mean of {len(runs)}"
    figure = f"recorded: {name}, {STEPS * TOKENS_A_STEP:,} tokens"
    goal = GOALS.get(name)
    if goal is None:
        return Row(figure, shown, peer=PEERS.get(name, ""))
    met = loss < goal.loss and megabytes <= goal.megabytes
    return Row(figure, shown, f"< {goal.loss:.2f}, <= {goal.megabytes} MB", met, goal.peer)


def tuned_rows(tuned: Grid) -> Iterator[Row]:
    """Methods beside AdamW, all at their best rates of one grid on seed 0."""
    central = tuned.by_seed("adamw")

    def behind(name: str) -> dict[int, float]:
        ends = tuned.by_seed(name)
        return {seed: ends[seed] - central[seed] for seed in sorted(ends.keys() & central.keys())}

    for name in TUNED:
        gaps = behind(name).values()
        shown = ", ".join(f"{gap:+.3f}" for gap in gaps)
        figure = f"recorded on one grid: {name} minus adamw, by seed"
        yield Row(figure, shown, "<= 0", bool(gaps) and max(gaps) <= 0)


def above_row(
    figure: str, ours: dict[int, float], theirs: dict[int, float], goal: float
) -> Row | None:
    """How far each seed's loss ends above another run's, in percent; None where there is no seed
    of both."""
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return None
    gaps = [ours[seed] / theirs[seed] - 1 for seed in both]
    seeds = ", ".join(map(str, both))
    shown = ", ".join(f"{100 * gap:+.1f} %" for gap in gaps) + f" (seeds {seeds})"
    return Row(f"recorded: {figure}", shown, f"<= {100 * goal:g} %", max(gaps) <= goal)


def ends(records: Records, name: str, steps: int) -> dict[int, float]:
    """The loss at the end of a recorded row, by seed."""
    return {seed: run["val"]["1.0"] for seed, run in records.of(name, steps).items()}


def job_rows(records: Records) -> Iterator[Row]:
    """A job's own rounds beside central training."""
    ours = ends(records, "job", JOB_STEPS)
    for name, goal in JOB_GOALS.items():
        figure = f"a job's own rounds above {name}, {JOB_STEPS * TOKENS_A_STEP:,} tokens"
        found = above_row(figure, ours, ends(records, name, JOB_STEPS), goal)
        if found is not None:
            yield found


def poison_rows(records: Records) -> Iterator[Row]:
    """Two of eight that poison, beside the six honest peers alone."""
    for rule in poison.RULES:
        poisoned, six = (
            ends(records, f"{rule} {row}", poison.STEPS) for row in ("poisoned", "six")
        )
        figure = f"{rule}, two of eight poison, above six peers"
        found = above_row(figure, poisoned, six, poison.GOAL)
        if found is not None:
            yield found


def rows(say: Callable[[str], None] = lambda _: None, full: bool = False) -> Iterator[Row]:
    """Recorded rows, the comparisons of recorded rows, and the short run."""
    records = Records()
    for seed in SEEDS if full else ():
        task = Task(seed)
        for name in METHODS:
            key = Key(name, seed, STEPS)
            if records.find(key) is None:
                say(f"{name}, seed {seed}, {STEPS} steps")
                records.add(key, task, Trainer(task, METHODS[name], STEPS).go())
    if full:
        yield Row("curves of all recorded runs", str(curves.write(REPORT, sections())))
    recorded: dict[str, dict[int, Run]] = {}
    for name in SHOWN:
        found = {seed: records.find(Key(name, seed, STEPS)) for seed in SEEDS}
        recorded[name] = {seed: run for seed, run in found.items() if run is not None}
        if recorded[name]:
            yield row(name, list(recorded[name].values()))
    for one, other in COMPARED:
        both = sorted(recorded[one].keys() & recorded[other].keys())
        if both:
            gaps = [
                recorded[one][seed].val["1.0"] - recorded[other][seed].val["1.0"] for seed in both
            ]
            shown = ", ".join(f"{gap:+.3f}" for gap in gaps)
            yield Row(f"recorded: {one} minus {other}, by seed", shown, "<= 0", max(gaps) <= 0)
    yield from tuned_rows(Grid())
    yield from job_rows(job.opened())
    yield from poison_rows(poison.opened())
    task = Task(0)
    for name in SHOWN:
        say(f"{name}, {SHORT} steps")
        run = Trainer(task, METHODS[name], SHORT).go()
        shown = (
            f"{run.val['1.0']:.3f} nats/byte, {run.uploaded / 1e6:.3f} MB, {run.cpu_s:.0f} CPU s"
        )
        yield Row(f"run now: {name}, {SHORT * TOKENS_A_STEP:,} tokens, seed 0", shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="first run what is not recorded")
    torch.set_num_threads(1)
    for item in rows(print, parser.parse_args().full):
        print(f"{item.figure:<45} {item.measured:<60} {item.goal} {item.peer}", flush=True)


if __name__ == "__main__":
    main()
