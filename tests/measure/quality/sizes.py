# SPDX-License-Identifier: Apache-2.0
"""How far the swarm ends behind central training at three model sizes, and the law through them.

The anchors' network at widths 64, 128 and 208, the same tokens for each (409,600: a fifth of what
the largest has parameters), one seed, rates as the study's rows have them: they were tuned at width
128 on twice the tokens, so the other widths are untuned. The gap of a row is its loss over central
Muon's, less one. Fitted is log gap = a + b log parameters, by least squares; with three sizes one
degree of freedom is left, and the error stated is that of one point.

    python -m tests.measure.quality.sizes               # run what docs/quality.json lacks, print
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tests.measure.quality.methods import METHODS
from tests.measure.quality.record import Key, Records, kept_or_made, line, say, setting_of
from tests.measure.quality.task import Task
from tests.measure.quality.trainer import Trainer

SECTION = "sizes"  # of docs/quality.json
WIDTHS = (64, 128, 208)
REFERENCE = "muon-tuned"
ROWS = (REFERENCE, "adamw-tuned", "sparse-muon", "cells-muon", "cells-muon-quarter")
STEPS, SEED = 100, 0
_QUARTER = METHODS["cells-muon-quarter"]
_METHODS = {
    **{name: METHODS[name] for name in ROWS},
    # As it was when its sizes were run: a longer memory, and the rate's end of all other rows.
    "cells-muon-quarter": replace(
        _QUARTER, low=0.1, codec=(_QUARTER.codec[0], {**_QUARTER.codec[1], "decay": 0.6})
    ),
}


def settings() -> dict[str, Any]:
    """A row for each method and width."""
    return {
        f"{name} {width}": {**setting_of(_METHODS[name]), "width": width}
        for name in ROWS
        for width in WIDTHS
    }


def opened() -> Records:
    """The section as it is on disk now."""
    return Records(section=SECTION, settings=settings())


def law(gaps: Mapping[int, float]) -> tuple[float, float, float]:
    """(a, b, standard error of one log gap) of log gap = a + b log parameters; at least 3 gaps,
    each above 0."""
    points = [(math.log(size), math.log(gap)) for size, gap in gaps.items()]
    count = len(points)
    mean_x, mean_y = (sum(values) / count for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    start = mean_y - slope * mean_x
    left = sum((y - start - slope * x) ** 2 for x, y in points)
    return start, slope, math.sqrt(left / (count - 2))


def said(records: Records) -> list[str]:
    """A line for each method but the reference: its gaps and their law."""
    lines = []
    sizes = {width: Task(SEED, width=width).parameters for width in WIDTHS}
    for name in ROWS[1:]:
        gaps = {}
        for width, size in sizes.items():
            own, best = (
                records.find(Key(f"{row} {width}", SEED, STEPS)) for row in (name, REFERENCE)
            )
            if own is not None and best is not None:
                gaps[size] = own.val["1.0"] / best.val["1.0"] - 1
        shown = ", ".join(f"{100 * gap:.1f} % at {size:,}" for size, gap in gaps.items())
        if len(gaps) == len(sizes) and min(gaps.values()) > 0:
            start, slope, error = law(gaps)
            shown += (
                f"; gap = {math.exp(start + slope * math.log(1e6)):.3f} x (parameters / 1e6)"
                f"^{slope:+.2f}, within a factor of {math.exp(error):.2f}"
            )
        lines.append(f"{name}: {shown}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", action="append", choices=ROWS, help="default: all")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for width in WIDTHS:
        task = Task(SEED, width=width)
        for name in given.row or ROWS:
            key = Key(f"{name} {width}", SEED, STEPS)
            made = Trainer(task, _METHODS[name], STEPS, say).go
            run = kept_or_made(key, task, made, opened)
            print(line(key, run), flush=True)
    print("\n".join(said(opened())))


if __name__ == "__main__":
    main()
