# SPDX-License-Identifier: Apache-2.0
"""Figures 8a and 8b: what CLASP says of a miner whose samples lose 10 % more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from agents.pipeline.clasp import Clasp
from agents.pipeline.credit import PPM
from scripts._figures.figure import BAD, COLOURS, SOFT, Figure
from scripts._figures.pipeline_rules import LOSS, SPREAD, STAGES, Toy, clasp_toy

MALICIOUS = 12
SAMPLES = 1000
_SEED = 0
_HARM = 0.1
_MINERS = [miner for stage in STAGES for miner in stage]
_ASSUMED = (
    "The primer gives five stages of five miners and 10 % more loss and deviation on a path with "
    "a malicious miner. Mean loss and deviation are missing in its public text: "
    f"{LOSS:g} and {SPREAD:g} nats are taken. It gives neither the number of samples "
    f"({SAMPLES:,} are taken) nor who is malicious (miner {MALICIOUS}, of the second stage)."
)
_SEEDS = f"{_SEED}, for the routes and the losses"


def expected_mean(miner: int) -> float:
    """The mean loss of a miner's samples, of endlessly many: every fifth passes the malicious."""
    (stage,) = (stage for stage in STAGES if MALICIOUS in stage)
    if miner == MALICIOUS:
        return LOSS * (1 + _HARM)
    return LOSS if miner in stage else LOSS * (1 + _HARM / len(stage))


def expected_z(miner: int) -> float:
    """The plain z of that, against mean and deviation of all 25."""
    means = [expected_mean(one) for one in _MINERS]
    centre = math.fsum(means) / len(means)
    spread = math.sqrt(math.fsum((one - centre) ** 2 for one in means) / len(means))
    return (expected_mean(miner) - centre) / spread


def expected_contribution(miner: int) -> float:
    """The mean of its stage's expected losses less its own."""
    (stage,) = (stage for stage in STAGES if miner in stage)
    return math.fsum(map(expected_mean, stage)) / len(stage) - expected_mean(miner)


def figure_8a() -> Figure:
    """Outlier scores by miner."""
    toy = clasp_toy(SAMPLES, _SEED, (MALICIOUS,))
    plain = [toy.plain[miner] for miner in _MINERS]
    robust = [toy.judged[miner].overall_z / 1000 for miner in _MINERS]
    limit = Clasp().threshold

    def draw(axis: Axes) -> None:
        _bars(axis, plain, [expected_z(miner) for miner in _MINERS])
        places = range(len(_MINERS))
        axis.plot(places, robust, "D", color=COLOURS[0], markersize=4, label="robust z")
        axis.axhline(limit, color=SOFT, linestyle=":", label=f"paid less beyond {limit:g} (robust)")
        axis.set(ylabel="z of mean loss")
        axis.legend(fontsize=8)

    return Figure(
        name="8a",
        title="CLASP: outlier scores of 25 miners, one of them malicious (red)",
        measured=(
            f"{SAMPLES:,} samples take drawn routes through five stages of five miners. Bars: the "
            "primer's z, a miner's mean loss against mean and deviation of all 25. Diamonds: this "
            "project's robust z, by medians, effects by the median over reporters, against all "
            "miners; pay falls by what it exceeds the threshold."
        ),
        formula=(
            "Of endlessly many samples, the malicious miner's mean is 1.1 x 6 = 6.6, its four "
            "peers' 6, everybody else's 6 (1 + 0.1 / 5) = 6.12. That gives z = "
            f"{expected_z(MALICIOUS):+.2f}, {expected_z(10):+.2f} and {expected_z(0):+.2f}: dashes."
        ),
        assumed=_ASSUMED,
        seeds=_SEEDS,
        found=_found_8a(toy),
        columns=("miner", "stage", "malicious", "z", "z, formula", "robust z", "part of pay left"),
        rows=[
            (
                miner,
                toy.judged[miner].stage,
                "yes" if miner == MALICIOUS else "no",
                round(toy.plain[miner], 4),
                round(expected_z(miner), 4),
                toy.judged[miner].overall_z / 1000,
                toy.judged[miner].factor_ppm / PPM,
            )
            for miner in _MINERS
        ],
        draw=draw,
    )


def figure_8b() -> Figure:
    """Shapley estimates and mean losses by miner."""
    toy = clasp_toy(SAMPLES, _SEED, (MALICIOUS,))
    gains = [toy.judged[miner].contribution / PPM for miner in _MINERS]

    def draw(axis: Axes) -> None:
        _bars(axis, gains, [expected_contribution(miner) for miner in _MINERS])
        axis.set(ylabel="contribution: nats that a peer in its place would lose more")
        axis.legend(fontsize=8)

    stage = [miner for miner in _MINERS if miner // 10 == MALICIOUS // 10 and miner != MALICIOUS]
    peers = [toy.judged[miner].contribution / PPM for miner in stage]
    return Figure(
        name="8b",
        title="CLASP: Shapley estimates of the same miners (red: malicious)",
        measured=(
            f"The same {SAMPLES:,} samples. A miner's contribution is the mean loss of its stage "
            "less its own, so that a negative one does harm. The numbers have mean losses too."
        ),
        formula=(
            "Of endlessly many samples: "
            f"{expected_contribution(MALICIOUS):+.2f} for the malicious miner, "
            f"{expected_contribution(10):+.2f} for its peers, 0 for all others (dashes)."
        ),
        assumed=_ASSUMED + " The sign: the primer says that peers' values are reduced; counted as "
        "loss they are, and here a gain is shown.",
        seeds=_SEEDS,
        found=(
            f"The malicious miner: {toy.judged[MALICIOUS].contribution / PPM:+.3f} nats. Its four "
            f"peers: {min(peers):+.3f} to {max(peers):+.3f}; they look better than they are, as "
            "the primer says."
        ),
        columns=(
            "miner",
            "stage",
            "malicious",
            "mean loss",
            "mean loss, formula",
            "contribution",
            "contribution, formula",
        ),
        rows=[
            (
                miner,
                toy.judged[miner].stage,
                "yes" if miner == MALICIOUS else "no",
                round(float(toy.means[miner]) / PPM, 4),
                round(expected_mean(miner), 4),
                round(toy.judged[miner].contribution / PPM, 4),
                round(expected_contribution(miner), 4),
            )
            for miner in _MINERS
        ],
        draw=draw,
    )


def _found_8a(toy: Toy) -> str:
    others = [one for miner, one in toy.judged.items() if miner != MALICIOUS]
    bad = toy.judged[MALICIOUS]
    return (
        f"The malicious miner has z {toy.plain[MALICIOUS]:+.2f} and robust z "
        f"{bad.overall_z / 1000:+.2f}, and {bad.factor_ppm / PPM:.0%} of its pay is left. The "
        f"largest of the 24 honest: {max(toy.plain[m] for m in _MINERS if m != MALICIOUS):+.2f} "
        f"and {max(one.overall_z for one in others) / 1000:+.2f}; "
        f"{sum(one.factor_ppm < PPM for one in others)} of them are paid less."
    )


def _bars(axis: Axes, values: Sequence[float], expected: Sequence[float]) -> None:
    places = range(len(_MINERS))
    colours = [BAD if miner == MALICIOUS else COLOURS[5] for miner in _MINERS]
    axis.bar(places, values, color=colours)
    axis.plot(places, expected, "_", color="black", markersize=12, label="formula")
    axis.set_xticks(places, [str(miner) for miner in _MINERS], rotation=90, fontsize=7)
    axis.axhline(0, color=SOFT, linewidth=0.8)
    axis.set(xlabel="miner, by stage")
