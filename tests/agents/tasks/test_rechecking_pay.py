# SPDX-License-Identifier: Apache-2.0
"""The share of tasks that a creator audits: the least that pays verifiers for all they compute."""

from __future__ import annotations

from fractions import Fraction

import pytest

from agents.jobs import verifying_pay
from agents.protocol.numbers import ZOO
from agents.tasks.rechecking_pay import MOST_COMPUTE, WORTH, least_share

TENTH = Fraction(1, 10)


def test_share__by_hand() -> None:
    """1.25 times 0.5 ZOO of a fee of 2; a third of a bond of 5 less that is left for the sample."""
    assert WORTH == verifying_pay.WORTH
    assert least_share(5 * ZOO, 2 * ZOO, 3, TENTH) == Fraction(3, 50)


@pytest.mark.parametrize("verifiers", [1, 2, 3, 5])
@pytest.mark.parametrize("fee", [ZOO // 10, ZOO, 2 * ZOO])
def test_share__pays_a_quarter_more_than_it_costs_and_nothing_less_does(
    fee: int, verifiers: int
) -> None:
    share = least_share(5 * ZOO, fee, verifiers, TENTH)
    assert share is not None
    pay, cost = Fraction(5 * ZOO, verifiers), MOST_COMPUTE * fee / 2
    assert share * pay == WORTH * cost * (share + TENTH)
    less = share * Fraction(99, 100)
    assert less * pay < WORTH * cost * (less + TENTH)


def test_share__where_a_vote_costs_more_than_it_pays__is_none() -> None:
    assert least_share(5 * ZOO, 2 * ZOO, 8, TENTH) is None
    assert least_share(5 * ZOO, 2 * ZOO, 7, TENTH) == Fraction(7, 10)
    assert least_share(5 * ZOO, 2 * ZOO, 7, 2 * TENTH) is None  # more than all of them
    assert least_share(0, 2 * ZOO, 3, TENTH) is None


def test_share__of_verifiers_who_run_no_sample__is_none_of_the_tasks() -> None:
    assert least_share(5 * ZOO, 2 * ZOO, 3, Fraction(0)) == 0
