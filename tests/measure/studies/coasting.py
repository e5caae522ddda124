# SPDX-License-Identifier: Apache-2.0
"""What a third of a gauntlet job's nodes earn who stop to work, or rest, by the validators' rules.

Run: `python -m tests.measure.studies.coasting [--nodes 64] [--evaluated 8] [--rounds 100]
[--seeds 3] [--cost 0.5]`.

Draw, ratings and shares are real; what is measured of a node is made up, like what was measured of
small models (`tests/stage/memory/gauntlet_population.py`). Who does not work sends its last payload
again. Printed by way: the part of rounds in which the third works, its pay in fair shares and in
parts of an honest node's, its net after computing (of `--cost` of a fair share a round worked), and
that beside all work with the same seeds. Then the spread of equal nodes' pay, and what newcomers
earn beside those who were there.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console

from agents.mechanisms.score.gauntlet import Gauntlet
from tests.measure.rows import text_table
from tests.stage.memory.gauntlet_population import (
    Population,
    Works,
    earned,
    played,
    rests,
    stops_at,
)

_LATE = 0.5  # of the rounds, before newcomers come


def ways(others: int, rounds: int) -> Mapping[str, Works]:
    found: dict[str, Works] = {"works in all rounds": stops_at(others, rounds)}
    for part in (0.95, 0.9, 0.8, 0.7, 0.5):
        found[f"stops after {part:.0%}"] = stops_at(others, round(part * rounds))
    for wait in (1, 2, 4):
        found[f"rests {wait} after an evaluation"] = rests(others, wait)
    return found


def spread(runs: Sequence[Population]) -> str:
    """Standard deviation over mean of all nodes' pay, by seed."""
    pays = [list(run.pay.values()) for run in runs]
    return " ".join(f"{statistics.pstdev(pay) / statistics.mean(pay):.2f}" for pay in pays)


def newcomers(seeds: int, rounds: int, nodes: int, options: Gauntlet) -> str:
    """A round's pay of a quarter that comes late, in parts of the others' in the same rounds."""
    late = range(nodes - nodes // 4 + 1, nodes + 1)
    first = round(_LATE * rounds)
    parts = []
    for seed in range(seeds):
        population = Population(
            nodes, stops_at(0, 0), seed, options, joined=dict.fromkeys(late, first)
        )
        population.play(first)
        before = dict(population.pay)
        population.play(rounds - first)
        gained = {n: pay - before.get(n, 0.0) for n, pay in population.pay.items()}
        old = statistics.mean(gained[n] for n in gained if n not in late)
        parts.append(statistics.mean(gained[n] for n in late) / old)
    return " ".join(f"{part:.2f}" for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--evaluated", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cost", type=float, default=0.5)
    chosen = parser.parse_args()
    options = Gauntlet(evaluated=chosen.evaluated)
    others, rows, usual = chosen.nodes // 3, [], 0.0
    size = (chosen.seeds, chosen.rounds, chosen.nodes, options)
    for name, works in ways(others, chosen.rounds).items():
        work, pay = earned(played(works, *size), others)
        net = pay - chosen.cost * work
        usual = usual or net
        honest = (chosen.nodes - others * pay) / (chosen.nodes - others)
        figures = [f"{work:.2f}", f"{pay:.3f}", f"{pay / honest:.3f}", f"{net:.3f}"]
        rows.append([name, *figures, f"{net / usual - 1:+.1%}"])
    title = f"a third of {chosen.nodes} nodes, {chosen.evaluated} evaluated, {chosen.rounds} rounds"
    columns = ["way", "work", "pay", "of an honest node's", "net", "beside all work"]
    Console(width=100).print(text_table(title, columns, rows))
    everybody = stops_at(0, 0)
    print("spread of equal nodes:", spread(played(everybody, *size)))
    print("in 24 rounds:", spread(played(everybody, chosen.seeds, 24, chosen.nodes, options)))
    print("newcomers beside the others:", newcomers(*size))


if __name__ == "__main__":
    main()
