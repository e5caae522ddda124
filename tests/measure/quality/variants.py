# SPDX-License-Identifier: Apache-2.0
"""One thing of a method changed at a time: a section of `docs/quality.json` for each question.

    state    what a round's inner optimizer starts with
    clip     with and without clipping, of a batch's gradient and of the peers' updates
    absence  each peer away every fourth round, with its codec's memory kept and lost
    bytes    each codec at a quarter and at some sixteenth of the study's bytes

The first row of each is `sparse-muon` as the study has it. It is run once for a seed, and stands in
every section.

    python -m tests.measure.quality.variants --section state --seed 0   # run what is not recorded
    python -m tests.measure.quality.variants --section clip --row "no clip outside"
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from tests.measure.quality.methods import METHODS
from tests.measure.quality.record import Key, Records, kept_or_made, line, say, setting_of
from tests.measure.quality.task import Task
from tests.measure.quality.trainer import Method, Run, Trainer

STEPS = 200
_PLAIN = METHODS["sparse-muon"]
_OFF = 1e4  # the largest bound that a spec takes


def _fewer(method: Method, **options: Any) -> Method:
    """The method with other options of its codec. Memory, outer rate and end of the rate are those
    of `cells-muon-quarter`, which were chosen at a quarter of the bytes."""
    few, (name, plain) = METHODS["cells-muon-quarter"], method.codec
    codec = (name, {**plain, "decay": few.codec[1]["decay"], **options})
    return replace(method, outer_lr=few.outer_lr, low=few.low, codec=codec)


_DEMO, _CELLS = METHODS["demo-muon"], METHODS["cells-muon"]
_BYTES: dict[str, tuple[Method, dict[str, Any]]] = {
    "sparse, 1/4": (_PLAIN, {"per_chunk": 6}),
    "sparse, 1/14": (_PLAIN, {"per_chunk": 1, "value_bits": 1}),  # less it can't send
    "cells, 1/16": (_CELLS, {"cell": 1024, "share": 0.45, "fine_share": 0.03}),
    "demo, 1/4": (_DEMO, {"per_chunk": 15}),
    "demo, 1/18": (_DEMO, {"per_chunk": 2, "value_bits": 1}),
}

SECTIONS: Mapping[str, Mapping[str, Method]] = {
    "state": {
        "kept": _PLAIN,
        "zero": replace(_PLAIN, keep=False),
        "merged": replace(_PLAIN, keep=False, follows=True),
        "both": replace(_PLAIN, follows=True),
    },
    "clip": {
        "as it is": _PLAIN,
        "no clip outside": replace(_PLAIN, merge=("mean", {})),
        "inside at 0.3": replace(_PLAIN, clip=0.3),
        "no clip inside": replace(_PLAIN, clip=_OFF),
    },
    "absence": {
        "never away": _PLAIN,
        "memory kept": replace(_PLAIN, absent_every=4),
        "memory lost": replace(_PLAIN, absent_every=4, forgets=True),
    },
    "bytes": {
        "sparse": _PLAIN,
        **{name: _fewer(method, **options) for name, (method, options) in _BYTES.items()},
    },
}


def opened(section: str) -> Records:
    """The section as it is on disk now."""
    settings: dict[str, Any] = {
        name: setting_of(method) for name, method in SECTIONS[section].items()
    }
    return Records(section=section, settings=settings)


def known(method: Method, seed: int) -> Run | None:
    """The run of the same setting and seed that one of these sections has."""
    for section, methods in SECTIONS.items():
        for name, other in methods.items():
            if other == method and (run := opened(section).find(Key(name, seed, STEPS))):
                return run
    return None


def make(task: Task, method: Method) -> Run:
    """The run, from the record or by training."""
    return known(method, task.seed) or Trainer(task, method, STEPS, say).go()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--section", choices=SECTIONS, required=True)
    parser.add_argument("--row", action="append", help="default: all of the section")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    methods = SECTIONS[given.section]
    if unknown := set(given.row or ()) - methods.keys():
        parser.error(f"{given.section} has no row {', '.join(sorted(unknown))}")
    task = Task(given.seed)
    for name in given.row or methods:
        key = Key(name, given.seed, STEPS)
        made = partial(make, task, methods[name])
        run = kept_or_made(key, task, made, partial(opened, given.section))
        print(line(key, run), flush=True)


if __name__ == "__main__":
    main()
