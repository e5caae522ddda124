# SPDX-License-Identifier: Apache-2.0
"""Where deterrence ends: what lying in training brings, by how many lies are found and by whom.

Each point is played on the contracts (`scripts/_attacks`): a round in which the attacker's trainers
send noise, once found and once not, weighed with the chance of the draw.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # the backend must be chosen first

from agents.protocol.numbers import ZOO
from scripts._attacks.attack import outcome
from scripts._attacks.deeds import round_of, without_evil
from scripts._attacks.market import Market, Numbers
from scripts._attacks.spot_checks import drawn

_FOUND = [Fraction(step, 20) for step in range(21)]
_SHARES = [Fraction(step, 12) for step in (1, 2, 3, 4, 5, 6, 8, 10)]
_TRAINERS, _VERIFIERS = 6, 12  # so that a share of the verifiers is a number of them
_COLOURS = ("#0969da", "#8250df", "#1a7f37")


def lying(numbers: Numbers, found: Fraction) -> float:
    """What one of the attacker's trainers wins a round by noise, in ZOO.

    `found`: how many of the lies that are drawn verifiers find and report in time.
    """
    market = Market(numbers)
    pay = dict.fromkeys(market.trainers, 1)
    played = outcome(
        market,
        round_of(pay),
        without_evil,
        market.evil,
        numbers.stake,
        round_of(pay, market.evil),
        drawn(market, market.evil[0]) * found,
    )
    return float(played.profit) / len(market.evil) / ZOO


def write_plot(path: Path, numbers: Numbers) -> None:
    """Draw both curves for the stake, ten and a hundred times of it; the suffix is the format.

    In an SVG file each line has an id: `found-10`, `share-10`, `found-zero`, `share-zero`.
    ValueError for a format that matplotlib does not write.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    if path.suffix[1:].lower() not in figure.canvas.get_supported_filetypes():
        plt.close(figure)
        raise ValueError(f"{path.suffix or 'no suffix'} is no format that can be drawn.")
    for times, colour in zip((1, 10, 100), _COLOURS, strict=True):
        staked = replace(numbers, stake=times * numbers.stake)
        label = f"{staked.stake / ZOO:,.0f} ZOO at stake"
        ends = lying(staked, Fraction(0)), lying(staked, Fraction(1))
        line = [ends[0] + float(part) * (ends[1] - ends[0]) for part in _FOUND]
        shares = [float(part) for part in _FOUND]
        left.plot(shares, line, color=colour, label=label, gid=f"found-{times}")
        crowd = replace(
            staked,
            nodes=_TRAINERS,
            verifiers=_VERIFIERS,
            verifier_stake=numbers.verifier_stake,
        )
        by_share = [lying(replace(crowd, share=float(share)), Fraction(1)) for share in _SHARES]
        right.plot(
            [float(s) for s in _SHARES],
            by_share,
            "o-",
            color=colour,
            markersize=4,
            drawstyle="steps-post",
            gid=f"share-{times}",
        )
    right.axvline(1 / 3, color="#57606a", linestyle=":", linewidth=1)
    right.annotate("a third", (1 / 3, 0), fontsize=8, xytext=(4, 4), textcoords="offset points")
    for axis, by in ((left, "found"), (right, "share")):
        axis.axhline(0, color="#57606a", linewidth=1, gid=f"{by}-zero")
        axis.grid(alpha=0.25)
    left.set(
        title="by how many drawn lies are found",
        xlabel="lies found and reported in time, of those drawn",
        ylabel="ZOO that a lying trainer wins a round",
    )
    right.set(
        title=f"by the attacker's share of {_TRAINERS} trainers and {_VERIFIERS} verifiers",
        xlabel="attacker's share",
    )
    left.legend(fontsize=8)
    figure.suptitle("Where deterrence ends: above zero, sending noise pays", fontsize=11)
    figure.tight_layout()
    try:
        figure.savefig(path)
    finally:
        plt.close(figure)
