# SPDX-License-Identifier: Apache-2.0
"""The parts of a score, by hand, and the integers that they are read off."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.score.parts.peers import (
    UNIT,
    alignments,
    copies,
    cosines,
    lower_middle,
    sizes,
    upper_middle,
    validations,
)
from agents.mechanisms.score.parts.products import products
from tests.stage.memory.payloads import payload

HALF, DOUBLE = UNIT // 2, 2 * UNIT
ALONE = frozenset()


def symmetric(pairs: list[list[float]]) -> list[list[int]]:
    """A matrix of cosines from its lower triangle without the diagonal."""
    n = len(pairs) + 1
    full = [[UNIT] * n for _ in range(n)]
    for i, row in enumerate(pairs, start=1):
        for j, value in enumerate(row):
            full[i][j] = full[j][i] = round(value * UNIT)
    return full


def test_the_lower_and_upper_middle_by_hand():
    assert (lower_middle([3, 1, 2]), upper_middle([3, 1, 2])) == (2, 2)
    assert (lower_middle([4, 1, 2, 3]), upper_middle([4, 1, 2, 3])) == (2, 3)
    with pytest.raises(ValueError, match="no middle"):
        lower_middle([])


def test_cosines_by_hand():
    # (3, 4) and (4, 3): 24 / 25. The third is opposed to the first.
    gram = [[25, 24, -50], [24, 25, -48], [-50, -48, 100]]
    assert cosines(gram) == [
        [UNIT, 24 * UNIT // 25, -UNIT],
        [24 * UNIT // 25, UNIT, -24 * UNIT // 25],
        [-UNIT, -24 * UNIT // 25, UNIT],
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=3, max_size=3), min_size=1, max_size=5))
def test_cosines_equal_the_exact_ones(rows):
    rows = [row if any(row) else [1, 0, 0] for row in rows]
    gram = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in rows] for x in rows]
    for i, found in enumerate(cosines(gram)):
        for j, value in enumerate(found):
            square = Fraction(gram[i][j] ** 2, gram[i][i] * gram[j][j])
            assert Fraction(abs(value), UNIT) ** 2 <= square < Fraction(abs(value) + 1, UNIT) ** 2
            assert value == 0 or (value > 0) == (gram[i][j] > 0)


def test_alignment_is_the_cosine_with_what_the_others_share():
    # Nodes of the model u_i = rho_i s + noise have cosines rho_i rho_j; the rho come back.
    rho = [0.8, 0.7, 0.6, 0.7, 0.7]
    cosine = symmetric([[rho[i] * rho[j] for j in range(i)] for i in range(1, 5)])
    assert alignments(cosine, [ALONE] * 5) == pytest.approx([r * UNIT for r in rho], rel=1e-6)


def test_alignment_of_one_two_and_three():
    assert alignments([[UNIT]], [ALONE]) == [UNIT]
    assert alignments(symmetric([[0.49]]), [ALONE] * 2) == pytest.approx([0.7 * UNIT] * 2, abs=1)
    assert alignments(symmetric([[-0.5]]), [ALONE] * 2) == [0, 0]
    # Two against one: the favourable one of two opinions decides, so the liar takes nobody along.
    first, second, liar = alignments(symmetric([[0.49], [-0.4, -0.4]]), [ALONE] * 3)
    assert (first, second) == (pytest.approx(0.7 * UNIT, abs=1),) * 2 and liar == 0


def test_chance_is_taken_off_the_cosines_before_they_are_divided():
    # Three others: the median of three cosines may be 0.3 * sqrt(pi / 6) = 0.217 by chance.
    cosine, chance = symmetric([[0.4], [0.4, 0.4], [0.2, 0.2, 0.2]]), round(0.3 * UNIT)
    least = 0.3 * math.sqrt(math.pi / 6)
    expected = (0.4 - least) / (1 - least) / math.sqrt(0.4) * UNIT
    assert alignments(cosine, [ALONE] * 4, chance) == pytest.approx([expected] * 3 + [0], abs=2)


def test_a_direction_below_chance_makes_no_alignment_of_a_little_above_it():
    # Six others with 0.01 in common; by chance a median of six may be 0.102. One node has 0.11.
    pairs = [[0.01] * i for i in range(1, 6)] + [[0.11] * 6]
    least = 0.2 * math.sqrt(math.pi / 12)
    found = alignments(symmetric(pairs), [ALONE] * 7, round(0.2 * UNIT))
    assert found[:6] == [0] * 6
    assert found[6] == pytest.approx((0.11 - least) / (1 - least) / math.sqrt(least) * UNIT, abs=2)


def test_one_other_is_no_median():
    cosine = symmetric([[0.36]])
    left = (0.36 - 0.3) / (1 - 0.3) / 0.6 * UNIT
    assert alignments(cosine, [ALONE] * 2, round(0.3 * UNIT)) == pytest.approx([left] * 2, abs=2)
    assert alignments(cosine, [ALONE] * 2, round(0.36 * UNIT)) == [0, 0]
    assert alignments([[UNIT]], [ALONE], round(0.36 * UNIT)) == [UNIT]


def test_copies_support_each_other_only_as_a_majority():
    # Two copies among four: asked without each other. Two of three: the majority, asked as such.
    four = symmetric([[1.0], [0, 0], [0, 0, 0.5]])
    same = copies(four, UNIT)
    assert same == [{1}, {0}, ALONE, ALONE]
    assert alignments(four, same)[:2] == [0, 0]
    three = symmetric([[1.0], [0, 0]])
    assert alignments(three, copies(three, UNIT)) == [UNIT, UNIT, 0]


def test_size_is_full_in_the_band_and_falls_on_both_sides():
    norms = [1, 1, 1, 0.5, 2, 0.25, 3, 4, 100, 0.001]
    squares = [round((n * 1000) ** 2) for n in norms]
    found = [sizes([squares[i], *squares[:3]], [5] * 4, HALF, DOUBLE)[0] / UNIT for i in range(10)]
    assert found == pytest.approx([1, 1, 1, 1, 1, 0.5, 0.5, 0, 0, 0.002], abs=1e-6)
    assert sizes([7], [5], HALF, DOUBLE) == [UNIT]


def test_size_allows_for_the_work_assigned():
    # A tenth of the batches may move a tenth as far, ten times as many ten times as far.
    one, ten = 10**12, 10**14
    assert sizes([one, ten, ten, ten], [1, 10, 10, 10], HALF, DOUBLE)[0] == UNIT
    assert sizes([one, ten, ten, ten], [10, 10, 10, 10], HALF, DOUBLE)[0] == UNIT // 5
    assert sizes([ten, one, one, one], [10, 1, 1, 1], HALF, DOUBLE)[0] == UNIT
    assert sizes([ten, one, one, one], [1, 1, 1, 1], HALF, DOUBLE)[0] == 0
    assert sizes([one, one], [0, 0], HALF, DOUBLE) == [UNIT, UNIT]


def test_one_of_three_cannot_push_the_others_out_of_the_band():
    for liar, size in ((1, 2000), (10**40, 0)):
        assert sizes([10**12, 10**12, liar], [5] * 3, HALF, DOUBLE) == [UNIT, UNIT, size]


def test_validation_is_measured_by_the_others():
    # The others' medians, of two middles the lower: 40, 50, 40, 40.
    assert validations([50, 40, 60, 1_000_000, -7], 10) == [UNIT, 4 * UNIT // 5, UNIT, UNIT, 0]
    assert validations([20, 40, 60, 40], 10)[0] == UNIT // 2
    assert validations([0, 0, 0], 10) == [0, 0, 0]
    # The only one with a gain: as far as it exceeds what can be measured.
    assert validations([5, 0, -9], 10) == [UNIT // 2, 0, 0]
    assert validations([25], 10) == [UNIT] and validations([-25], 10) == [0]


def test_products_are_scaled_per_node_and_leave_zeros_out():
    found = products([payload(3, 4), payload(0, -0.0), payload(2.0**-40 * 4, 2.0**-40 * 3)])
    assert found.live == (0, 2)
    assert cosines(found.gram)[0][1] == 24 * UNIT // 25
    assert found.squares[0] == found.squares[1] << 80
    assert products([payload(0, 0)]).live == ()


def test_a_scale_of_one_node_touches_no_other_number():
    rows = [{"a": torch.randn(3000), "b": torch.randn(7, 11)} for _ in range(4)]
    before = products(rows)
    for power in (-90, -1, 1, 40):
        louder = {name: tensor * 2.0**power for name, tensor in rows[2].items()}
        after = products([*rows[:2], louder, rows[3]])
        assert after.gram == before.gram
        ratio = Fraction(after.squares[2], after.squares[0])
        assert ratio == Fraction(before.squares[2], before.squares[0]) * Fraction(4) ** power


def test_payloads_that_cannot_be_multiplied_are_refused():
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="not finite"):
            products([payload(1, 2), payload(1, value)])
    with pytest.raises(ValueError, match="no payload"):
        products([])
    # Subnormal numbers, which some devices take for zero, are zero everywhere.
    assert products([payload(1, 2), payload(1e-40, 0)]).live == (0,)
