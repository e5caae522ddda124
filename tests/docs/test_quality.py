# SPDX-License-Identifier: Apache-2.0
"""The quality page shows what is recorded, and the study's schedule is the anchors'."""

from __future__ import annotations

import json
import math

import pytest

from scripts._figures.text import schedule
from tests.measure.quality.record import END, JSON, PAGE
from tests.measure.quality.sections import sections
from tests.measure.quality.sizes import law
from tests.measure.quality.task import CORPUS_SHA256


def test_the_tables_of_the_page_are_those_of_the_records() -> None:
    page = PAGE.read_text()
    for records in sections():
        for steps in records.lengths():
            shown = page.partition(records.begin(steps))[2].partition(END)[0]
            assert shown.strip() == records.table(steps), "python -m tests.measure.quality --table"


def test_every_record_is_of_the_anchors_text_and_model() -> None:
    task = json.loads(JSON.read_text())["task"]
    assert task["corpus_sha256"] == CORPUS_SHA256
    assert task["parameters"] == 869_504


def test_the_rate_rises_for_a_tenth_and_falls_to_a_tenth() -> None:
    assert schedule(0, 200) == pytest.approx(1 / 20)
    assert schedule(19, 200) == 1.0
    assert schedule(20, 200) == 1.0  # the cosine begins
    assert schedule(110, 200) == pytest.approx(0.55)
    assert schedule(200, 200) == pytest.approx(0.1)


def test_the_law_of_three_gaps_is_the_line_through_their_logarithms() -> None:
    start, slope, error = law({10: 0.1, 100: 0.2, 1000: 0.4})
    assert slope == pytest.approx(math.log10(2))
    assert math.exp(start + slope * math.log(10)) == pytest.approx(0.1)
    assert error == pytest.approx(0, abs=1e-9)
    *_, off = law({10: 0.1, 100: 0.3, 1000: 0.4})
    assert off == pytest.approx(math.log(1.5) * math.sqrt(2 / 3))
