# SPDX-License-Identifier: Apache-2.0
"""LossScores by hand, and what a ruined loss is worth."""

import math

import pytest

from agents.gauntlet.loss_score import from_nano, loss_score, to_nano


def test_the_score_by_hand():
    assert loss_score(2.5, 2.25) == 0.25
    assert loss_score(2.25, 2.5) == -0.25
    assert loss_score(2.5, 2.5) == 0


@pytest.mark.parametrize("ruined", [math.nan, math.inf, -math.inf])
def test_ruin_is_the_worst_and_never_a_win(ruined):
    assert loss_score(2.5, ruined) == -math.inf < loss_score(0.0, 1e300)
    assert to_nano(loss_score(2.5, ruined)) is None
    # From a ruined model all nodes tie, even one that would repair it.
    assert loss_score(ruined, 1.0) == loss_score(ruined, ruined) == 0


def test_a_huge_score_is_bounded():
    assert loss_score(1e308, -1e308) == 1e6
    assert loss_score(-1e308, 1e308) == -1e6
    assert to_nano(1e6) == 10**15


def test_published_as_whole_nano_nats():
    assert to_nano(0.0123456789012) == 12_345_679
    assert from_nano(to_nano(-0.25)) == -0.25
    assert from_nano(None) is None and to_nano(math.nan) is None
    for nano in (-(10**15), -7, 0, 1, 999_999_937, 10**15):
        assert to_nano(from_nano(nano)) == nano
