# SPDX-License-Identifier: Apache-2.0
"""What is left of updates beyond known vectors: exact, and the same as by least squares."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.score.parts.known import remainders


def gram(rows: np.ndarray) -> list[list[int]]:
    return [[int(value) for value in row] for row in rows.astype(object) @ rows.astype(object).T]


def test_by_hand():
    # u = (3, 4, 0) without its part along (1, 0, 0) is (0, 4, 0); v = (1, 1, 1) leaves (0, 1, 1).
    rows = np.array([[1, 0, 0], [3, 4, 0], [1, 1, 1]])
    assert remainders(gram(rows), 1) == [[16, 4], [4, 2]]
    # Twice as long a known vector: the same, times the common factor 4.
    rows[0] *= 2
    assert remainders(gram(rows), 1) == [[64, 16], [16, 8]]


def test_without_known_vectors_nothing_changes():
    rows = np.array([[1, 2], [3, 4], [5, 6]])
    assert remainders(gram(rows), 0) == gram(rows)
    assert remainders([], 0) == []


def test_what_lies_in_the_span_leaves_nothing():
    rows = np.array([[1, 2, 3], [0, 1, 1], [1, 3, 4], [2, 5, 7], [0, 0, 1]])  # 2 and 3 are sums
    left = remainders(gram(rows), 3)
    assert left[0] == [0, 0] and left[1][1] > 0


def test_known_vectors_that_depend_on_others_change_no_digit():
    rows = np.random.default_rng(3).integers(-(2**19), 2**19, (6, 9))
    # Nothing, twice the first, and the difference of two: before, between and after the others.
    extra = [rows[0] * 0, rows[0], rows[0] * 2, rows[1], rows[2], rows[0] - rows[1]]
    left = remainders(gram(np.array([*extra, *rows[3:]])), len(extra))
    assert left == remainders(gram(rows), 3)


def test_refuses_more_known_vectors_than_there_are():
    with pytest.raises(ValueError, match="3 of 2 vectors"):
        remainders([[1, 0], [0, 1]], 3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(1, 4))
def test_equals_the_projection_of_rational_linear_algebra(seed, known, count):
    source = np.random.default_rng(seed)
    rows = source.integers(-(2**19), 2**19, (known + count, 9))
    left = remainders(gram(rows), known)
    exact = [[Fraction(int(value)) for value in row] for row in rows]
    for index in range(known):  # Gram-Schmidt
        pivot = exact[index]
        size = sum(value * value for value in pivot)
        for later in range(index + 1, len(exact)):
            share = sum(a * b for a, b in zip(exact[later], pivot, strict=True)) / size
            exact[later] = [a - share * b for a, b in zip(exact[later], pivot, strict=True)]
    rest = exact[known:]
    wanted = [[sum(a * b for a, b in zip(u, v, strict=True)) for v in rest] for u in rest]
    factor = Fraction(left[0][0]) / wanted[0][0]
    assert factor > 0
    assert left == [[value * factor for value in row] for row in wanted]
