# SPDX-License-Identifier: Apache-2.0
"""Figures 7a and 7b: butterfly all-reduce with colluders, and with miners that fail."""

from __future__ import annotations

import random
from fractions import Fraction

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from agents.pipeline.butterfly import valid_fraction
from scripts._figures.figure import BAD, COLOURS, SOFT, Figure
from scripts._figures.pipeline_rules import MINERS, collusion, lied_about, valid_shards

COLLUDERS = 5
_DREW = 0  # the seed of who colludes
_KEPT, _PRIMER = Fraction(9, 10), 0.35  # what the primer says is kept, and up to which rate
RATES = tuple(lost / MINERS for lost in range(0, MINERS + 1, 2))


def figure_7a() -> Figure:
    """The agreement matrix of 50 miners, some of whom tell one lie."""
    bad = sorted(random.Random(_DREW).sample(range(MINERS), COLLUDERS))
    settled = collusion(bad)
    matrix = settled.matrix
    agreed = [row.count(True) for row in matrix]
    rows = [
        (
            miner,
            "yes" if miner in bad else "no",
            agreed[miner],
            COLLUDERS - 1 if miner in bad else MINERS - 1 - COLLUDERS,
            "yes" if miner in settled.liars else "no",
        )
        for miner in range(MINERS)
    ]

    def draw(axis: Axes) -> None:
        shades = {True: 2, False: 1, None: 0}
        axis.imshow(
            [[shades[cell] for cell in row] for row in matrix],
            cmap=ListedColormap(["white", BAD, COLOURS[2]]),
            interpolation="nearest",
        )
        axis.set(xlabel="miner", ylabel="miner (green: they agree; red: they do not)")

    return Figure(
        name="7a",
        title=f"Agreement of {MINERS} miners on the shard they share, {COLLUDERS} of them collude",
        measured=(
            f"{MINERS} miners merge a set of weights by butterfly all-reduce; every pair owns one "
            f"of 1,225 shards. A cell compares the digests of the two owners. {COLLUDERS} miners "
            "state the same lie for every shard they own. Then the merge is settled as in a round: "
            "all of it is done again from the uploads, and every digest is held against that."
        ),
        formula=(
            f"With c colluders an honest miner agrees with n - 1 - c = {MINERS - 1 - COLLUDERS} "
            f"others, a colluder with the c - 1 = {COLLUDERS - 1} other colluders. It is column "
            "`agrees, formula` of the numbers."
        ),
        assumed=(
            "The primer gives 50 miners. It does not give how many of them collude, who they are "
            "or what they deliver."
        ),
        seeds=f"{_DREW}, for the uploads, the order of pairs, and who colludes",
        found=(
            f"Colluders: {', '.join(map(str, bad))}. Convicted by recomputation: "
            f"{', '.join(map(str, settled.liars))}. They lied about {lied_about(settled)} of 1,225 "
            "shards."
        ),
        columns=("miner", "colludes", "agrees with", "agrees, formula", "convicted"),
        rows=rows,
        draw=draw,
        size=(6, 6),
    )


def figure_7b(draws: int) -> Figure:
    """The share of shards that keep an owner, by the share of miners that fail."""
    found = valid_shards(RATES, draws=draws)
    rows = [
        (
            row.rate,
            row.lost,
            float(row.formula),
            float(row.counted),
            row.independent,
            row.independent_counted,
        )
        for row in found
    ]
    most = max(lost for lost in range(MINERS) if valid_fraction(MINERS, lost) >= _KEPT)
    low, high = (valid_fraction(MINERS, lost) for lost in (17, 18))

    def draw(axis: Axes) -> None:
        axis.plot(RATES, [row[2] for row in rows], color=COLOURS[0], label="1 - k(k-1)/(n(n-1))")
        axis.plot(RATES, [row[3] for row in rows], "o", color=COLOURS[1], label="counted")
        axis.plot(
            RATES, [row[5] for row in rows], "x", color=SOFT,
            label="counted, each miner fails by itself",
        )  # fmt: skip
        axis.axhline(float(_KEPT), color=SOFT, linestyle=":", linewidth=1)
        axis.axvline(_PRIMER, color=SOFT, linestyle=":", linewidth=1)
        axis.annotate("the primer: 90 % at 35 %", (_PRIMER, 0.9), fontsize=8, xytext=(0.37, 0.92))
        axis.set(xlabel="share of miners that fail", ylabel="share of valid shards", ylim=(0, 1.03))
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)

    return Figure(
        name="7b",
        title=f"Shards that keep an owner when some of {MINERS} miners fail",
        measured=(
            f"k = rate x {MINERS} miners are drawn to fail and state nothing. The "
            "merge is settled and its valid shards are counted; a point is the mean of "
            f"{draws} merges, each with its own order of pairs and its own failures. Crosses: "
            "each miner fails by itself with that probability."
        ),
        formula=(
            "1 - k(k - 1) / (n(n - 1)). It holds for every choice of k miners, so the count equals "
            "it. 1 - f^2 is what miners that fail by themselves leave on average."
        ),
        assumed=(
            "The primer gives 50 miners (for 7a) and the formula. It does not say whether rates "
            "are of a drawn number of miners or of each by itself."
        ),
        seeds=f"0 to {draws - 1} for the merges, 1 for who fails",
        found=(
            f"The formula keeps {float(_KEPT):.0%} of the shards while at most {most} of {MINERS} "
            f"miners fail ({most / MINERS:.0%}). The primer says around 90 % at 35 %, which lies "
            f"between 17 miners ({float(low):.1%}) and 18 ({float(high):.1%}). The count is the "
            "formula's in every row."
            if all(row.counted == row.formula for row in found)
            else "The count is not the formula's: see the numbers."
        ),
        columns=(
            "failure rate",
            "failed",
            "valid, formula",
            "valid, counted",
            "1 - f^2",
            "valid, counted, each by itself",
        ),
        rows=rows,
        draw=draw,
    )
