# SPDX-License-Identifier: Apache-2.0
"""The stake-weighted median, agreement and trust: by hand, and against a minority of the stake."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.protocol.median import agreement, cut_factor, next_trust, stake_median
from agents.protocol.numbers import BPS, SCALE

Scores = st.one_of(st.integers(0, 5), st.integers(0, SCALE))
Stakes = st.integers(1, 10**27)
Votes = tuple[list[list[int]], list[int], int]  # rows of scores, their stakes, all stake


@st.composite
def drawn_votes(draw: st.DrawFn) -> Votes:
    """Rows and stakes of up to six validators, and a total that may hold some without a row."""
    nodes = draw(st.integers(1, 4))
    row = st.lists(Scores, min_size=nodes, max_size=nodes)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    stakes = draw(st.lists(Stakes, min_size=len(rows), max_size=len(rows)))
    return rows, stakes, sum(stakes) + draw(st.just(0) | Stakes)


def majority(
    rows: Sequence[Sequence[int]], stakes: Sequence[int], total: int, place: int, value: int
) -> bool:
    """Whether two validators, with more than half of all stake, gave a node `value` or more."""
    above = [s for row, s in zip(rows, stakes, strict=True) if row[place] >= value]
    return len(above) > 1 and 2 * sum(above) > total


@pytest.mark.parametrize(
    ("column", "stakes", "total", "expected"),
    [
        ([1, 2, 3], [1, 1, 1], 3, 2),
        ([3, 1, 2], [1, 1, 1], 3, 2),
        ([10, 20], [1, 1], 2, 10),  # exactly half does not reach the greater one
        ([10, 20], [1, 1], 3, 10),  # a third of the stake is away and counts as zero
        ([10, 20], [1, 1], 4, 0),
        ([10, 20], [1, 1], 5, 0),
        ([0, 0, SCALE], [35, 35, 30], 100, 0),
        ([7, 7, SCALE], [35, 35, 30], 100, 7),
        ([5], [1], 1, 0),  # nobody decides alone
        ([5, 7], [9, 1], 10, 5),
        ([9, 7], [9, 1], 10, 7),
    ],
)
def test_median__by_hand(column: list[int], stakes: list[int], total: int, expected: int) -> None:
    assert stake_median([[score] for score in column], stakes, total) == [expected]


def test_median__of_several_nodes__by_hand() -> None:
    """Stakes 40, 30 and 30 of 100: more than half is reached by any two, and by nobody alone."""
    rows, stakes = [[100, 0, 9], [50, 7, 0], [80, 7, 0]], [40, 30, 30]
    assert stake_median(rows, stakes, 100) == [80, 7, 0]
    # Whoever is silent counts as zero: 40 of 100 decides nothing.
    assert stake_median(rows[:1], stakes[:1], 100) == [0, 0, 0]
    # Nor does one validator by itself, or exactly half.
    assert stake_median(rows[:1], stakes[:1], 50) == [0, 0, 0]
    assert stake_median(rows[1:], stakes[1:], 120) == [0, 0, 0]


def test_median__no_rows() -> None:
    assert stake_median([], [], 5, nodes=3) == [0, 0, 0]
    assert stake_median([], [], 5) == []


@pytest.mark.parametrize(
    ("rows", "stakes", "total", "nodes"),
    [
        ([[1]], [1], 0, None),
        ([[1]], [2], 1, None),
        ([[1]], [-1], 1, None),
        ([[1]], [1, 1], 2, None),
        ([[1], [1, 2]], [1, 1], 2, None),
        ([[1]], [1], 1, 2),
    ],
)
def test_median__impossible__raises(
    rows: list[list[int]], stakes: list[int], total: int, nodes: int | None
) -> None:
    with pytest.raises(ValueError, match="validator"):
        stake_median(rows, stakes, total, nodes)


@given(votes=drawn_votes())
def test_median__is_the_largest_value_that_a_majority_of_all_stake_reached(votes: Votes) -> None:
    rows, stakes, total = votes
    for place, value in enumerate(stake_median(rows, stakes, total)):
        assert value == 0 or majority(rows, stakes, total, place, value)
        assert not majority(rows, stakes, total, place, value + 1)


@given(votes=drawn_votes(), lie=st.lists(Scores, min_size=4, max_size=4), data=st.data())
def test_median__half_of_the_stake_moves_nothing_past_the_others(
    votes: Votes, lie: list[int], data: st.DataObject
) -> None:
    """A liar joins honest validators that are all present: the consensus stays between their least
    and their greatest. When some of them are away, or it has half, it may sink, but never rise."""
    rows, stakes, total = votes
    liar = data.draw(st.integers(0, total), label="the liar's stake")
    with_lie = stake_median([*rows, lie[: len(rows[0])]], [*stakes, liar], total + liar)
    for place, value in enumerate(with_lie):
        column = [row[place] for row in rows]
        assert value <= max(column)
        if sum(stakes) == total > liar and len(rows) > 1:
            assert value >= min(column)


@given(votes=drawn_votes(), data=st.data())
def test_median__a_higher_score_never_lowers_it(votes: Votes, data: st.DataObject) -> None:
    rows, stakes, total = votes
    before = stake_median(rows, stakes, total)
    who = data.draw(st.integers(0, len(rows) - 1))
    place = data.draw(st.integers(0, len(before) - 1))
    rows[who][place] += data.draw(st.integers(1, SCALE))
    after = stake_median(rows, stakes, total)
    assert after[place] >= before[place]
    assert after[:place] + after[place + 1 :] == before[:place] + before[place + 1 :]


@given(votes=drawn_votes(), data=st.data())
def test_median__order_of_validators_does_not_matter(votes: Votes, data: st.DataObject) -> None:
    rows, stakes, total = votes
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = stake_median([rows[i] for i in order], [stakes[i] for i in order], total)
    assert shuffled == stake_median(rows, stakes, total)


@given(votes=drawn_votes())
def test_median__rows_that_sum_to_one__sum_to_two_at_most(votes: Votes) -> None:
    """Half of the stake and more gave each node its consensus, so the mean row holds half of all of
    it. The contract keeps the sum in 128 bits and divides pay by it."""
    rows, stakes, total = votes
    bounded = [[score * SCALE // max(SCALE, sum(row)) for score in row] for row in rows]
    assert sum(stake_median(bounded, stakes, total)) <= 2 * SCALE


@pytest.mark.parametrize(
    ("row", "consensus", "expected"),
    [
        ([5, 5], [5, 5], BPS),
        ([30, 30], [30, 0], BPS // 2),
        ([3, 0], [30, 0], BPS // 10),  # the right shape at a tenth of the size
        ([10, 0], [5, 5], BPS // 2),
        ([0, 10], [10, 0], 0),
        ([0, 0], [5, 5], 0),
        ([0, 0], [0, 0], 0),
        ([1, 0], [30_000, 35_535], 0),  # next to nothing is no agreement
        ([3, 3], [2, 2], 6_666),
        ([2, 2], [3, 3], 6_666),
    ],
)
def test_agreement__by_hand(row: list[int], consensus: list[int], expected: int) -> None:
    assert agreement(row, consensus) == expected


@given(votes=drawn_votes())
def test_agreement__is_the_exact_ratio_rounded_down(votes: Votes) -> None:
    rows, stakes, total = votes
    consensus = stake_median(rows, stakes, total)
    for row in rows:
        found = agreement(row, consensus)
        assert 0 <= found <= BPS
        if sum(row):
            shared = sum(map(min, row, consensus))
            exact = Fraction(BPS * shared, max(sum(row), sum(consensus)))
            assert found <= exact < found + 1
        if sum(row) and row == consensus:
            assert found == BPS


def test_agreement__other_nodes__raises() -> None:
    with pytest.raises(ValueError, match="same nodes"):
        agreement([1, 2], [1])


def test_trust__by_hand() -> None:
    assert next_trust(None, 8_000) == 8_000
    assert next_trust(10_000, 0) == 7_000
    assert next_trust(7_000, 0) == 4_900
    assert next_trust(0, 10_000) == 3_000
    assert next_trust(0, 9_999) == 2_999
    assert next_trust(1, 0) == 0


@given(old=st.integers(0, BPS), newest=st.integers(0, BPS))
def test_trust__moves_towards_the_newest_agreement(old: int, newest: int) -> None:
    assert min(old, newest) - 1 < next_trust(old, newest) <= max(old, newest)


def test_trust__of_a_persistent_outlier__dies_out() -> None:
    trust: int | None = BPS
    for _ in range(30):
        trust = next_trust(trust, 0)
    assert trust == 0


def test_cut_factor__by_hand() -> None:
    assert cut_factor(5_000, 10_000) == 1_250
    assert cut_factor(5_000, 5_000) == BPS
    assert cut_factor(3, 4) == 4_218
    assert cut_factor(0, 0) == BPS  # nobody is better than anybody
    assert cut_factor(0, 1) == 0
