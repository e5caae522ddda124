# SPDX-License-Identifier: Apache-2.0
"""`ape run figures`: what it leaves in an empty folder."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.figures import NAMES, cli


def test_quick__every_file_on_the_page_is_there_and_7b_is_the_formula(tmp_path: Path) -> None:
    out = tmp_path / "figures"
    result = CliRunner().invoke(cli, ["pipeline", "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output

    page = (out / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:href|src)='([^#'][^']*)'", page))
    assert named == {f"figure-{name}.{kind}" for name in NAMES for kind in ("svg", "csv")}
    assert all((out / file).stat().st_size for file in named)

    with (out / "figure-7b.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["failed"]) for row in rows] == list(range(0, 51, 2))
    for row in rows:
        k = int(row["failed"])
        formula = pytest.approx(1 - k * (k - 1) / (50 * 49))
        assert float(row["valid, formula"]) == float(row["valid, counted"]) == formula
