# SPDX-License-Identifier: Apache-2.0
"""What a lie in a training round brings, with two drawn of n and with a chance for each node.

A round pays 1,000 ZOO, of which 950 are the trainers' at most; each has 100 ZOO at stake. One node
lies in every round and comes back under a free new name when it is found. `quality`: what its score
is, in parts of the others'. Profits are the mean of the rounds that were played with the draws that
verifiers use, in ZOO a round; `work` is what honest work brings where computing costs 8 % of the
pay. `redone`: how many of the n nodes are expected to be done again. A job retains nothing of the
verifiers' cut, so with one more is done again.

    python -m tests.measure.studies.lies
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from statistics import fmean

from rich.console import Console

from agents.jobs.deterrence import checking, honest
from agents.protocol.draw import draw, lots
from agents.protocol.draw_chance import Exposure, exposures, lasting_loss
from agents.protocol.numbers import ZOO
from agents.protocol.slashing import DEFAULTS
from tests.measure.rows import text_table

REWARD, CUT, SAMPLE = 1_000 * ZOO, 500, 2
LIAR = 1
COMPUTE = Fraction(8, 100)
NODES = (4, 8, 64, 128)
QUALITIES = (Fraction(1), Fraction(5, 4))
STAKES = (100, 1_000, 10_000)
RETAINED = (8, 16, 32)
DEAR = 4_200  # the verifiers' cut that `job create` takes at the usual numbers, in 1/10,000
ROUNDS = 5_000

Drawn = Callable[[bytes, Mapping[int, Exposure]], Collection[int]]


def round_of(nodes: int, quality: Fraction, stake: int = 100 * ZOO) -> dict[int, Exposure]:
    """Exposures by node of a round in which node 1 scores `quality` times what each other does."""
    everyone = range(1, nodes + 1)
    loss = lasting_loss(stake, DEFAULTS)
    parts = [int(100 * quality), *[100] * (nodes - 1)]
    return exposures(REWARD, CUT, everyone, parts, dict.fromkeys(everyone, loss))


def two_of_all(seed: bytes, exposed: Mapping[int, Exposure]) -> Collection[int]:
    """The draw as it was: `audit_sample` nodes."""
    return draw(seed, exposed, SAMPLE)


def by_exposure(seed: bytes, exposed: Mapping[int, Exposure]) -> Collection[int]:
    """The draw as it is. Nobody's lot depends on another's, so the liar's is enough."""
    return {*two_of_all(seed, exposed), *lots(seed, {LIAR: exposed[LIAR].chance})}


def profits(drawn: Drawn, exposed: Mapping[int, Exposure], rounds: int = ROUNDS) -> list[float]:
    """The liar's profit in ZOO, by round."""
    lies = exposed[LIAR]
    seeds = (b"%032d" % number for number in range(rounds))
    return [(-lies.loss if LIAR in drawn(seed, exposed) else lies.pay) / ZOO for seed in seeds]


def redone(nodes: int, stake: int, retained: int = 0, verifier_bps: int = 0) -> float:
    """How many nodes a verifier is expected to do again. `stake` in ZOO, `retained` in rounds."""
    stakes = [stake * ZOO] * nodes
    return float(checking(REWARD, verifier_bps, CUT, stakes, DEFAULTS, SAMPLE, retained).redone)


def main() -> None:
    """Print both tables."""
    rows = []
    for nodes in NODES:
        for quality in QUALITIES:
            exposed = round_of(nodes, quality)
            rows.append(
                (
                    str(nodes),
                    f"{float(quality):g}",
                    f"{float(honest(exposed[2].pay, COMPUTE)) / ZOO:.1f}",
                    f"{fmean(profits(two_of_all, exposed)):+.1f}",
                    f"{fmean(profits(by_exposure, exposed)):+.1f}",
                )
            )
    headings = ("nodes", "quality", "work", "lie, two of n", "lie, by exposure")
    console = Console(width=120)
    console.print(text_table("Profit in ZOO a round", headings, rows))
    needed = [
        (
            str(nodes),
            *(f"{redone(nodes, stake):.1f}" for stake in STAKES),
            *(f"{redone(nodes, STAKES[0], rounds):.1f}" for rounds in RETAINED),
            f"{redone(nodes, STAKES[0], RETAINED[0], DEAR):.1f}",
        )
        for nodes in NODES
    ]
    stakes = (f"{stake:,} ZOO at stake" for stake in STAKES)
    retained = (f"100 ZOO, {rounds} rounds retained" for rounds in RETAINED)
    dear = f"100 ZOO, {RETAINED[0]} rounds retained, verifiers' cut {DEAR / 100:g} %"
    columns = ("nodes", *stakes, *retained, dear)
    console.print(text_table("Nodes to do again a round", columns, needed))


if __name__ == "__main__":
    main()
