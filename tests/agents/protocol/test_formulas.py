# SPDX-License-Identifier: Apache-2.0
"""Formulas of amounts: by hand, and their bounds. `tests/contracts/test_formulas.py` holds every
formula against the contract that computes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.protocol import formulas


def test_split_by_scores_by_hand() -> None:
    """1,000 units: 100 for verifiers, 50 for the proposer; node 7 is not in the result."""
    plain = formulas.split(1_000, 1_000, 500, 9, {1: 60, 2: 40}, {5: 1, 6: 1})
    assert plain.cuts == ((9, 50), (1, 60), (2, 40))
    assert (plain.trainer_amount, plain.total, plain.shares) == (850, 2, {5: 425, 6: 425})
    scored = formulas.split(
        *(1_000, 1_000, 500, 9, {1: 60, 2: 40}, {5: 1, 6: 1}),
        factors={1: 5_000, 2: 0},
        scores={6: 30_000, 7: 10_000},
    )
    assert scored.cuts == ((9, 50), (1, 30), (2, 0))
    assert scored.trainer_amount == 920
    assert scored.total == 40_000
    assert scored.parts == {6: 30_000, 7: 10_000}
    assert scored.shares == {6: 690, 7: 230}
    assert scored.paid == 1_000


def test_split__pay_of_earlier_rounds_for_trainers__is_not_cut() -> None:
    found = formulas.split(1_090, 1_000, 500, 9, {1: 1}, {5: 1, 6: 1}, for_trainers=90)
    assert found.cuts == ((9, 50), (1, 100))
    assert found.shares == {5: 470, 6: 470}


@given(
    st.dictionaries(st.integers(1, 9), st.integers(1, 10**20), min_size=1),
    st.dictionaries(st.integers(10, 19), st.integers(0, 10**6)),
    st.dictionaries(st.integers(10, 19), st.integers(1, 65_535), min_size=1),
    st.integers(0, 10_000),
    st.integers(0, 10**22),
)
def test_no_split_pays_more_than_the_pool(
    attesters: dict[int, int],
    contributions: dict[int, int],
    scores: dict[int, int],
    factor: int,
    reward: int,
) -> None:
    factors = dict.fromkeys(attesters, factor)
    found = formulas.split(reward, 1_000, 500, 20, attesters, contributions, factors, scores)
    assert 0 <= found.paid <= reward


@pytest.mark.parametrize(("fee", "shares"), [(0, (0, 0)), (1, (0, 1)), (10, (5, 5)), (11, (5, 6))])
def test_fee_shares__who_opened_gets_an_odd_unit(fee: int, shares: tuple[int, int]) -> None:
    assert formulas.fee_shares(fee) == shares


def test_benchmark_score__is_units_per_million_seconds() -> None:
    assert formulas.benchmark_score(8, 4) == 2_000_000
    assert formulas.benchmark_score(8, 3) == 2_666_666
    assert formulas.benchmark_score(8, 0) == 8_000_000  # no second has passed: one is counted


@pytest.mark.parametrize(
    ("score", "expected", "accepted", "weight"),
    [
        (1_000, 0, 0, 1_000),  # a new node is trusted in full
        (1_000, 8, 8, 1_000),
        (1_000, 8, 0, 111),
        (1_000, 1, 0, 500),
        (1, 8, 0, 1),  # never nothing
        (0, 0, 0, 1),
    ],
)
def test_weight__is_score_times_reliability(
    score: int, expected: int, accepted: int, weight: int
) -> None:
    assert formulas.weight(score, expected, accepted) == weight
