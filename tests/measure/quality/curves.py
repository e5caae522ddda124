# SPDX-License-Identifier: Apache-2.0
"""Curves of the recorded runs: loss against tokens, against bytes and against time.

A run has its loss at each quarter of its tokens. It uploads as much in every exchange and takes as
long for every step, so bytes and CPU seconds at a quarter are the quarter of what is recorded. All
eight peers ran on one thread, one after the other: a peer of its own would take an eighth. The time
is the CPU's, since the machine was shared. Runs were recorded on several machines, so the figure of
the time has only those of one: the one that made most of a section's runs of a length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from scripts._figures.figure import Figure
from scripts._figures.page import page
from tests.measure.quality.record import Records
from tests.measure.quality.task import TOKENS_A_STEP

Point = tuple[str, int, int, float, float, float]
"""Method, seed, tokens, megabytes of one peer, CPU seconds of all, loss."""
COLUMNS = ("method", "seed", "tokens", "MB up per peer", "CPU seconds", "nats a byte")
_WHICH = {False: "Each recorded run", True: "Each run that one machine recorded"}
_COMMAND = 'make bench ARGS="--only quality --full"'


@dataclass(frozen=True)
class Kind:
    """What the horizontal axis of a figure is: a column of the points, with its name and scale."""

    name: str
    title: str
    column: int
    axis: str
    scale: str = "linear"
    one_machine: bool = False


KINDS = (
    Kind("tokens", "Loss against tokens", 2, "tokens"),
    Kind("bytes", "Loss against what a peer uploads", 3, "MB up per peer", "log"),
    Kind(
        "time",
        "Loss against CPU time",
        4,
        "CPU seconds of all eight peers, one thread",
        one_machine=True,
    ),
)


def points(records: Records, steps: int) -> list[Point]:
    """Every quarter of every recorded run of so many steps whose setting is still the same."""
    return [
        (
            name,
            seed,
            round(float(part) * steps * TOKENS_A_STEP),
            float(part) * run["uploaded"] / 1e6,
            float(part) * run["cpu_s"],
            loss,
        )
        for name in records.settings
        for seed, run in records.of(name, steps).items()
        for part, loss in run["val"].items()
    ]


def of_one_machine(records: Records, steps: int, rows: Sequence[Point]) -> list[Point]:
    """Those of the machine that made most of the runs; of several with as many the first."""
    machines = records.machines(steps)
    ((most, _),) = Counter(machines.values()).most_common(1)
    return [row for row in rows if machines[row[0], row[1]] == most]


def figure(section: str, kind: Kind, rows: Sequence[Point]) -> Figure:
    """One figure of a section's points: a line a method and seed."""
    tokens = max(row[2] for row in rows)

    def draw(axis: Axes) -> None:
        names: list[str] = []
        for name, seed in dict.fromkeys((row[0], row[1]) for row in rows):
            first = name not in names
            names += [name] if first else []
            place = names.index(name)
            of = [row for row in rows if row[:2] == (name, seed)]
            axis.plot(
                [row[kind.column] for row in of],
                [row[5] for row in of],
                color=f"C{place % 10}",
                linestyle="-" if place < 10 else "--",
                marker="o",
                markersize=3,
                label=name if first else None,
            )
        axis.set(xlabel=kind.axis, ylabel="nats a byte", xscale=kind.scale)
        axis.grid(alpha=0.25)
        axis.legend(fontsize=7)

    ends = {row[0]: row[5] for row in rows if row[2] == tokens}
    return Figure(
        name=f"quality-{section}-{kind.name}-{tokens}",
        title=f"{kind.title}, {tokens:,} tokens",
        measured=f"{_WHICH[kind.one_machine]} of docs/quality.json at a quarter, half, three "
        "quarters and the end of its tokens, on text that was never trained on. A line for each "
        "seed.",
        formula="There is none: this is what was seen.",
        assumed="Bytes and CPU seconds grow evenly from the run's start to its end.",
        seeds=", ".join(str(seed) for seed in sorted({row[1] for row in rows})),
        found=", ".join(f"{name} {loss:.3f}" for name, loss in ends.items()),
        columns=COLUMNS,
        rows=rows,
        draw=draw,
        size=(9, 6),
    )


def write(folder: Path, sections: Sequence[Records]) -> Path:
    """Draw every section's runs, each length for itself; the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = []
    for records in sections:
        for steps in records.lengths():
            rows = points(records, steps)
            for kind in KINDS if rows else ():
                shown = of_one_machine(records, steps, rows) if kind.one_machine else rows
                figures.append(figure(records.section, kind, shown))
    for one in figures:
        one.write(folder)
    path = folder / "index.html"
    source = "Recorded by python -m tests.measure.quality --record, on this project's own codecs."
    path.write_text(page("Training quality", source, [(one, _COMMAND) for one in figures]))
    return path
