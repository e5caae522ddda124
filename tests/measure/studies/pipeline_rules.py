# SPDX-License-Identifier: Apache-2.0
"""Figures of IOTA's primer, counted by the rules of `agents/pipeline`: nothing here is trained.

- 7a: the agreement matrix of 50 miners of whom some collude on one lie.
- 7b: the share of valid shards by rate of failure: the formula, and counted by `settle`.
- 8a, 8b: CLASP on five stages of five. A malicious miner raises mean and standard deviation by
  10 %, which the primer says. Mean loss and deviation (6 and 0.5), who is malicious (two, in
  different stages) and the numbers of samples are assumed: the primer's text has lost its own.
- A.1: scores that a miner carries, by gamma and time between synchronisations.

    python -m tests.measure.studies.pipeline_rules
    python -m tests.measure.studies.pipeline_rules --only 7b --only 8
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table

from agents.pipeline.butterfly import Butterfly, primer_traffic, traffic
from agents.pipeline.clasp import PPM, Clasp
from agents.pipeline.credit import scores_carried
from scripts._figures.pipeline_rules import (
    LOSS,
    MALICIOUS,
    SPREAD,
    carried_counted,
    clasp_toy,
    collusion,
    lied_about,
    seed_of,
    toy_log,
    valid_shards,
)
from tests.measure.rows import text_table


@dataclass(frozen=True)
class Detection:
    """Over several logs: malicious miners paid less, and honest ones, with their pay."""

    samples: int
    found: float
    bad_pay: float
    false: float
    honest_pay: float


def detection(samples: int, logs: int) -> Detection:
    """How often CLASP finds the malicious, and whom it wrongs."""
    bad: list[int] = []
    honest: list[int] = []
    for number in range(logs):
        for miner, one in Clasp().judge(toy_log(samples, 1000 + number)).items():
            (bad if miner in MALICIOUS else honest).append(one.factor_ppm)
    return Detection(
        samples=samples,
        found=sum(f < PPM for f in bad) / len(bad),
        bad_pay=sum(bad) / len(bad) / PPM,
        false=sum(f < PPM for f in honest) / len(honest),
        honest_pay=sum(honest) / len(honest) / PPM,
    )


# -- the command -------------------------------------------------------------------------------


def _table_7a() -> list[Table]:
    table = text_table(
        "7a: agreement of 50 miners, by colluders who tell one lie",
        ("colluders", "agree: honest", "agree: colluders", "shards lied about", "convicted"),
    )
    for count in (1, 5, 15, 25, 30):
        settled = collusion(range(count))
        rows = [row.count(True) for row in settled.matrix]
        honest, bad = rows[count:], rows[:count]
        table.add_row(
            str(count),
            f"{min(honest)}..{max(honest)} of 49",
            f"{min(bad)}..{max(bad)} of 49",
            f"{lied_about(settled)} of 1225",
            f"{len(settled.liars)}, honest {sum(miner >= count for miner in settled.liars)}",
        )
    return [table]


def _table_7b() -> list[Table]:
    table = text_table(
        "7b: valid shards of 50 miners",
        ("failure rate", "lost", "formula", "settled", "1 - f^2", "settled, each by itself"),
    )
    rates = (0.0, 0.05, 0.1, 0.2, 0.3, 0.32, 0.34, 0.35, 0.4, 0.5)
    for row in valid_shards(rates):
        table.add_row(
            f"{row.rate:.0%}",
            str(row.lost),
            f"{float(row.formula):.2%}",
            f"{float(row.counted):.2%}",
            f"{row.independent:.2%}",
            f"{row.independent_counted:.2%}",
        )
    moved = text_table(
        "Bytes a miner moves, in W",
        ("miners", "upload", "shards", "merged", "rest", "all", "4+2/n"),
    )
    for miners in (3, 10, 50):
        butterfly = Butterfly.draw(seed_of(0), range(miners), 10 * miners * (miners - 1))
        one, whole = traffic(butterfly, 0), 4 * butterfly.length
        parts = (one.upload, one.download_shards, one.upload_shards, one.download_merged, one.total)
        primer = primer_traffic(whole, miners) / whole
        moved.add_row(str(miners), *(f"{p / whole:.3f}" for p in parts), f"{float(primer):.3f}")
    return [table, moved]


def _table_8() -> list[Table]:
    samples = 1000
    toy = clasp_toy(samples)
    table = text_table(
        f"8a, 8b: 25 miners, {samples} samples; malicious: {MALICIOUS}; loss {LOSS} +- {SPREAD}",
        ("stage", "miner", "plain z", "robust z: stage", "overall", "contribution", "pay"),
        left=2,
    )
    for miner, one in toy.judged.items():
        table.add_row(
            str(one.stage),
            f"{miner} malicious" if miner in MALICIOUS else str(miner),
            f"{toy.plain[miner]:+.2f}",
            f"{one.stage_z / 1000:+.2f}",
            f"{one.overall_z / 1000:+.2f}",
            f"{one.contribution / PPM:+.3f}",
            f"{one.factor_ppm / PPM:.0%}",
        )
    rates = text_table(
        "8: found, and wronged, over 20 logs",
        ("samples", "malicious paid less", "their pay", "honest paid less", "their pay"),
    )
    for count in (100, 300, 1000, 3000):
        found = detection(count, 20)
        rates.add_row(
            str(count),
            f"{found.found:.0%}",
            f"{found.bad_pay:.0%}",
            f"{found.false:.2%}",
            f"{found.honest_pay:.1%}",
        )
    return [table, rates]


def _table_a1() -> list[Table]:
    table = text_table(
        "A.1: scores carried, gamma / T; counted; and checks, with 10 validators for 250 miners",
        ("gamma, h", *(f"T = {minutes} min" for minutes in (10, 20, 30, 60, 120))),
    )
    for hours in (1, 2, 5, 10, 20):
        cells = []
        for minutes in (10, 20, 30, 60, 120):
            epochs, checks = scores_carried(60 * hours, minutes, validators=10, miners=250)
            counted = carried_counted(60 * hours, minutes)
            cells.append(f"{float(epochs):.3g}; {float(counted):.3g}; {float(checks):.2g}")
        table.add_row(str(hours), *cells)
    return [table]


FIGURES: dict[str, Callable[[], list[Table]]] = {
    "7a": _table_7a,
    "7b": _table_7b,
    "8": _table_8,
    "A1": _table_a1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", choices=FIGURES, help="repeatable; default all")
    wanted = parser.parse_args().only or list(FIGURES)
    torch.set_num_threads(1)
    console = Console(width=None if Console().is_terminal else 120)
    for name in wanted:
        for table in FIGURES[name]():
            console.print(table)


if __name__ == "__main__":
    main()
