# SPDX-License-Identifier: Apache-2.0
"""Honest work on tasks and scores pays; a verifier's sample of right tasks where creators audit."""

from __future__ import annotations

from fractions import Fraction

import pytest

from agents.protocol.numbers import ZOO
from agents.tasks.rechecking_pay import least_share
from scripts._attacks.honest_work import HonestWork, honest_work, scored_work
from scripts._attacks.market import Market, Numbers
from scripts._attacks.task_pool import TaskNumbers

UNPAID = "verifier: its sample, by the task, where nobody cheats and no creator audits"


@pytest.fixture(scope="module")
def market() -> Market:
    return Market(Numbers())


@pytest.fixture(scope="module")
def rows(market: Market) -> dict[str, HonestWork]:
    return {row.name: row for row in (*honest_work(market), *scored_work(market))}


def test_every_row__but_the_unpaid_sample__earns(rows: dict[str, HonestWork]) -> None:
    assert {name for name, row in rows.items() if row.profit <= 0} == {UNPAID}
    assert len(rows) == 8


def test_verifier__its_sample_of_right_tasks__is_paid_by_creators_audits(
    market: Market, rows: dict[str, HonestWork]
) -> None:
    """A quarter more than all its computing where all three vote; here two share each bond."""
    (row,) = [row for name, row in rows.items() if "creators audit" in name]
    share = least_share(market.settings.tasks.appeal_bond, 2 * ZOO, 3, Fraction(1, 10))
    assert share == Fraction(3, 50)
    assert row.pay == share * rows["verifier: a vote on an appeal"].pay
    assert row.compute == (share + Fraction(1, 10)) * ZOO / 2
    assert row.pay * 2 / 3 >= Fraction(5, 4) * row.compute


def test_executor__earns_half_the_fee(rows: dict[str, HonestWork]) -> None:
    row = rows["executor: a task among honest ones"]
    assert (row.pay, row.compute) == (ZOO, ZOO // 2)


def test_executor_among_cheats__is_made_whole_by_its_appeals(market: Market) -> None:
    """Without them it loses a fifth of its stake where it is framed."""
    name = "executor: a task where cheats fake every one"
    quiet = {r.name: r for r in honest_work(market, TaskNumbers(judges=0, appeals=False))}
    assert quiet[name].pay < ZOO < {r.name: r for r in honest_work(market)}[name].pay
    assert UNPAID not in quiet


def test_verifier__votes_for_a_share_of_the_bond(
    market: Market, rows: dict[str, HonestWork]
) -> None:
    """Two of three are a verdict, the third need not vote."""
    bond = market.settings.tasks.appeal_bond
    assert rows["verifier: a vote on an appeal"].pay == bond // 2
