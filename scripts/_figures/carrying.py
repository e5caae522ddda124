# SPDX-License-Identifier: Apache-2.0
"""Appendix A.1: how many scores a miner carries, by decay time and synchronisation."""

from __future__ import annotations

from matplotlib.axes import Axes

from agents.pipeline.credit import scores_carried
from scripts._figures.figure import COLOURS, Figure
from scripts._figures.pipeline_rules import carried_counted

HOURS = (1, 2, 5, 10, 20)
MINUTES = (10, 20, 30, 60, 120)
_VALIDATORS, _MINERS = 10, 250


def figure_a1() -> Figure:
    """gamma / T, and what the scores count."""
    rows: list[tuple[str | int | float, ...]] = []
    for hours in HOURS:
        for minutes in MINUTES:
            epochs, checks = scores_carried(60 * hours, minutes, _VALIDATORS, _MINERS)
            counted = carried_counted(60 * hours, minutes)
            rows.append((hours, minutes, float(epochs), round(float(counted), 4), float(checks)))
    worst = max(abs(float(row[3]) / float(row[2]) - 1) for row in rows)

    def draw(axis: Axes) -> None:
        for place, hours in enumerate(HOURS):
            own = [row for row in rows if row[0] == hours]
            colour = COLOURS[place]
            axis.plot(MINUTES, [float(r[2]) for r in own], color=colour, label=f"gamma = {hours} h")
            axis.plot(MINUTES, [float(r[3]) for r in own], "o", color=colour, markersize=4)
        axis.set(
            xlabel="minutes between full synchronisations (T)",
            ylabel="epochs that still count (line: gamma / T; dots: counted)",
            xscale="log",
            yscale="log",
        )
        axis.set_xticks(MINUTES, [str(minutes) for minutes in MINUTES])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)

    return Figure(
        name="A1",
        title="Scores that a miner carries, by gamma and time between synchronisations",
        measured=(
            "A miner does one validated pass in each epoch. `scores` counts what is younger than "
            "gamma; the count is averaged over all minutes of one interval."
        ),
        formula=(
            "gamma / T epochs, and gamma / T x validators / miners of them checked (A.1). Column "
            "`checked, formula` of the numbers has the latter."
        ),
        assumed=(
            f"The primer gives neither validators nor miners; {_VALIDATORS} and {_MINERS} are "
            "taken. Its figure 9 is a simulation whose settings are not given. It says that "
            "several synchronisations an hour are needed for gamma below 10 h."
        ),
        seeds="none: nothing is drawn",
        found=f"The count differs from gamma / T by at most {worst:.2%}, in all {len(rows)} cells.",
        columns=("gamma, h", "T, min", "carried, formula", "carried, counted", "checked, formula"),
        rows=rows,
        draw=draw,
    )
