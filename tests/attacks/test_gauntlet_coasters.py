# SPDX-License-Identifier: Apache-2.0
"""Coasters in a gauntlet job: who has a rating, and stops to work, is not paid on by it.

Nodes train a small model for real until half of the rounds are over; then some of them send their
last payload again. Three validators score them by the round's own functions. Where many more nodes
take part than are evaluated in a round, what is measured is made up
(`tests/stage/memory/gauntlet_population.py`); draw, ratings and shares are real. There nodes also
rest right after an evaluation, when a draw that favours the long unseen would spare them.
`pytest -s` prints what each earned; `python -m tests.measure.studies.coasting` has more nodes and
rounds. docs/gauntlet.md has both.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
import torch

from agents.mechanisms.score.gauntlet import Gauntlet
from agents.storage.embedded import EmbeddedStore
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from scripts._attacks.riders import SIGNS, fields_of
from scripts._attacks.strategies import stops, trains
from tests.stage.memory.gauntlet_population import Population, Works, played, rests, stops_at
from tests.stage.memory.gauntlet_population import earned as mean_of

torch.set_num_threads(1)

COASTERS, NODES, ROUNDS, HALF = 2, 6, 20, 10
NOISE = 0.1  # of an honest node's pay: what a score may give away beyond the share of the work
TAIL = 0.35  # of an honest node's pay in the rounds without work; by ratings alone 0.37 to 0.51
MANY, EVALUATED, LONG, COST = 48, 6, 60, 0.5
AMONG_MANY = 0.2  # as NOISE; it is not reached there
THIRD = MANY // 3
TAIL_ROUNDS = 20  # in which a third rests, beside helpers that never work

seeds = pytest.mark.parametrize("seed", [0, 1, 2], ids=["seed zero", "seed one", "seed two"])


@seeds
def test_who_stops_after_half_of_the_rounds_earns_no_more_than_its_share(
    tmp_path: Path, seed: int
) -> None:
    people = {n: stops(HALF) if n <= COASTERS else trains() for n in range(1, NODES + 1)}
    fields = fields_of(SIGNS, NODES)
    swarm = GauntletSwarm.open(EmbeddedStore(tmp_path / "store"), people, seed, **fields)
    for _ in range(HALF):
        swarm.round()
    worked = beside(swarm.pay)
    before = dict(swarm.pay)
    for _ in range(ROUNDS - HALF):
        swarm.round()
    rested = beside({node: pay - before[node] for node, pay in swarm.pay.items()})
    print(f"worked {worked:.2f}, rested {rested:.2f}, both {beside(swarm.pay):.2f}")
    assert rested < TAIL
    assert beside(swarm.pay) < HALF / ROUNDS * max(1.0, worked) + NOISE


def beside(pay: dict[int, float]) -> float:
    """The coasters' mean pay in parts of the others'."""
    own, others = list(pay.values())[:COASTERS], list(pay.values())[COASTERS:]
    return statistics.mean(own) / statistics.mean(others)


@pytest.fixture(scope="module")
def usual() -> float:
    """What a third of many earns net of computing that works in all rounds."""
    work, pay = earned(stops_at(THIRD, LONG))
    return pay - COST * work


@pytest.mark.parametrize("part", [0.95, 0.9, 0.8, 0.5])
def test_among_many_who_stops_early_gains_next_to_nothing(usual: float, part: float) -> None:
    """What is left are the last rounds, in which not everybody is evaluated again."""
    work, pay = earned(stops_at(THIRD, round(part * LONG)))
    print(f"work {work:.2f}, pay {pay:.3f}, net {pay - COST * work:.3f} beside {usual:.3f}")
    assert pay - COST * work < 1.05 * usual
    assert pay < work + AMONG_MANY


@pytest.mark.parametrize("wait", [1, 2, 4])
def test_among_many_who_rests_after_an_evaluation_gains_nothing(usual: float, wait: int) -> None:
    work, pay = earned(rests(THIRD, wait))
    print(f"work {work:.2f}, pay {pay:.3f}, net {pay - COST * work:.3f} beside {usual:.3f}")
    assert work < 0.95
    assert pay - COST * work < 1.02 * usual
    assert pay < work + AMONG_MANY


@pytest.mark.parametrize(
    ("helpers", "begin", "bound"),
    [(0, 0, 0.35), (48, 0, 0.5), (60, LONG - TAIL_ROUNDS, 0.42)],
    ids=["no helpers", "helpers from the first round on", "helpers that come then"],
)
def test_helpers_that_never_work_hide_nobody_who_rests(
    helpers: int, begin: int, bound: float
) -> None:
    """They send noise, and each is evaluated once before others are drawn more often. Where they
    had all of the seats with that, who rests had 0.52 of a working node's pay."""
    last = LONG - TAIL_ROUNDS
    joined = {MANY + 1 + k: begin + (k // EVALUATED if begin else 0) for k in range(helpers)}

    def works(node: int, number: int, _: int) -> bool:
        return node <= MANY and (node > THIRD or number < last)

    parts = []
    for seed in range(2):
        run = Population(MANY + helpers, works, seed, Gauntlet(evaluated=EVALUATED), joined)
        run.play(last)
        before = dict(run.pay)
        run.play(TAIL_ROUNDS)
        tail = [run.pay[node] - before[node] for node in range(1, MANY + 1)]
        parts.append(statistics.mean(tail[:THIRD]) / statistics.mean(tail[THIRD:]))
    print(f"rested {statistics.mean(parts):.2f}")
    assert statistics.mean(parts) < bound


def earned(works: Works) -> tuple[float, float]:
    """A round's work and pay of the third, in fair shares, over three seeds."""
    return mean_of(played(works, 3, LONG, MANY, Gauntlet(evaluated=EVALUATED)), THIRD)
