# SPDX-License-Identifier: Apache-2.0
"""Attacks on seats and seeds bring nothing; seats beyond chance would be seen as a profit."""

from __future__ import annotations

import pytest

from agents.protocol.numbers import ZOO
from scripts._attacks.attack import Attack
from scripts._attacks.draws import ATTACKS, seated
from scripts._attacks.market import Market
from tests.scripts.attacks.conftest import Played, in_zoo

NOTES = {
    "register after the draw": "refused: rounds: not expected",
    "let a seed expire": "",
    "arrange one's nodes for the seats": " of 3 seats, 1.00 are fair",
    "crowd the seats with idle nodes": "",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_attack__brings_and_costs_nothing(played: Played, attack: Attack) -> None:
    assert in_zoo(played(attack)) == (0, 0)
    assert played(attack).note.endswith(NOTES[attack.name])
    assert attack.family == "training"


def test_seats_beyond_chance__are_a_profit(market: Market) -> None:
    """1.69 of 3 seats, where one is fair: 0.69 of 850 / 3 ZOO a round."""
    found = seated(market, 169, 3, 3)
    assert in_zoo(found) == pytest.approx((0.69 * 850 / 3, 0.69 * 850 / 3))
    assert found.capital == 300 * ZOO


@pytest.mark.parametrize("won", [85, 100, 115])
def test_seats_as_chance_gives_them__are_none(market: Market, won: int) -> None:
    """The seats of a round spread by 0.71 around one, their mean of 100 rounds by 0.07."""
    assert in_zoo(seated(market, won, 3, 3)) == (0, 0)
