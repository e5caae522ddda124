# SPDX-License-Identifier: Apache-2.0
"""`make demo-redundant`: strangers run deterministic tasks, the chain compares, cheats pay."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from scripts._net.compiled import ROOT
from scripts._shared.node_options import node_of, node_options

FEWEST_EXECUTORS = 5  # two cheats, and three who can outvote them


@click.command()
@click.option(
    "--executors",
    type=click.IntRange(FEWEST_EXECUTORS),
    default=9,
    show_default=True,
    help="Nodes that run tasks, the two cheats included.",
)
@click.option(
    "--tasks", type=click.IntRange(1), default=30, show_default=True, help="A multiple of six."
)
@click.option(
    "--data",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .txt or .jsonl file to train on (repeatable). Default: Python's standard library.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Give up after this long, s; longer where blocks are slow.",
)
@click.option(
    "--report",
    default=ROOT / "report-redundant",
    show_default="report-redundant/",
    type=click.Path(path_type=Path),
    help="Folder for the report; what it holds is replaced.",
)
@node_options
def cli(
    executors: int,
    tasks: int,
    data: tuple[Path, ...],
    time_limit: float,
    report: Path,
    rpc: str | None,
    keystore: str | None,
) -> None:
    """Run redundant tasks on a network on this machine and judge it.

    A chain, the contracts, the executors and three verifiers, each its own process. A sponsor has
    two models trained, measured and tried, all by tasks. One cheat invents results; the other does
    too, but shows them only where it can't be contradicted. The exit code says whether all that
    must hold held.
    """
    # `ape run` imports every command to list them; torch is only needed by this one.
    from scripts._demo.task_plan import KINDS, RATES
    from scripts._demo.tasks import Options, run

    if tasks < 1 or tasks % (KINDS * len(RATES)):
        raise click.BadParameter(f"a multiple of {KINDS * len(RATES)}", param_hint="--tasks")
    chain = partial(node_of, rpc, keystore)
    sys.exit(run(Options(executors, tasks, data, time_limit, report, chain)))


if __name__ == "__main__":
    cli()
