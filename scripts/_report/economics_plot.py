# SPDX-License-Identifier: Apache-2.0
"""The penalty that deters, in fees, against the attacker's share of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # the backend must be chosen first

from agents.tasks.deterrence import Deterrence
from agents.tasks.economics import (
    Draw,
    article_stake,
    article_threshold,
    corrected_penalty,
    corrected_threshold,
    limit,
    penalty_needed,
    threshold,
)

_GRID = [Fraction(step, 200) for step in range(2, 181)]  # 1 % to 90 %
_CURVES: tuple[tuple[str, str, Callable[[Draw, int], Fraction | None], float], ...] = (
    ("the article", "#57606a", article_stake, article_threshold()),
    ("corrected, three at once", "#0969da", corrected_penalty, corrected_threshold()),
    ("two, then one (RedundantTasks)", "#8250df", penalty_needed, threshold()),
)


def write_plot(path: Path, found: Deterrence) -> None:
    """Draw the three bounds and the network's own penalty; the suffix of `path` is the format.

    ValueError for a format that matplotlib does not write.
    """
    figure, axis = plt.subplots(figsize=(8, 5))
    shares = [float(share) for share in _GRID]
    for name, colour, bound, limit_share in _CURVES:
        needed = [float(bound(limit(share), 1) or 0) for share in _GRID]
        axis.plot(shares, needed, color=colour, label=name)
        axis.axvline(limit_share, color=colour, linestyle=":", linewidth=1)
        axis.annotate(
            f"honest nodes\nlose from {limit_share:.3f}"
            if limit_share == _CURVES[-1][3]
            else f"{limit_share:.3f}",
            (limit_share, 0.012),
            rotation=90,
            fontsize=7,
            color=colour,
            ha="right",
            va="bottom",
        )
    own = float(found.parameters.mismatch / found.parameters.fee)
    axis.axhline(own, color="#1a7f37", linestyle="--", label=f"today's penalty, {own:,.3g} fees")
    axis.axvline(
        found.honest_share,
        color="#1a7f37",
        linestyle=":",
        linewidth=1,
        label=f"honest nodes rest on appeals beyond {found.honest_share:.1%}",
    )
    axis.plot(found.fake_share, own, "o", color="#1a7f37")
    axis.annotate(
        f"deters up to {found.fake_share:.1%}",
        (found.fake_share, own),
        textcoords="offset points",
        xytext=(-6, 6),
        ha="right",
        fontsize=8,
        color="#1a7f37",
    )
    axis.set(
        title="What a fake must cost (endless pool, nobody appeals)",
        xlabel="attacker's share of the nodes",
        ylabel="penalty / fee",
        yscale="log",
        xlim=(0, 0.92),
        ylim=(0.01, 1000),
    )
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, loc="upper left")
    figure.tight_layout()
    try:
        figure.savefig(path)
    finally:
        plt.close(figure)
