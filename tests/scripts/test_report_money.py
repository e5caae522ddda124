# SPDX-License-Identifier: Apache-2.0
"""Money is shown in ZOO with few digits and, behind a click, to the last unit; and it adds up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.protocol.numbers import ZOO
from scripts._report.amounts import zoo
from scripts._report.page.markup import amount
from scripts._report.page.money import money
from scripts._report.run import Run
from tests.stage.memory.demo_run import PAID, a_run
from tests.stage.memory.page_reader import Page


@pytest.mark.parametrize(
    ("wei", "shown"),
    [
        (0, "0"),
        (75 * ZOO, "75"),
        (1_000_000 * ZOO, "1,000,000"),
        (119_020_138_443_455_801_666, "119.02"),
        (5_342_800_000_000_000_000, "5.34"),
        (12_345_678_900_000_000, "0.0123"),
        (-ZOO // 2, "-0.5"),
        (1, "≈0"),
    ],
)
def test_sensible_digits(wei: int, shown: str) -> None:
    assert zoo(wei) == shown


def test_wei_is_behind_a_click() -> None:
    page = Page(amount(PAID))
    (opened,) = page.find("details", kind="wei")
    assert "open" not in opened.attributes
    assert page.text("summary") == "30.00" and f"{PAID} wei" in opened.text


def shown(run: Run) -> Page:
    page = Page("\n".join(money(run)))
    assert page.faults == []
    return page


def test_parts_add_up() -> None:
    page = shown(a_run())
    assert page.text("p", kind="good").count("add up to the whole, to the last unit") == 3
    assert not page.find("p", kind="bad")
    first = page.find("div", kind="flow")[0].attributes["aria-label"]
    assert first == (
        "What the sponsor paid in: trainers, for work 60.0%, verifiers, for checking 1.0%, "
        "aggregators, for merging 0.3%, held until a report ends 1.7%, "
        "left in escrow, or carried to a next round 37.0%"
    )
    assert f"{6 * PAID} wei" in page.find("table")[0].text
    assert f"{17 * ZOO} wei are shares" in " ".join(page.text("div").split()).replace(" ZOO", "")


def test_parts_that_do_not_add_up__are_said_to_the_wei() -> None:
    run = a_run()
    assert run.books is not None
    wrong = replace(run, books=replace(run.books, pending=run.books.pending - 1))
    assert shown(wrong).text("p", kind="bad") == "The parts differ from the whole by 1 wei."
