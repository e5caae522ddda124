# SPDX-License-Identifier: Apache-2.0
"""The chance that a lie is found is the one that verifiers draw by."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scripts._attacks.market import Market, Numbers
from scripts._attacks.spot_checks import drawn


def test_drawn__by_hand(market: Market) -> None:
    """950 / 9 ZOO may be earned, 9 are lost for good; two of nine are looked at anyway."""
    exposed = Fraction(5, 4) * Fraction(950, 9) / (Fraction(5, 4) * Fraction(950, 9) + 9)
    wanted = 1 - (1 - exposed) * Fraction(7, 9)
    assert float(drawn(market, market.trainers[0])) == pytest.approx(float(wanted), abs=1e-6)


def test_drawn__without_a_sample__is_the_exposure_alone() -> None:
    plain = Market(Numbers(sample=0))
    wanted = 1.25 * 950 / 9 / (1.25 * 950 / 9 + 9)
    assert float(drawn(plain, plain.trainers[0])) == pytest.approx(wanted, abs=1e-6)
