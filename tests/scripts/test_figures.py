# SPDX-License-Identifier: Apache-2.0
"""`ape run figures`: what it leaves in an empty folder."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from agents.mechanisms.boundary import wire_ratio
from scripts._figures.boundary_runs import build
from scripts._figures.text import BATCH, SEQ
from scripts.figures import NAMES, cli


def rows_of(out: Path, name: str) -> list[dict[str, str]]:
    """The numbers beside a figure."""
    with (out / f"figure-{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_quick__every_file_is_there_and_shows_what_its_formula_says(tmp_path: Path) -> None:
    out = tmp_path / "figures"
    result = CliRunner().invoke(cli, ["pipeline", "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output

    page = (out / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:href|src)='([^#'][^']*)'", page))
    assert named == {f"figure-{name}.{kind}" for name in NAMES for kind in ("svg", "csv")}
    assert all((out / file).stat().st_size for file in named)

    ratios = {row["label"]: (row["boundary"], float(row["ratio"])) for row in rows_of(out, "5")}
    assert len(ratios) == 2 + 6 + 3, "bf16 has no channel at 128x"
    for label, (spelt, ratio) in ratios.items():
        name, _, least = label.partition(" ")
        counted = wire_ratio(build(spelt), 128, 256, BATCH, SEQ)
        assert ratio == pytest.approx(counted, abs=0.05)
        if name not in ("none", "cut"):
            assert counted >= int(least.removesuffix("x")), "with header and token ids"

    rows = rows_of(out, "7b")
    assert [int(row["failed"]) for row in rows] == list(range(0, 51, 2))
    for row in rows:
        k = int(row["failed"])
        formula = pytest.approx(1 - k * (k - 1) / (50 * 49))
        assert float(row["valid, formula"]) == float(row["valid, counted"]) == formula

    rows = rows_of(out, "7a")
    assert len(rows) == 50 and sum(row["colludes"] == "yes" for row in rows) == 5
    for row in rows:
        assert row["agrees with"] == row["agrees, formula"]
        assert row["convicted"] == row["colludes"]

    for name, value, apart in (("8a", "z", 0.7), ("8b", "contribution", 0.08)):
        rows = rows_of(out, name)
        assert [row["miner"] for row in rows if row["malicious"] == "yes"] == ["12"]
        for row in rows:
            formula = float(row[f"{value}, formula"])
            assert float(row[value]) == pytest.approx(formula, abs=apart), (name, row["miner"])
    for row in rows_of(out, "8a"):
        assert float(row["part of pay left"]) == (row["malicious"] == "no")

    rows = rows_of(out, "A1")
    assert len(rows) == 25
    assert all(float(row["carried, counted"]) == float(row["carried, formula"]) for row in rows)
