# SPDX-License-Identifier: Apache-2.0
"""Gauntlet's options, whom it merges, which norms it believes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import score as score_rules
from agents.mechanisms.score import Evidence, Scores
from agents.mechanisms.score.gauntlet import Gauntlet
from tests.stage.memory.payloads import payload


def test_found_by_name_and_needs_no_gains():
    assert score_rules.get("gauntlet") is Gauntlet and "gauntlet" in score_rules.names()
    assert Gauntlet.needs_gains is False


def test_a_proposal_says_only_who_is_payable():
    nodes = [payload(1, 2), payload(0, 0), payload(-9, 1e9)]
    scores = Gauntlet()(nodes, [3, 0, 5], Evidence(nodes[0]))
    assert scores == Scores((1_000_000,) * 3, (1_000_000,) * 3)


@pytest.mark.parametrize(
    ("payloads", "batches", "words"),
    [
        ([payload(1)], [1, 2], "do not match"),
        ([payload(1)], [-1], "negative"),
        ([], [], "no payload"),
    ],
)
def test_mixed_input_is_refused(payloads, batches, words):
    with pytest.raises(ValueError, match=words):
        Gauntlet()(payloads, batches)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            ("gamma", 1.0),
            ("gamma", "0.9"),
            ("step_share", 0),
            ("evaluated", 1),
            ("evaluated", 2.0),
        ],
        *[("top", 0), ("power", 0.5), ("sync_limit", math.inf), ("fast_penalty", 1.5)],
        *[("norm_ratio", 0.5), ("overlap", 0), ("overlap_margin", 0), ("eval_batches", True)],
        *[("samples", 0), ("skill_beta", 0), ("skill_tau", math.nan)],
    ],
)
def test_options_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} of gauntlet must"):
        Gauntlet(**{name: value})


@pytest.mark.parametrize(
    ("measured", "extra", "most"), [(6, 0, 6), (6, 1, 6), (6, 2, 3), (7, 3, 2), (7, 7, 1)]
)
def test_no_more_are_assigned_than_are_measured_with_their_extra_ones(measured, extra, most):
    assert Gauntlet(eval_batches=measured, extra=extra).most_assigned == most


def test_more_extra_batches_than_are_measured_are_refused():
    assert Gauntlet(eval_batches=2, extra=2).most_assigned == 1
    with pytest.raises(ValueError, match="extra must be at most 2, got 3"):
        Gauntlet(eval_batches=2, extra=3)


def test_select_by_hand():
    rule = Gauntlet(top=3)
    standing = {1: 10, 2: 40, 3: 40, 4: 0, 5: 7, 9: 60_000}
    assert rule.select([5, 4, 3, 2, 1], standing) == (1, 2, 3)
    assert rule.select([5, 4, 1], standing) == (1, 5)
    assert Gauntlet(top=1).select([3, 2], standing) == (2,)  # of equals, the lower id
    # Nobody here has scored: all, however many.
    assert rule.select([4, 8, 7, 6], standing) == (4, 6, 7, 8)
    assert rule.select([3, 1, 2, 4], {}) == (1, 2, 3, 4)
    assert rule.select([], standing) == ()


NODES = st.lists(st.integers(0, 30), unique=True, max_size=20)
STANDING = st.dictionaries(st.integers(0, 30), st.integers(0, 65_535), max_size=20)


@settings(max_examples=120, deadline=None)
@given(NODES, STANDING, st.integers(1, 12), st.randoms())
def test_select_for_any_standing(nodes, standing, top, random):
    rule = Gauntlet(top=top)
    chosen = rule.select(nodes, standing)
    rated = {node for node in nodes if standing.get(node, 0) > 0}
    assert list(chosen) == sorted(set(chosen)) and set(chosen) <= set(nodes)
    if rated:
        assert set(chosen) <= rated and len(chosen) == min(top, len(rated))
        left = rated - set(chosen)
        if left:
            assert max(standing[node] for node in left) <= min(standing[n] for n in chosen)
    else:
        assert set(chosen) == set(nodes)
    assert rule.select(random.sample(nodes, len(nodes)), standing) == chosen


def test_plausible_norms_by_hand():
    rule = Gauntlet(norm_ratio=4)
    norms = {1: 1.0, 2: 2.0, 3: 1.5, 4: 6.0, 5: 6.1, 6: 0.375, 7: 0.374, 8: 0.0}
    norms |= {9: math.inf, 10: math.nan, 11: -1.0}
    # Sound: 0.374 0.375 1 1.5 2 6 6.1; the median is 1.5.
    assert rule.plausible_norms(norms) == {1, 2, 3, 4, 6}
    assert rule.plausible_norms({}) == set()
    assert rule.plausible_norms({1: 0.0, 2: math.nan}) == set()
    assert rule.plausible_norms({1: 1e-30}) == {1}


def test_of_two_that_disagree_the_shorter_is_believed():
    assert Gauntlet().plausible_norms({1: 1.0, 2: 1e6}) == {1}
    assert Gauntlet().plausible_norms({1: 1e300, 2: 1.0, 3: 1e300, 4: 1.0}) == {2, 4}


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.floats(1, 1.9), min_size=2, max_size=12),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=11),
)
def test_fewer_than_half_liars_evict_no_honest_norm(honest, liars):
    """Norm blow-up: honest norms within a factor of 1.9; the rest send what they like."""
    liars = liars[: len(honest) - 1]
    norms = dict(enumerate([*honest, *liars]))
    kept = Gauntlet(norm_ratio=2).plausible_norms(norms)
    assert set(range(len(honest))) <= kept
    assert all(0.5 <= norms[node] <= 4 for node in kept)
