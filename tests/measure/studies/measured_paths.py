# SPDX-License-Identifier: Apache-2.0
"""Epochs of twelve miners of which some are slower, by equal and by measured paths.

`pipeline_links` plays them: four stages of three miners, 96 samples, the real `Schedule` of every
miner, passes of 72 and 141 ms and steps of 20 ms, codes of 16,400 B, lines of 80 Mbit/s and 40 ms.
Each case is eight epochs, one after the other, each drawn by the weights that the one before gave,
three times over with other seeds. What is printed is the mean of the last four of each, with the
standard error of the mean of its time. The second part cuts each epoch at the time of one with
equal miners and a quarter more, as the end of COMMIT would: samples are lost there. The controls
are equal miners, and miners whose speeds differ by up to 10 %.

    python -m tests.measure.studies.measured_paths
    python -m tests.measure.studies.measured_paths --chains 25    # the controls need more epochs
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from eth_utils import keccak

from agents.pipeline.epoch import Epoch
from agents.pipeline.pace import Showed, weights_after, weights_of
from tests.measure.pipeline_links import Costs, Link, Simulation

STAGES, MINERS, SAMPLES = 4, 3, 96
ROUNDS = 8
SEATS = tuple(tuple(range(MINERS * k + 1, MINERS * k + MINERS + 1)) for k in range(STAGES))
EVERYBODY = [miner for stage in SEATS for miner in stage]
COSTS = Costs([0.072] * STAGES, [0.141] * STAGES, [0.02] * STAGES)
LINK, MESSAGE = Link(80e6 / 8, 0.04), 16_400
_LOTS = random.Random(1)
CASES: dict[str, Mapping[int, float]] = {
    "all equal": {},
    "speeds differ by 10 %": {miner: _LOTS.uniform(0.9, 1.1) for miner in EVERYBODY},
    "one 3 times slower": {SEATS[1][0]: 3.0},
    "two 3 times slower, in two stages": {SEATS[1][0]: 3.0, SEATS[3][1]: 3.0},
    "two 3 times slower, in one stage": {SEATS[1][0]: 3.0, SEATS[1][1]: 3.0},
    "one 3 times faster": {SEATS[1][0]: 1 / 3},
}


@dataclass(frozen=True)
class Found:
    """Means: seconds, their standard error, share of time computing, share of samples that don't
    count, and the weight of the slowest miner, relative to the highest."""

    seconds: float
    error: float
    computing: float
    lost: float
    weight: float


def played(
    slower: Mapping[int, float], measured: bool, batch: int, deadline: float, chains: int
) -> Found:
    """The epochs of a case."""
    rows = list[tuple[float, float, float, float]]()
    for chain in range(chains):
        weights = dict[int, int]()
        for number in range(ROUNDS):
            drawn = weights_of(EVERYBODY, weights) if measured else ()
            seed = keccak(b"round %d of %d" % (number, chain))
            epoch = Epoch(1, number + 1, seed, SEATS, range(SAMPLES), drawn)
            place = epoch, COSTS, LINK, MESSAGE, batch
            ran = Simulation(*place, slower=slower, deadline=deadline).run()
            showed = {
                miner: Showed(one.forwards, one.entered, round(1000 * one.computed))
                for miner, one in ran.miners.items()
            }
            count = sum(
                all(sample in showed[miner].entered for miner in epoch.route(sample))
                for sample in epoch.samples
            )
            weights = weights_after(epoch, weights, showed, (1,) * len(epoch.stages))
            slowest = max(EVERYBODY, key=lambda miner: slower.get(miner, 1.0))
            weight = weights[slowest] / max(weights.values())
            if number >= ROUNDS // 2:
                rows.append((ran.seconds, ran.share, 1 - count / SAMPLES, weight))
    seconds, computing, lost, weight = map(statistics.mean, zip(*rows, strict=True))
    error = statistics.stdev(row[0] for row in rows) / math.sqrt(len(rows))
    return Found(seconds, error, computing, lost, weight)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=3, help="of eight epochs, for each case")
    chains = parser.parse_args().chains
    for batch in (4, 16):
        whole = played({}, False, batch, math.inf, chains).seconds
        for cut in (math.inf, 1.25 * whole):
            print(f"{batch} passes to a step" + (f", cut at {cut:.1f} s" if cut < 1e9 else ""))
            for name, slower in CASES.items():
                for how in ("equal", "measured"):
                    one = played(slower, how == "measured", batch, cut, chains)
                    print(
                        f"  {name}, {how}: {one.seconds:.1f} s (+- {one.error:.1f}), "
                        f"{one.computing:.1%} computing, {one.lost:.1%} lost, "
                        f"weight of the slowest {one.weight:.2f}"
                    )


if __name__ == "__main__":
    main()
