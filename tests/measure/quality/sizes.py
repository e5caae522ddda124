# SPDX-License-Identifier: Apache-2.0
"""How far the swarm ends behind central training at three model sizes, and the law through them.

The anchors' network at widths 64, 128 and 208, one seed, rates as the study's rows have them: they
were tuned at width 128 on 819,200 tokens, so the other widths are untuned. Twice: with the same
tokens for each (409,600), and with tokens in proportion to the parameters. The gap of a row is its
loss over that of the best central row, less one. Fitted is log gap = a + b log parameters, by least
squares. With three sizes one degree of freedom is left. So the interval that is printed at a
billion parameters is one standard error of a prediction: by Student's t it holds half of the cases,
and one that holds 95 % is 12.7 times as wide, which says nothing.

    python -m tests.measure.quality.sizes               # run what docs/quality.json lacks, print
    python -m tests.measure.quality.sizes --law --per-parameter 4   # only print, of what it has
    python -m tests.measure.quality.sizes --per-parameter 4 --device cuda   # tokens in proportion
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from tests.measure.quality.methods import METHODS, MUON_X3
from tests.measure.quality.record import Key, Records, kept_or_made, line, say, setting_of
from tests.measure.quality.task import TOKENS_A_STEP, Task
from tests.measure.quality.trainer import Trainer

SECTION = "sizes"  # of docs/quality.json
WIDTHS = (64, 128, 208)
CENTRAL = ("muon-tuned", "muon-x3", "adamw-tuned")
ROWS = (*CENTRAL, "sparse-muon", "cells-muon", "cells-muon-long", "cells-muon-quarter")
_METHODS = {
    **METHODS,
    "muon-x3": MUON_X3,
    # What a job of 600 steps was given (`job.py`), where `cells-muon` was tuned on 200.
    "cells-muon-long": replace(
        METHODS["cells-muon"],
        outer_lr=6.0,
        inner=("muon", {"lr_ratio": 5.0, "momentum": 0.9}),
    ),
}
STEPS, SEED = 100, 0
PER_PARAMETER = 4  # tokens, where they are in proportion
PLANNED = 1_000_000_000  # parameters of a run that somebody may plan


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


@dataclass(frozen=True)
class Law:
    """log gap = `start` + `slope` log parameters, through so many points.

    `error`: of one point's log gap. `middle`, `spread`: mean of the points' log parameters, and
    the sum of their squared distances from it.
    """

    start: float
    slope: float
    error: float
    count: int
    middle: float
    spread: float

    def gap(self, size: int) -> float:
        """What it says of a run of so many parameters."""
        return math.exp(self.start + self.slope * math.log(size))

    def factor(self, size: int) -> float:
        """How far off such a run may be by one standard error of a prediction, both ways. It holds
        the error of the line there, and that of one point."""
        away = (math.log(size) - self.middle) ** 2 / self.spread
        return math.exp(self.error * math.sqrt(1 + 1 / self.count + away))


def law(gaps: Mapping[int, float]) -> Law:
    """The law through gaps by parameters, by least squares; at least 3 gaps, each above 0."""
    points = [(math.log(size), math.log(gap)) for size, gap in gaps.items()]
    count = len(points)
    mean_x, mean_y = (sum(values) / count for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    start = mean_y - slope * mean_x
    left = sum((y - start - slope * x) ** 2 for x, y in points)
    return Law(start, slope, math.sqrt(left / (count - 2)), count, mean_x, spread)


def steps_of(per_parameter: int) -> dict[int, int]:
    """Steps of each width: whole exchanges, of so many tokens a parameter; with 0 equal ones."""
    if not per_parameter:
        return dict.fromkeys(WIDTHS, STEPS)
    every = METHODS["cells-muon"].every
    tokens = {width: per_parameter * Task(SEED, width=width).parameters for width in WIDTHS}
    return {width: every * round(of / TOKENS_A_STEP / every) for width, of in tokens.items()}


def said(records: Records, steps: Mapping[int, int]) -> list[str]:
    """A line for each method that is not central: its gaps to the best central row, and their
    law."""
    lines = []
    sizes = {width: Task(SEED, width=width).parameters for width in WIDTHS}
    ends = {
        (name, width): run.val["1.0"]
        for name in ROWS
        for width in WIDTHS
        if (run := records.find(Key(f"{name} {width}", SEED, steps[width])))
    }
    for name in ROWS[len(CENTRAL) :]:
        gaps = {}
        for width, size in sizes.items():
            best = min((ends[row, width] for row in CENTRAL if (row, width) in ends), default=None)
            if (name, width) in ends and best is not None:
                gaps[size] = ends[name, width] / best - 1
        shown = ", ".join(f"{100 * gap:.1f} % at {size:,}" for size, gap in gaps.items())
        if len(gaps) == len(sizes) and min(gaps.values()) > 0:
            found = law(gaps)
            gap, factor = found.gap(PLANNED), found.factor(PLANNED)
            shown += (
                f"; gap = {found.gap(1_000_000):.3f} x (parameters / 1e6)^{found.slope:+.2f}, "
                f"one point within a factor of {math.exp(found.error):.2f}; at {PLANNED:.0e} "
                f"{100 * gap:.1f} %, by one standard error {100 * gap / factor:.1f} to "
                f"{100 * gap * factor:.1f} %"
            )
        lines.append(f"{name}: {shown}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", action="append", choices=ROWS, help="default: all")
    parser.add_argument("--width", action="append", type=int, choices=WIDTHS, help="default: all")
    parser.add_argument("--per-parameter", type=int, default=0, help="tokens; 0: equal ones")
    parser.add_argument("--law", action="store_true", help="run nothing, print what is recorded")
    parser.add_argument("--device", default="cpu", help="of the network")
    given = parser.parse_args()
    torch.set_num_threads(1)
    steps = steps_of(given.per_parameter)
    for width in () if given.law else given.width or WIDTHS:
        task = Task(SEED, width=width, device=given.device)
        for name in given.row or ROWS:
            key = Key(f"{name} {width}", SEED, steps[width])
            made = Trainer(task, _METHODS[name], steps[width], say).go
            run = kept_or_made(key, task, made, opened)
            print(line(key, run), flush=True)
    print("\n".join(said(opened(), steps)))


if __name__ == "__main__":
    main()
