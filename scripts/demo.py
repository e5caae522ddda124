# SPDX-License-Identifier: Apache-2.0
"""`make demo`, `ape run demo`: a whole network on this machine trains, punishes and pays."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scripts._contracts import ROOT


@click.command()
@click.option("--trainers", default=8, show_default=True, help="Trainers, three of them cheats.")
@click.option("--rounds", default=10, show_default=True, help="Rounds of the job.")
@click.option(
    "--data",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .txt or .jsonl file to train on (repeatable). Default: Python's standard library.",
)
@click.option("--time-limit", default=900.0, show_default=True, help="Give up after this long, s.")
@click.option(
    "--report",
    default=ROOT / "report",
    show_default="report/",
    type=click.Path(path_type=Path),
    help="Folder for the report; what it holds is replaced.",
)
def cli(
    trainers: int, rounds: int, data: tuple[Path, ...], time_limit: float, report: Path
) -> None:
    """Run a whole network on this machine and judge it.

    A chain, seven contracts, five committee members, three verifiers, two aggregators and the
    trainers, each its own process. The exit code says whether all that must hold held.
    """
    # `ape run` imports every command to list them; torch is only needed by this one.
    from scripts._demo import CHEATS, Options, run

    if trainers < len(CHEATS) + 2:
        raise click.BadParameter("at least 5: three cheats and two honest trainers")
    if rounds < 1:
        raise click.BadParameter("at least 1 round")
    sys.exit(run(Options(trainers, rounds, data, time_limit, report)))


if __name__ == "__main__":
    cli()
