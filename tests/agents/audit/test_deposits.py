# SPDX-License-Identifier: Apache-2.0
"""What the audit says of deposits settled twice, and of a finder that was paid too much."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.audit.chain.deposits import Deposits
from agents.protocol.formulas import announcement_key

SCOPE = announcement_key(1, 2, 3)


def event(block: int = 9, **args: int) -> Any:
    place = {"job_id": 1, "round_id": 2, "verifier_id": 3}
    return SimpleNamespace(block=block, args=place | args)


@pytest.fixture
def odd() -> list[str]:
    return []


@pytest.fixture
def deposits(odd: list[str]) -> Deposits:
    made = Deposits(odd)
    made.announced(event(block=7, deposit=10))
    return made


def test_deposit__settled_once__is_nothing_odd(deposits: Deposits, odd: list[str]) -> None:
    deposits.settled(event(amount=10))
    assert odd == []
    deposits.settled(event(amount=10))
    assert len(odd) == 1 and "has no deposit of 10 left" in odd[0]


def test_deposit__of_another_amount__is_odd(deposits: Deposits, odd: list[str]) -> None:
    deposits.settled(event(amount=11))
    assert len(odd) == 1


@pytest.mark.parametrize(("paid", "rest"), [(10, 5), (10, 0), (7, 0)])
def test_finder__paid_what_its_deposit_bears(
    deposits: Deposits, odd: list[str], paid: int, rest: int
) -> None:
    deposits.check_pay(event(amount=paid, rest=rest), SCOPE, 7)
    assert odd == []


@pytest.mark.parametrize(("paid", "rest", "block"), [(11, 4, 7), (9, 6, 7), (10, 5, 8)])
def test_finder__paid_otherwise__is_odd(
    deposits: Deposits, odd: list[str], paid: int, rest: int, block: int
) -> None:
    deposits.check_pay(event(amount=paid, rest=rest), SCOPE, block)
    assert len(odd) == 1 and f"was paid {paid} of {paid + rest}" in odd[0]
