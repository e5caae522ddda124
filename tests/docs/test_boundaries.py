# SPDX-License-Identifier: Apache-2.0
"""The pipeline's page shows the recorded runs of boundaries, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts._figures.boundary_runs import Run
from tests.measure.quality.task import CORPUS_SHA256
from tests.measure.rows import END
from tests.measure.studies.boundary_record import CONTROLS, DOCS, JSON, PAGE, SETUPS, Records


@pytest.mark.parametrize("inner", SETUPS)
def test_the_table_and_the_curve_of_the_page_are_those_of_the_record(
    inner: str, tmp_path: Path
) -> None:
    records = Records(inner=inner)
    shown = PAGE.read_text().partition(records.begin)[2].partition(END)[0]
    assert shown.strip() == records.table(), "python -m tests.measure.studies.boundaries --page"
    figure = records.figure()
    figure.write(tmp_path)
    assert (DOCS / figure.numbers).read_text() == (tmp_path / figure.numbers).read_text()


def test_every_record_is_of_the_same_text() -> None:
    assert json.loads(JSON.read_text())["machine"]["corpus_sha256"] == CORPUS_SHA256


def test_a_share_is_taken_against_the_controls_of_the_same_seeds(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    runs = {("none", 0): 2.0, ("none", 1): 2.1, ("cut", 0): 2.4, ("cut", 1): 2.5}
    for (name, seed), loss in runs.items():
        Records(path).add(name, seed, Run(loss, 1, 1.0, ()))
    Records(path).add("residual:width=4", 0, Run(2.1, 1, 1.0, ()))
    Records(path).add("residual:width=4", 2, Run(9.0, 1, 1.0, ()))
    records = Records(path)
    assert records.shares("residual:width=4") == {0: pytest.approx(0.75)}
    assert records.share("residual:width=4") == pytest.approx(0.75)
    assert records.boundaries() == [*CONTROLS, "residual:width=4"]
    records.add("residual:width=4", 0, Run(2.2, 1, 1.0, ()))
    assert Records(path).share("residual:width=4") == pytest.approx(0.5)
