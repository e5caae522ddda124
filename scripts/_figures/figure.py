# SPDX-License-Identifier: Apache-2.0
"""One figure: its numbers, how they are drawn, and what a reader must know of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # the backend must be chosen first
from matplotlib.axes import Axes

from scripts._report.page.style import LIGHT

COLOURS = tuple(LIGHT[f"c{place}"] for place in range(6))
BAD, SOFT = LIGHT["bad"], LIGHT["soft"]
Cell = str | int | float


@dataclass(frozen=True)
class Figure:
    """What a figure shows.

    Attributes:
        name: as the paper has it, such as "7b"; its files are called by it.
        title: one line.
        measured: what was run and counted.
        formula: what a formula gives, or that there is none.
        assumed: values that the paper does not give, and what was taken for them.
        seeds: every seed that the numbers depend on.
        found: what came out.
        columns, rows: all numbers that are drawn.
        draw: draws them.
        size: of the drawing, in inches.
    """

    name: str
    title: str
    measured: str
    formula: str
    assumed: str
    seeds: str
    found: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    draw: Callable[[Axes], None]
    size: tuple[float, float] = (8, 5)

    @property
    def drawing(self) -> str:
        """The name of the file with the plot."""
        return f"figure-{self.name}.svg"

    @property
    def numbers(self) -> str:
        """The name of the file with the numbers."""
        return f"figure-{self.name}.csv"

    def write(self, folder: Path) -> None:
        """Write both files. The same numbers give the same bytes. OSError as the disk says."""
        with (folder / self.numbers).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows)
        with matplotlib.rc_context({"svg.hashsalt": self.name}):
            drawing, axis = plt.subplots(figsize=self.size)
            try:
                self.draw(axis)
                axis.set_title(self.title, fontsize=10)
                drawing.tight_layout()
                drawing.savefig(folder / self.drawing, metadata={"Date": None})
            finally:
                plt.close(drawing)
