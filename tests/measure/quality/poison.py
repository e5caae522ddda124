# SPDX-License-Identifier: Apache-2.0
"""Two poisoners of eight, beside the same run without them, by merge rule.

The rows are `sparse-muon`'s, and its tokens. Two of the eight peers send their update reversed. The
same run without them has the six others, on the same batches; a second control has eight honest
peers, who read a third more text. All rows of a rule have the same options and outer rate; that of
`multi_krum` is lower, as it averages three of six and four of eight.

    python -m tests.measure.quality.poison              # run what docs/quality.json lacks, print
    python -m tests.measure.quality.poison --row "norm_clip six"
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tests.measure.quality.methods import METHODS
from tests.measure.quality.record import Key, Records, kept_or_made, line, say, setting_of
from tests.measure.quality.task import PEERS, Task
from tests.measure.quality.trainer import Method, Trainer

SECTION = "poison"  # of docs/quality.json
STEPS, LIARS = 200, 2
GOAL = 0.02
_CONTROLS = {"six": PEERS - LIARS, "eight": PEERS}
_FRACTION = {"byzantine_fraction": 0.25}
RULES: Mapping[str, Method] = {
    "norm_clip": replace(METHODS["sparse-muon"], merge=("norm_clip", _FRACTION)),
    "multi_krum": replace(METHODS["sparse-muon"], merge=("multi_krum", _FRACTION), outer_lr=2.0),
}


def methods() -> dict[str, Method]:
    """Of each rule: eight honest peers, six of them, and these six with two that poison."""
    found = {}
    for rule, method in RULES.items():
        found[f"{rule} eight"] = method
        found[f"{rule} six"] = replace(method, poisoners=LIARS, poison="nothing")
        found[f"{rule} poisoned"] = replace(method, poisoners=LIARS, poison="sign_flip")
    return found


def opened() -> Records:
    """The section as it is on disk now."""
    settings: dict[str, Any] = {name: setting_of(method) for name, method in methods().items()}
    return Records(section=SECTION, settings=settings)


def said(records: Records, seed: int) -> list[str]:
    """A line a rule and control: how far the poisoned run ends above it."""
    lines = []
    for rule in RULES:
        ends = {}
        for row in ("poisoned", *_CONTROLS):
            run = records.find(Key(f"{rule} {row}", seed, STEPS))
            if run is not None:
                ends[row] = run.val["1.0"]
        poisoned = ends.pop("poisoned", None)
        if poisoned is not None:
            lines += [
                f"{rule}, seed {seed}: {100 * (poisoned / end - 1):+.2f} % beside "
                f"{_CONTROLS[row]} honest peers (goal: at most {100 * GOAL:g} %)"
                for row, end in ends.items()
            ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", action="append", choices=list(methods()), help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    task = Task(given.seed)
    for name in given.row or methods():
        key = Key(name, given.seed, STEPS)
        made = Trainer(task, methods()[name], STEPS, say).go
        print(line(key, kept_or_made(key, task, made, opened)), flush=True)
    print("\n".join(said(opened(), given.seed)))


if __name__ == "__main__":
    main()
