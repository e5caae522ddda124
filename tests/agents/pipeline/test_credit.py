# SPDX-License-Identifier: Apache-2.0
"""Validated passes count for gamma and then not at all; payouts add up to the pot."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline.credit import (
    PPM,
    EpochPasses,
    payouts,
    scores,
    scores_carried,
    weighed,
)


def one(at: int, claimed: int, checked: int = 0, validated: int = 0) -> EpochPasses:
    return EpochPasses(7, at, claimed, checked, validated)


@pytest.mark.parametrize(("now", "worth"), [(10, 5), (19, 5), (20, None)])
def test_a_pass_is_worth_the_same_until_gamma_is_over(now: int, worth: int | None) -> None:
    found = scores([one(10, 5, 5, 5)], now, gamma=10)
    assert found == ({} if worth is None else {7: worth * PPM})


def test_claims_count_at_the_miners_own_validated_rate() -> None:
    # 3 of 4 checked are right: 3 + 6 unchecked of that epoch and 20 of the other, at 3/4.
    records = [one(1, 10, 4, 3), one(2, 20)]
    assert scores(records, 2, gamma=5) == {7: 3 * PPM + (6 + 20) * 3 * PPM // 4}


def test_a_check_that_is_forgotten_validates_nothing_any_more() -> None:
    records = [one(1, 10, 10, 10), one(5, 10)]
    assert scores(records, 5, gamma=5) == {7: 20 * PPM}
    assert scores(records, 6, gamma=5) == {7: 0}


def test_who_was_never_checked_or_only_registered_earns_nothing() -> None:
    worth = scores([one(1, 1000), EpochPasses(8, 1, 1, 1, 1)], 1, gamma=5)
    assert payouts(90, worth) == {7: 0, 8: 90}
    assert 9 not in worth


@pytest.mark.parametrize("skipped", [0, 3, 10])
def test_skipping_passes_earns_their_share_less_on_average(skipped: int) -> None:
    """Each of ten passes is the checked one as often: over all draws the pay is what was done."""
    each = [
        scores([one(1, 10, 1, int(place >= skipped)), one(2, 10)], 2, 5)[7] for place in range(10)
    ]
    assert Fraction(sum(each), 10) == (20 - 2 * skipped) * PPM


@given(st.integers(0, 10**30), st.dictionaries(st.integers(0, 50), st.integers(0, 10**20)))
def test_payouts_add_up_and_are_within_a_unit_of_their_share(pot: int, worth) -> None:
    paid = payouts(pot, worth)
    total = sum(worth.values())
    assert sum(paid.values()) == (pot if total else 0)
    for miner, score in worth.items():
        exact = Fraction(pot * score, total) if total else 0
        assert abs(paid[miner] - exact) < 1
        assert score or not paid[miner]


def test_payouts_by_hand() -> None:
    assert payouts(10, {3: 1, 2: 1, 1: 1}) == {1: 4, 2: 3, 3: 3}
    assert weighed({1: 10, 2: 10}, {2: PPM // 4}) == {1: 10, 2: 2}


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (1, 2, 0), (5, 1, 2)])
def test_impossible_counts_are_refused(numbers) -> None:
    with pytest.raises(ValueError):
        one(0, *numbers)


@pytest.mark.parametrize(
    ("records", "now", "gamma"), [([one(3, 1)], 2, 5), ([one(3, 1)] * 2, 3, 5), ([], 0, 0)]
)
def test_impossible_records_are_refused(records, now, gamma) -> None:
    with pytest.raises(ValueError):
        scores(records, now, gamma)


def test_scores_carried_by_hand_and_counted() -> None:
    assert scores_carried(600, 40, validators=2, miners=10) == (15, 3)
    times = range(0, 10_000, 40)
    counted = [sum(0 <= now - at < 600 for at in times) for now in range(2_000, 4_000)]
    assert Fraction(sum(counted), len(counted)) == 15
