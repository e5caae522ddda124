# SPDX-License-Identifier: Apache-2.0
"""Figures of papers that this project builds on, made again by the project's own functions.

ape run figures pipeline                      all figures of IOTA's primer, into figures/
ape run figures pipeline --quick              the same, small: half a minute
ape run figures pipeline --only 7b --only A1  some of them
ape run figures pipeline --only 5 --tokens 1000000 --seed 1
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scripts._shared.operator import explained

if TYPE_CHECKING:
    from scripts._figures.figure import Figure

NAMES = ("5", "7a", "7b", "8a", "8b", "A1")
_TOKENS, _QUICK_TOKENS = 262_144, 2_048
_DRAWS, _QUICK_DRAWS = 10, 2
_SOURCE = (
    "IOTA: A Technical Primer for Release (Macrocosmos, 2025). Every number here is computed by "
    "this repository. What the primer does not give is assumed, and named at each figure."
)


@click.group()
def cli() -> None:
    """Draw the figures of a paper again, by this project's own rules.

    Each figure is a plot (SVG) and its numbers (CSV). The page `index.html` beside them says for
    each what is measured, what a formula gives, what the paper leaves open and was assumed, the
    seeds, and the command. No network is needed.
    """


@cli.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("figures"),
    show_default=True,
    help="The folder for page, plots and numbers; it is made where it is not there.",
)
@click.option(
    "--only", multiple=True, type=click.Choice(NAMES), help="A figure; repeatable. Default: all."
)
@click.option("--quick", is_flag=True, help="Smaller runs: every file within a minute, no result.")
@click.option(
    "--tokens",
    type=click.IntRange(512),
    help=f"Tokens of each run of figure 5 (default: {_TOKENS:,}, with --quick {_QUICK_TOKENS:,}).",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of figure 5.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Runs of figure 5 at once, each on one core.",
)
@explained
def pipeline(
    out: Path, only: tuple[str, ...], quick: bool, tokens: int | None, seed: int, workers: int
) -> None:
    """The figures of IOTA's primer, on which `mode: pipeline` is built.

    \b
    5       loss against tokens by what crosses between stages: none, cut, residual, bottleneck
            and subspace at 32 and 128 times fewer bytes; eleven short trainings, the only slow part
    7a      which of 50 miners agree on the shard they share, where five collude
    7b      shards that keep an owner when miners fail: formula and count
    8a, 8b  CLASP: outlier scores, and Shapley estimates, where one miner of 25 does harm
    A1      scores that a miner carries, by decay time and time between synchronisations
    """
    from scripts._figures.page import page

    wanted = [name for name in NAMES if name in only or not only]
    tokens = tokens or (_QUICK_TOKENS if quick else _TOKENS)
    out.mkdir(parents=True, exist_ok=True)
    shown = []
    for name in wanted:
        began = time.monotonic()
        figure = _made(name, quick, tokens, seed, workers)
        figure.write(out)
        click.echo(f"Figure {name}: {out / figure.drawing} ({time.monotonic() - began:.0f} s)")
        shown.append((figure, _command(name, quick, tokens, seed)))
    title = "Figures of IOTA's primer" + (" (quick: too small to mean anything)" if quick else "")
    (out / "index.html").write_text(page(title, _SOURCE, shown), encoding="utf-8")
    click.echo(f"The page: {out / 'index.html'}")


def _made(name: str, quick: bool, tokens: int, seed: int, workers: int) -> Figure:
    """Compute one figure."""
    from scripts._figures.attribution import figure_8a, figure_8b
    from scripts._figures.boundary_runs import Setup
    from scripts._figures.carrying import figure_a1
    from scripts._figures.learning import figure_5
    from scripts._figures.merging import figure_7a, figure_7b

    makers: dict[str, Callable[[], Figure]] = {
        "5": lambda: figure_5(
            Setup(tokens, held_out=1 if quick else 8), seed, workers, lambda said: click.echo(said)
        ),
        "7a": figure_7a,
        "7b": lambda: figure_7b(_QUICK_DRAWS if quick else _DRAWS),
        "8a": figure_8a,
        "8b": figure_8b,
        "A1": figure_a1,
    }
    return makers[name]()


def _command(name: str, quick: bool, tokens: int, seed: int) -> str:
    """What makes this figure again."""
    words = ["ape run figures pipeline", f"--only {name}"]
    if quick:
        words.append("--quick")
    if name == "5":
        words.append(f"--tokens {tokens} --seed {seed}")
    return " ".join(words)
