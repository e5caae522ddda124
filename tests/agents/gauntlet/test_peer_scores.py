# SPDX-License-Identifier: Apache-2.0
"""PeerScores, shares and vectors by hand, at every sign and zero edge, and for any input."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.gauntlet.peer_scores import normalise, peer_score, peer_score_by_rank, vector
from agents.gauntlet.ratings import FRESH, MICRO, Rating, ordinal
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.numbers import SCALE


def paper(scores: dict[int, float], power: float = 2.0) -> dict[int, float]:
    """The paper's shares: above the least, and squared."""
    return normalise(scores, power, above_least=True)


def rating(skill: float, sigma: float, mu: float) -> Rating:
    return Rating(round(skill * MICRO), round(sigma * MICRO), round(mu * MICRO))


def test_shares_by_hand():
    assert ordinal(rating(30, 4, 0.5)) == 18
    assert peer_score_by_rank(rating(30, 4, 0.5)) == 9
    assert paper({1: 9.0, 2: 3.0, 3: 0.0}) == pytest.approx({1: 0.9, 2: 0.1, 3: 0.0})
    # The least is 1: (4 - 1)^2 and (2 - 1)^2 of 10.
    assert paper({1: 4.0, 2: 2.0, 3: 1.0}) == pytest.approx({1: 0.9, 2: 0.1, 3: 0.0})
    assert paper({1: 3.0, 2: 1.0, 3: 0.0}, power=1) == {1: 0.75, 2: 0.25, 3: 0.0}
    assert vector({7: 0.9, 3: 0.1}, [3, 5, 7]) == [6553, 0, 58981]


@pytest.mark.parametrize(
    ("mu", "value", "worth"),
    [(0.5, 0.5, 0.25), (1, 1, 1), (-1, -1, 0), (0.5, 0, 0), (-0.1, 1, 0), (1, -0.1, 0)],
)
def test_work_shown_is_paid_as_far_as_it_is_of_use(mu, value, worth):
    """Two negatives are nothing here either, and skill is worth nothing."""
    assert peer_score(Rating(90 * MICRO, 1, round(mu * MICRO), round(value * MICRO))) == worth


def test_with_a_power_of_1_pay_is_linear_and_the_lowest_keeps_its_part():
    assert normalise({1: 1.0, 2: 2.0, 3: 1.0}) == {1: 0.25, 2: 0.5, 3: 0.25}


def test_by_default_half_of_the_best_score_is_paid_a_quarter_of_its_pay():
    assert normalise({1: 2.0, 2: 1.0}, Gauntlet().power) == {1: 0.8, 2: 0.2}


@pytest.mark.parametrize(("power", "part"), [(1.25, 1 / 32), (1.5, 1 / 64), (2.75, 1 / 2048)])
def test_powers_in_quarters_by_hand(power, part):
    """A sixteenth of the best score, to that power, is worth such a part of it."""
    assert normalise({1: 16.0, 2: 1.0}, power) == {1: 1 / (1 + part), 2: part / (1 + part)}


@pytest.mark.parametrize(
    ("skill", "sigma", "mu"),
    [(10, 5, -0.5), (30, 4, -1), (10, 5, 1), (30, 4, 0), (30, 10, 1), (25, 25 / 3 + 1e-6, 1)],
    ids=["neg x neg", "mu < 0", "ordinal < 0", "mu = 0", "ordinal = 0", "fresh rating"],
)
def test_no_factor_below_zero_or_at_zero_is_worth_anything(skill, sigma, mu):
    """Production, PR 108: zero updates, then random ones, made two negatives a huge positive."""
    assert peer_score_by_rank(rating(skill, sigma, mu)) == 0


def test_registering_again_is_a_clean_slate_worth_nothing():
    assert peer_score_by_rank(FRESH) == 0
    assert paper({1: peer_score_by_rank(FRESH), 2: 5.0}) == {1: 0.0, 2: 1.0}


def test_edges_that_the_paper_leaves_open_are_decided_so():
    assert paper({}) == {}
    assert paper({1: 0.0, 2: 0.0}) == {1: 0.0, 2: 0.0}
    assert paper({1: -3.0, 2: math.nan, 3: math.inf}) == {1: 0.0, 2: 0.0, 3: 0.0}
    assert paper({1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0}) == dict.fromkeys((1, 2, 3, 4), 0.25)
    assert paper({5: 1e-300}) == {5: 1.0}
    assert paper({1: 0.0, 2: 7.0, 3: -7.0}) == {1: 0.0, 2: 1.0, 3: 0.0}
    assert paper({1: 1e308, 2: 1e308, 3: 0.0}) == {1: 0.5, 2: 0.5, 3: 0.0}


