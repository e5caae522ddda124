# SPDX-License-Identifier: Apache-2.0
"""SyncScore by hand, for what is no number, and for nodes that are some updates behind."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.gauntlet.sync_score import sync_score


def values(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def test_the_score_by_hand():
    # Mean of 0.25, 0.5, 0 and 0.25, over 0.125.
    assert sync_score(values(1.25, 0.5, -1, 2), values(1, 1, -1, 1.75), 0.125) == 2.0
    assert sync_score(values(1, -2), values(1, -2), 1e-3) == 0
    assert sync_score(values(0.0), values(-0.0), 1e-3) == 0


def test_the_smallest_step_off_is_seen():
    one = values(1.0)
    assert 0 < sync_score(np.nextafter(one, values(2.0)), one, 1e-3) < 1e-3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_infinitely_far_off(bad):
    assert sync_score(values(1, bad), values(1, 1), 0.1) == math.inf


@pytest.mark.parametrize(
    ("theirs", "ours", "alpha", "reason"),
    [
        (values(), values(), 0.1, "can't be compared"),
        (values(1), values(1, 2), 0.1, "can't be compared"),
        (values(1).reshape(1, 1), values(1).reshape(1, 1), 0.1, "can't be compared"),
        (values(1), values(1), 0.0, "positive"),
        (values(1), values(1), -0.1, "positive"),
        (values(1), values(1), math.nan, "positive"),
        (values(1), values(math.nan), 0.1, "not finite"),
    ],
)
def test_bad_samples_and_units_are_refused(theirs, ours, alpha, reason):
    with pytest.raises(ValueError, match=reason):
        sync_score(theirs, ours, alpha)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-9, 9, width=32), st.floats(-9, 9, width=32)), min_size=1),
    st.randoms(),
)
def test_order_and_side_do_not_matter(pairs, random):
    theirs, ours = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    order = random.sample(range(len(pairs)), len(pairs))
    score = sync_score(theirs, ours, 0.5)
    assert score == sync_score(theirs[order], ours[order], 0.5) == sync_score(ours, theirs, 0.5)
    assert score == pytest.approx(np.mean(np.abs(theirs.astype(float) - ours)) / 0.5)


def test_updates_of_signs_cancel_like_a_random_walk():
    """The figures of the module: after 3 updates 1.5, after 20 3.5, when signs are as often + as -.

    So the paper's limit of 3 lets a node pass that is three rounds behind.
    """
    generator = np.random.default_rng(3)
    for rounds, mean in ((1, 1.0), (3, 1.5), (20, 3.524)):
        steps = generator.choice([-1, 1], (rounds, 40_000)).sum(0).astype(np.float32)
        behind = sync_score(np.zeros_like(steps), steps * np.float32(0.5), 0.5)
        assert behind == pytest.approx(mean, rel=0.02)
    together = sync_score(values(0, 0), values(1.5, -1.5), 0.5)
    assert together == 3.0  # All steps one way: the full count.
