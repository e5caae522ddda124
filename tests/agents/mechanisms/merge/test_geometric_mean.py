# SPDX-License-Identifier: Apache-2.0
"""geometric_mean: by hand, within one fp32 step of the root, and what a liar makes of it."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.mechanisms import merge as merge_rules
from tests.stage.memory.payloads import cluster, payload, same_bits

MAGNITUDES = st.floats(
    min_value=2.0**-149, max_value=2.0**127, width=32, allow_nan=False, allow_infinity=False
)


def merge(payloads):
    return merge_rules.get("geometric_mean")()(payloads)


def test_by_hand():
    rows = [payload(2, -2, 0, 0, -4), payload(8, -8, 5, -6, 6), payload(32, -4, 9, -1, 1)]
    # Third and fourth: a zero among them. Fifth: mixed signs, so (-4 + 6 + 1) / 3.
    assert merge(rows)["a"].tolist() == [8, -4, 0, 0, 1]


@given(st.lists(MAGNITUDES, min_size=1, max_size=6), st.booleans())
def test_no_fp32_number_next_to_it_is_nearer_the_root(values, negative):
    sign = -1.0 if negative else 1.0
    (got,) = (sign * merge([payload(sign * value) for value in values])["a"]).tolist()
    product = math.prod(map(Fraction, values))
    step = float(np.spacing(np.float32(got)))
    below, above = (Fraction(got) + side * Fraction(step) for side in (-1, 1))
    assert max(below, 0) ** len(values) < product < above ** len(values)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_payloads_are_given_back(count):
    (one,) = cluster(1, 1000, seed=3)
    assert same_bits(merge([one] * count), one)


def test_the_order_of_payloads_changes_no_bit():
    rows = cluster(4, 2000, 0.5, seed=4)
    first = merge(rows)
    assert all(same_bits(first, merge(list(order))) for order in permutations(rows))


def test_one_liar_shrinks_it_without_a_long_payload():
    honest = [payload(1.0)] * 9
    assert merge([*honest, payload(1e-38)])["a"].item() == pytest.approx(10**-3.8, rel=1e-6)
    mean = merge_rules.get("mean")()([*honest, payload(1e-38)])["a"].item()
    assert mean == pytest.approx(0.9)
