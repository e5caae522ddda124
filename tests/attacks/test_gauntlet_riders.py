# SPDX-License-Identifier: Apache-2.0
"""Riders and pools in a gauntlet job: none is paid beyond its work.

Nodes train a small model for real. Three validators score them by the round's own functions
(`scripts/_attacks/gauntlet_swarm.py`). Riders do a quarter of the work or all of it, and adapt:
each tries every way of making much of its work that is known, then goes on with what earned most.
The nodes of a pool send the mean of what they train; others train the output layer only, or the
rest on little data. `pytest -s` prints what each earned; other
jobs and more seeds: `python -m tests.measure.studies.gauntlet_pay`. docs/scoring.md has both.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from agents.storage.embedded import EmbeddedStore
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from scripts._attacks.riders import SIGNS, fields_of
from scripts._attacks.strategies import (
    adapts,
    head_and_part,
    head_only,
    masked_history,
    pools,
    rides,
    rides_by_tensor,
    skims,
    trains,
    windows,
)
from scripts._attacks.swarm import Strategy

torch.set_num_threads(1)

NODES, ROUNDS, QUARTER = 6, 20, 0.25
LITTLE_WORK = (
    rides(QUARTER),
    rides_by_tensor(QUARTER),
    masked_history(QUARTER),
    skims(QUARTER),
    windows(QUARTER),
    trains(QUARTER),
)
FULL_WORK = (rides(), rides(weight=0.3), rides_by_tensor(), masked_history(1.0))
USUAL = {"evaluated": 16, "eval_batches": 6}
TOKENS = 16  # of a sequence
MARGIN = 1.1  # of what is fair
# Of honest nodes' pay beside others, in 20 rounds. 0.25 was measured; another text may give more.
SPREAD = 0.34
GOAL = 0.25  # with seed zero, where it holds on both texts that were tried

seeds = pytest.mark.parametrize("seed", [0, 1, 2], ids=["seed zero", "seed one", "seed two"])
one_or_two = pytest.mark.parametrize("riders", [1, 2], ids=["one rides", "two ride"])


@dataclass(frozen=True)
class Earned:
    """The mean pay of those who aren't honest in parts of an honest node's; standard deviation
    over mean of the honest nodes' pay."""

    others: float
    spread: float


def test_equal_work_is_paid_alike_to_a_quarter(tmp_path: Path) -> None:
    assert played(tmp_path, [], honest=8, rounds=24).spread < 0.25


@seeds
@one_or_two
def test_who_adapts_a_quarter_of_the_work_earns_no_more_than_its_share(
    tmp_path: Path, riders: int, seed: int
) -> None:
    earned = played(tmp_path, [adapts(*LITTLE_WORK)] * riders, NODES - riders, seed)
    assert earned.others < MARGIN * QUARTER
    assert earned.spread < (SPREAD if seed else GOAL)


@one_or_two
def test_who_adds_past_updates_to_full_work_earns_no_more_than_an_honest_node(
    tmp_path: Path, riders: int
) -> None:
    earned = played(tmp_path, [adapts(*FULL_WORK)] * riders, NODES - riders)
    assert earned.others < MARGIN
    assert earned.spread < SPREAD


@pytest.mark.parametrize("count", [2, 3], ids=["two pool", "three pool"])
def test_who_pools_earns_no_more_than_its_share(tmp_path: Path, count: int) -> None:
    earned = played(tmp_path, [pools(*range(1, count + 1))] * count, NODES)
    assert earned.others < MARGIN
    assert earned.spread < SPREAD


@pytest.mark.parametrize(
    ("way", "work"),
    [(head_only, 0.5), (head_and_part(QUARTER), 0.625)],
    ids=["nothing else", "the others on a quarter of the data"],
)
def test_who_trains_the_output_layer_first_earns_no_more_than_its_share(
    tmp_path: Path, way: Strategy, work: float
) -> None:
    """Counted is what going back through the other layers saves: half of a batch's work."""
    earned = played(tmp_path, [way] * 2, NODES - 1)
    assert earned.others < MARGIN * work
    assert earned.spread < SPREAD


def played(
    folder: Path, others: list[Strategy], honest: int, seed: int = 0, rounds: int = ROUNDS
) -> Earned:
    """After so many rounds. `others` are the first nodes."""
    started = time.process_time()
    people = dict(enumerate([*others, *[trains()] * honest], start=1))
    job = {**SIGNS, "optimizer": {**SIGNS["optimizer"], "seq_len": TOKENS}}
    fields = fields_of(job, len(people)) | {"score_options": USUAL}
    swarm = GauntletSwarm.open(EmbeddedStore(folder / "store"), people, seed, **fields)
    for _ in range(rounds):
        swarm.round()
    pay = [swarm.pay[node] for node in swarm.nodes]
    usual = statistics.mean(pay[len(others) :])
    earned = Earned(
        others=statistics.mean(pay[: len(others)]) / usual if others else 0.0,
        spread=statistics.pstdev(pay[len(others) :]) / usual,
    )
    seconds = time.process_time() - started
    print(f"others {earned.others:.2f}, spread {earned.spread:.2f}; {seconds:.0f} s of one core")
    return earned
