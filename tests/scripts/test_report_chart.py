# SPDX-License-Identifier: Apache-2.0
"""Charts: whole rounds on the axis, a word for every curve, colours from the page, all inside."""

from __future__ import annotations

import re

import pytest

from scripts._report.live import sparkline
from scripts._report.page.chart import HEIGHT, WIDTH, Axis, Curve, chart
from scripts._report.page.report import render
from tests.stage.memory.demo_run import HOSTILE, a_run
from tests.stage.memory.page_reader import Page


@pytest.mark.parametrize("last", [1, 2, 3, 7, 12, 100, 1000])
def test_ticks_of_rounds_are_whole(last: int) -> None:
    ticks = Axis.of(range(last + 1), whole=True, most=8).ticks
    assert len(set(ticks)) == len(ticks) >= 2
    assert all(tick == int(tick) and 0 <= tick <= last for tick in ticks)


def test_all_charts_of_a_page_count_whole_rounds() -> None:
    labels = [e.text for e in Page(render(a_run())).find("text", data_axis="x")]
    assert len(labels) > 6 and all(re.fullmatch(r"[\d,]+", label) for label in labels)


def test_one_round__has_an_axis_too() -> None:
    page = Page(chart("t", [Curve("c", [(1.0, 2.0)])], "round", "ZOO"))
    assert [e.text for e in page.find("text", data_axis="x")] == ["1"]


@pytest.mark.parametrize(
    "losses", [(1e17, 1e17), (1e300, 1e300), (1.7e308, -1.7e308), (5.0, 1.7e308), (-1e308, 1e308)]
)
def test_a_loss_of_any_size__is_drawn(losses: tuple[float, float]) -> None:
    """A report may state any finite loss, and a model may diverge."""
    run = a_run()
    changes = dict(zip(("val_loss_before", "val_loss"), losses, strict=True))
    for story in run.story.rounds.values():
        assert story.report is not None
        story.report = story.report.model_copy(update=changes)
    page = Page(render(run))
    assert page.faults == [] and not re.search(r"\b(nan|inf)\b", page.source)
    for circle in page.find("circle"):
        assert 0 <= float(circle.attributes["cy"]) <= HEIGHT
    assert len(sparkline(list(losses))) == 2


def test_nothing_is_drawn_outside__and_nan_breaks_nothing() -> None:
    points = [(0.0, 1.0), (1.0, 1e9), (2.0, -5.0)]
    page = Page(chart("t", [Curve("c", points)], "round", "y", y_values=(0, 10)))
    for circle in page.find("circle"):
        assert 0 <= float(circle.attributes["cx"]) <= WIDTH
        assert 0 <= float(circle.attributes["cy"]) <= HEIGHT
    assert chart("t", [Curve("c", [])], "round", "y").endswith("</figure>")


def test_curves_are_told_in_words_and_by_more_than_colour() -> None:
    curves = [Curve(f"n{place} {HOSTILE}", [(0.0, 1.0), (3.0, 2.5)], place) for place in range(9)]
    page = Page(chart(f"Pay {HOSTILE}", curves, "round", "ZOO"))
    assert page.faults == []
    (image,) = page.find("svg", role="img")
    assert "n0 <script>" in image.attributes["aria-label"]
    assert "from 1 to 2.5" in image.attributes["aria-label"]
    assert len(page.find("li")) == 9
    # Two curves of one colour have different marks.
    colours = [(e.tag, e.attributes["class"]) for e in page.elements if e.tag in ("circle", "rect")]
    assert len(set(colours)) == 9
