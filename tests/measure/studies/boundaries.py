# SPDX-License-Identifier: Apache-2.0
"""What a boundary between pipeline stages costs in learning, beside `none` and `cut`.

The runs of `scripts/_figures/boundary_runs.py`, over several seeds. The share is
(cut - x) / (cut - none): how much of what depth is worth the boundary keeps. At the default size
`none` alone differs by 0.12 nats between three seeds, nearly half of what depth is worth there, so
the share of one seed decides nothing. Prints a table and asserts nothing.

    python -m tests.measure.studies.boundaries  # about six minutes of one core
    python -m tests.measure.studies.boundaries --boundary residual:width=32,code=int8 --seeds 3
    python -m tests.measure.studies.boundaries --inner muon --inner-option lr_ratio=3
    python -m tests.measure.studies.boundaries --record --seeds 3  # what docs/boundaries.json lacks
    python -m tests.measure.studies.boundaries --page  # docs/pipeline.md's table and curve from it
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from agents.mechanisms.boundary import bytes_per_token, wire_ratio
from scripts._figures.boundary_runs import Run, Setup, build, train_all
from scripts._figures.text import BATCH, SEQ
from tests.measure.rows import text_table
from tests.measure.studies.boundary_record import (
    CONTROLS,
    SETUPS,
    VOCABULARY,
    Records,
    setup_of,
)

SMALL = "code=fp6,gradient=fp4"
"""A gradient's 4 bits and its token's power of two are shorter than codes of four channels."""


def recorded(d_model: int) -> list[str]:
    """What is recorded where no boundary is named: each kind at 32x and 128x, codes alone, the rest
    of the curve of `residual`, and the two controls of those with context."""
    bits = {
        "bottleneck:width={}": 16,
        "subspace:width={}": 16,
        f"subspace:width={{}},{SMALL}": 6,
        "residual:width={}": 16,
        f"residual:width={{}},{SMALL}": 6,
        "residual:width={},code=fp8,context=3": 8,
    }
    ends = [name.format(32 * d_model // r // b) for r in (32, 128) for name, b in bits.items()]
    curve = [
        name.format(32 * d_model // r // b)
        for name, b in bits.items()
        if name.startswith("residual")
        for r in (4, 8, 16, 64)
        if 32 * d_model // r // b <= d_model
    ]
    return [*ends, "cut:context=3", f"residual:width={d_model},context=3", *curve]


def at_32x(d_model: int) -> list[str]:
    """Every kind at d_model / 8 bytes a token; in int8 and int4 that is more channels."""
    wide = d_model // 16
    return [
        f"bottleneck:width={wide}",
        f"residual:width={wide},anchor=false",
        f"subspace:width={wide}",
        f"residual:width={wide}",
        f"residual:width={2 * wide},code=fp8",
        f"residual:width={2 * wide},code=fp8,context=3",
        f"residual:width={2 * wide - 2},code=int8",
        f"residual:width={4 * wide - 4},code=int4",
    ]


def table(options: argparse.Namespace, runs: dict[str, list[Run]]) -> Table:
    """One line a boundary: means over seeds, the share of each seed's pair of controls beside."""
    shown = text_table(
        f"{options.tokens:,} tokens, d {options.d_model}, layers {options.layers}, "
        f"{options.seeds} seeds from {options.first_seed}, {options.inner} {options.lr:g} "
        f"{dict(options.inner_options)}",
        ("boundary", "bytes/token", "ratio", "parameters", "nats/byte", "over none", "share",
         "share by seed", "CPU s"),
    )  # fmt: skip
    none, cut = ([run.loss for run in runs[name]] for name in CONTROLS)
    for name, found in runs.items():
        losses, boundary = [run.loss for run in found], build(name)
        mean, base = statistics.mean(losses), statistics.mean(none)
        shown.add_row(
            name,
            f"{bytes_per_token(boundary, options.d_model):g}",
            f"{wire_ratio(boundary, options.d_model, VOCABULARY, options.batch, SEQ):.1f}",
            f"{found[0].parameters:,}",
            f"{mean:.4f}",
            f"{mean / base - 1:+.2%}",
            # Of the means: a ratio of one seed's small differences is noisier.
            share(mean, base, statistics.mean(cut)),
            " ".join(map(share, losses, none, cut)),
            f"{statistics.mean(run.seconds for run in found):.0f}",
        )
    return shown


def share(loss: float, none: float, cut: float) -> str:
    """What of the worth of depth is kept; a dash where depth was worth nothing."""
    return f"{(cut - loss) / (cut - none):.0%}" if none < cut else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--boundary", action="append", help="name:option=value,...; repeats")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="runs at once, each on one core")
    parser.add_argument("--record", action="store_true", help="the record's setup; write each run")
    parser.add_argument("--page", action="store_true", help="only write the page from the record")
    parser.add_argument("--tokens", type=int, default=262_144)
    parser.add_argument("--batch", type=int, default=BATCH, help="sequences that make a step")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--d-ff", type=int, help="default: twice the channels")
    parser.add_argument("--layers", default="1,1,1,1", help="blocks of each stage")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument(
        "--inner",
        help="inner optimizer, as a spec names it (adamw); with --record, one of the recorded "
        f"setups ({', '.join(SETUPS)}), and all of them by default",
    )
    parser.add_argument("--inner-option", action="append", default=[], help="name=value; repeats")
    options: Any = parser.parse_args()
    options.layers = tuple(int(part) for part in options.layers.split(","))
    if options.page:
        for inner in SETUPS:
            Records(inner=inner).write_page()
        return
    if options.record:
        for inner in [options.inner] if options.inner else SETUPS:
            record(options, inner)
        return
    options.inner = options.inner or "adamw"
    pairs = (one.partition("=") for one in options.inner_option)
    options.inner_options = {name: yaml.safe_load(value) for name, _, value in pairs}
    setup = Setup(
        *(options.tokens, options.d_model, options.d_ff, options.layers, options.lr),
        inner=options.inner,
        inner_options=options.inner_options,
        batch=options.batch,
    )
    wanted = _wanted(options, options.boundary or at_32x(options.d_model))
    found: dict[tuple[str, int], Run] = {}
    for name, seed, run in train_all(lambda _: setup, wanted, options.workers):
        found[name, seed] = run
        _say(name, seed, run)
    runs: dict[str, list[Run]] = {}
    for name, seed in wanted:
        runs.setdefault(name, []).append(found[name, seed])
    Console(width=150).print(table(options, runs))


def record(options: argparse.Namespace, inner: str) -> None:
    """Run what the record of an inner optimizer lacks, and write each run as it ends."""
    records = Records(inner=inner)
    wanted = [
        (name, seed)
        for name, seed in _wanted(options, options.boundary or recorded(records.setup.d_model))
        if seed not in records.of(name)
    ]
    for name, seed, run in train_all(partial(setup_of, inner=inner), wanted, options.workers):
        records.add(name, seed, run)
        _say(name, seed, run)


def _wanted(options: argparse.Namespace, boundaries: Sequence[str]) -> list[tuple[str, int]]:
    names = dict.fromkeys((*CONTROLS, *boundaries))
    last = options.first_seed + options.seeds
    return [(name, seed) for seed in range(options.first_seed, last) for name in names]


def _say(name: str, seed: int, run: Run) -> None:
    print(f"seed {seed}, {name}: {run.loss:.4f} ({run.seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
