# SPDX-License-Identifier: Apache-2.0
"""Formulas of amounts: by hand, and their bounds. `tests/contracts/test_formulas.py` holds every
formula against the contract that computes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.protocol import formulas
from agents.protocol.median import cut_factor
from agents.protocol.numbers import BPS


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
    assert scored.cuts == ((9, 50), (1, 60), (2, 0))
    assert scored.trainer_amount == 890
    assert scored.total == 40_000
    assert scored.parts == {6: 30_000, 7: 10_000}
    assert scored.shares == {6: 667, 7: 222}
    assert scored.paid == 999


def test_split__pay_of_earlier_rounds_for_trainers__is_not_cut() -> None:
    found = formulas.split(1_090, 1_000, 500, 9, {1: 1}, {5: 1, 6: 1}, for_trainers=90)
    assert found.cuts == ((9, 50), (1, 100))
    assert found.shares == {5: 470, 6: 470}


def test_shared_cuts__by_hand() -> None:
    """What one loses the other has, but for a unit; who does not count leaves its cut."""
    assert formulas.shared_cuts({1: 60, 2: 40}, {1: 10_000, 2: 2_500}) == {1: 85, 2: 14}
    assert formulas.shared_cuts({1: 60, 2: 40}, {1: 7, 2: 7}) == {1: 60, 2: 40}
    assert formulas.shared_cuts({1: 60, 2: 40}, {1: 0, 2: 1}) == {1: 0, 2: 40}
    assert formulas.shared_cuts({1: 60, 2: 40}, {1: 0, 2: 0}) == {1: 0, 2: 0}


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_shared_cuts__up_to_a_third__never_more_than_by_the_square(trust: int, nodes: int) -> None:
    """Whoever has a third of the cuts or less, where the others agree fully and it by its trust,
    keeps no more than the square of its trust."""
    cuts = dict.fromkeys(range(9), 10**18)
    factors = {n: cut_factor(trust if n < nodes else BPS, BPS) for n in cuts}
    kept = sum(formulas.shared_cuts(cuts, factors)[n] for n in range(nodes))
    assert kept * BPS**2 <= nodes * 10**18 * trust**2


@given(
    st.dictionaries(st.integers(1, 9), st.integers(1, 10**20), min_size=1),
    st.dictionaries(st.integers(10, 19), st.integers(0, 10**6)),
    st.dictionaries(st.integers(10, 19), st.integers(1, 65_535), min_size=1),
    st.lists(st.integers(0, 10_000), min_size=9, max_size=9),
    st.integers(0, 10**22),
)
def test_no_split_pays_more_than_the_pool(
    attesters: dict[int, int],
    contributions: dict[int, int],
    scores: dict[int, int],
    factors: list[int],
    reward: int,
) -> None:
    counts = {node: factors[node - 1] for node in attesters}
    found = formulas.split(reward, 1_000, 500, 20, attesters, contributions, counts, scores)
    assert 0 <= found.paid <= reward
    assert found.trainer_amount >= reward - reward * 1_500 // 10_000


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