def test_many_weak_registrations_earn_less_than_one_strong():
    """What c = 2 is for: 6 split over three registrations, beside an honest 6."""
    split = paper({1: 2.0, 2: 2.0, 3: 2.0, 9: 6.0, 10: 0.0})
    whole = paper({1: 6.0, 9: 6.0, 10: 0.0})
    assert split[1] + split[2] + split[3] == 0.25 < whole[1] == 0.5


def test_vectors_by_hand():
    assert vector({}, []) == []
    assert vector({1: 1.0}, [1, 2]) == [SCALE, 0]
    assert vector({1: 0.5, 2: 0.5}, [2]) == [32767]
    third = vector(paper({1: 1.0, 2: 1.0, 3: 1.0}), [3, 1, 2])
    assert third == [21845] * 3 and sum(third) == SCALE


@pytest.mark.parametrize(
    ("shares", "nodes", "reason"),
    [
        ({1: 0.5}, [1, 1], "occurs twice"),
        ({1: -0.1}, [1], "from 0 to 1"),
        ({1: 1.1}, [1], "from 0 to 1"),
        ({1: math.nan}, [1], "from 0 to 1"),
        ({1: 0.6, 2: 0.6}, [1, 2], "add up to 78642"),
    ],
)
def test_a_vector_of_repeated_nodes_or_bad_shares_is_refused(shares, nodes, reason):
    with pytest.raises(ValueError, match=reason):
        vector(shares, nodes)


SCORES = st.dictionaries(
    st.integers(0, 40),
    st.one_of(st.just(0.0), st.floats(0, 1e3), st.sampled_from([1.0, 1e-200, 1e200, 5e-324])),
    max_size=20,
)
POWERS = st.sampled_from([1.0, 1.25, 1.3, 1.5, 1.75, 2.0, 3.0, 4.0])


@settings(max_examples=120, deadline=None)
@given(SCORES, POWERS)
def test_shares_sum_to_one_or_are_all_zero(scores, power):
    shares = paper(scores, power)
    total = math.fsum(shares.values())
    assert shares.keys() == scores.keys()
    assert all(0 <= share <= 1 for share in shares.values())
    assert abs(total - (1 if any(scores.values()) else 0)) < 1e-12
    assert all(shares[node] == 0 for node, score in scores.items() if score == 0)
    fixed = vector(shares, sorted(scores))
    assert sum(fixed) <= SCALE and sum(fixed) >= SCALE * total - len(fixed) - 1
    assert all(isinstance(value, int) and 0 <= value <= SCALE for value in fixed)


@settings(max_examples=120, deadline=None)
@given(SCORES, POWERS, st.randoms())
def test_neither_order_nor_scale_matters_and_more_is_never_less(scores, power, random):
    nodes = list(scores)
    random.shuffle(nodes)
    shares = paper(scores, power)
    assert paper({node: scores[node] for node in nodes}, power) == shares
    small = {node: score for node, score in scores.items() if score < 1e150}
    if all(score == 0 or score > 1e-250 for score in small.values()):
        plain = paper(small, power)
        assert paper({n: s * 1024 for n, s in small.items()}, power) == plain
    for one in nodes:
        for other in nodes:
            if scores[one] >= scores[other]:
                assert shares[one] >= shares[other]


@settings(max_examples=120, deadline=None)
@given(
    st.integers(-80 * MICRO, 120 * MICRO),
    st.integers(1, 9 * MICRO),
    st.integers(-MICRO, MICRO),
    st.integers(0, MICRO),
    st.integers(0, 50 * MICRO),
)
def test_peer_score_is_monotone_in_mu_and_in_ordinal(skill, sigma, mu, more_mu, more_skill):
    plain = peer_score_by_rank(Rating(skill, sigma, mu))
    assert plain >= 0
    assert peer_score_by_rank(Rating(skill, sigma, min(MICRO, mu + more_mu))) >= plain
    assert peer_score_by_rank(Rating(skill + more_skill, sigma, mu)) >= plain
    assert peer_score_by_rank(Rating(skill, max(1, sigma - more_mu), mu)) >= plain
