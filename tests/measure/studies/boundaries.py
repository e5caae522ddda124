# SPDX-License-Identifier: Apache-2.0
"""What a boundary between pipeline stages costs in learning, beside `none` and `cut`.

The runs of `scripts/_figures/boundary_runs.py`, over several seeds. The share is
(cut - x) / (cut - none): how much of what depth is worth the boundary keeps. At the default size
`none` alone differs by 0.12 nats between three seeds, nearly half of what depth is worth there, so
the share of one seed decides nothing. Prints a table and asserts nothing.

    python -m tests.measure.studies.boundaries  # about six minutes of one core
    python -m tests.measure.studies.boundaries --boundary residual:width=32,code=int8 --seeds 3
    python -m tests.measure.studies.boundaries --inner muon --inner-option lr_ratio=3
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import torch
import yaml
from rich.console import Console
from rich.table import Table

from agents.mechanisms.boundary import wire_ratio
from scripts._figures.boundary_runs import Run, Setup, build, train
from scripts._figures.text import BATCH, SEQ, Text
from tests.measure.rows import text_table

CONTROLS = ("none", "cut")


def at_32x(d_model: int) -> list[str]:
    """Every kind at d_model / 8 bytes a token; in int8 and int4 that is more channels."""
    wide = d_model // 16
    return [
        f"bottleneck:width={wide}",
        f"residual:width={wide},anchor=false",
        f"subspace:width={wide}",
        f"residual:width={wide}",
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
            f"{boundary.bytes_per_token(options.d_model):g}",
            f"{wire_ratio(boundary, options.d_model, 256, BATCH, SEQ):.1f}",
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
    parser.add_argument("--tokens", type=int, default=262_144)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--d-ff", type=int, help="default: twice the channels")
    parser.add_argument("--layers", default="1,1,1,1", help="blocks of each stage")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--inner", default="adamw", help="inner optimizer, as a spec names it")
    parser.add_argument("--inner-option", action="append", default=[], help="name=value; repeats")
    options: Any = parser.parse_args()
    options.layers = tuple(int(part) for part in options.layers.split(","))
    torch.set_num_threads(1)
    pairs = (one.partition("=") for one in options.inner_option)
    options.inner_options = {name: yaml.safe_load(value) for name, _, value in pairs}
    setup = Setup(
        *(options.tokens, options.d_model, options.d_ff, options.layers, options.lr),
        inner=options.inner,
        inner_options=options.inner_options,
    )
    text, console = Text(), Console(width=150)
    runs: dict[str, list[Run]] = {}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name in dict.fromkeys((*CONTROLS, *(options.boundary or at_32x(options.d_model)))):
            run = train(setup, build(name), seed, text)
            runs.setdefault(name, []).append(run)
            console.print(f"[dim]seed {seed}, {name}: {run.loss:.4f} ({run.seconds:.0f} s)[/dim]")
    console.print(table(options, runs))


if __name__ == "__main__":
    main()
