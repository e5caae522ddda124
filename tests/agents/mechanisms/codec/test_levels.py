# SPDX-License-Identifier: Apache-2.0
"""Two levels of least error, and even levels: by hand and beside all there are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts.bits import from_bf16
from agents.mechanisms.codec.parts.even_levels import even_levels
from agents.mechanisms.codec.parts.two_levels import two_levels


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def test_two_levels_by_hand():
    levels, upper = two_levels(rows([8, 1, 10, 2], [5, 5, 5, 5], [0, 0, 0, 3]))
    assert levels.tolist() == [[1.5, 9], [5, 5], [0, 3]]
    assert upper.tolist() == [[True, False, True, False], [False] * 4, [False, False, False, True]]
    levels, upper = two_levels(rows([7]))
    assert (levels.tolist(), upper.tolist()) == ([[7, 7]], [[False]])


def error(values: np.ndarray, levels: np.ndarray, upper: np.ndarray) -> float:
    return float(np.square(values - levels[upper.astype(int)]).sum())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9))
def test_no_split_is_better(values):
    row = np.array(values, np.float32)
    ((levels,), (upper,)) = two_levels(row[None])
    found = error(row.astype(float), levels, upper)
    for threshold in values:
        high = row > threshold
        if high.any():
            means = np.array([row[~high].mean(dtype=float), row[high].mean(dtype=float)])
            assert found <= error(row.astype(float), means, high) + 1e-6
    # Something is high just if the levels differ, and never everything.
    assert upper.any() == (levels[0] < levels[1])
    assert not upper.all()


def test_even_levels_by_hand():
    # A step of 12 / 4: nothing of the first row is off by more than 0.5.
    steps, levels = even_levels(rows([12, 6, 3.5], [0, 0, 0]), 4, 2.0**39)
    assert from_bf16(steps).tolist() == [3, 0]
    assert levels.tolist() == [[4, 2, 1], [0, 0, 0]]
    # One level: the mean.
    steps, levels = even_levels(rows([6, 1, 2]), 1, 2.0**39)
    assert (from_bf16(steps).tolist(), levels.tolist()) == ([3], [[1, 1, 1]])
    # Many levels: the largest is the top, a small one is 1.
    steps, levels = even_levels(rows([128, 64.4, 0.01]), 128, 2.0**39)
    assert (from_bf16(steps).tolist(), levels.tolist()) == ([1], [[128, 64, 1]])


def test_with_few_levels_an_outlier_does_not_take_the_rest():
    row = rows([100, 10, 10, 10, 10, 10, 10, 9, 9, 9, 9, 9, 9, 9, 9, 9])
    steps, levels = even_levels(row, 2, 2.0**39)
    said = levels * from_bf16(steps)[:, None]
    plain = np.where(row > 75, 100.0, 50.0)
    assert np.square(said - row).sum() < np.square(plain - row).sum()
    assert levels.max() == 2


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4, 8, 64, 128, 32768]))
def test_the_largest_is_always_the_top(seed, top):
    rng = np.random.default_rng(seed)
    table = np.abs(rng.normal(size=(7, 11)) * 10.0 ** rng.integers(-30, 8)).astype(np.float32)
    steps, levels = even_levels(table, top, 2.0**39)
    assert (levels.max(axis=1) == top).all() and (levels.min(axis=1) >= 1).all()
    if top > 8:
        worst = np.abs(levels * from_bf16(steps)[:, None] - table).max(axis=1)
        step = from_bf16(steps)
        # Half a step, plus BF16's rounding of the step, plus what is said as 1 for less.
        assert (worst <= np.maximum(step, step / 2 + table.max(axis=1) * 2.0**-8)).all()


def test_too_large_is_refused():
    with pytest.raises(OverflowError):
        even_levels(rows([1e30]), 1, 2.0**39)
