# SPDX-License-Identifier: Apache-2.0
"""What a round pays by hand: what is shown bounds mu, and the evaluated have two thirds of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.gauntlet.peer_scores import peer_score
from agents.gauntlet.present import Present, bounded, round_shares
from agents.gauntlet.ratings import FRESH, MICRO, Rating


def rated(**mus: float) -> dict[int, Rating]:
    """Nodes 1, 2, ... of value 1, by their mu."""
    return {
        node: Rating(25 * MICRO, MICRO, round(mu * MICRO), MICRO)
        for node, mu in enumerate(mus.values(), start=1)
    }


def micro(shown: Mapping[int, float], value: float = 1.0) -> dict[int, Present]:
    """Nodes whose updates are as good as usual, by the work that they show."""
    return {n: Present(round(work * MICRO), round(value * MICRO)) for n, work in shown.items()}


def mus(ratings: Mapping[int, Rating], shown: Mapping[int, float]) -> list[float]:
    return [rating.mu / MICRO for rating in (ratings | bounded(ratings, micro(shown))).values()]


def paid(ratings: Mapping[int, Rating], shown: Mapping[int, float]) -> dict[int, float]:
    """Shares by a power of 1."""
    return round_shares(ratings, micro(shown), 1.0)


EQUAL = rated(a=0.4, b=0.4, c=0.4, d=0.4)


@pytest.mark.parametrize(
    ("shown", "bound"),
    [
        ({1: 0.4, 2: 0.4, 3: 0.1}, [0.4, 0.4, 0.1, 0.4]),
        ({1: 0.4, 2: 0.4, 3: 0.0}, [0.4, 0.4, 0.0, 0.4]),
        ({1: 0.4, 2: 0.4, 3: -0.2}, [0.4, 0.4, 0.0, 0.4]),
        # Twice what ratings promise is usual: by that measure the third shows an eighth.
        ({1: 0.8, 2: 0.8, 3: 0.1}, [0.4, 0.4, 0.05, 0.4]),
        # A round in which most show less than their ratings: no ratio below 1 is usual.
        ({1: 0.2, 2: 0.2, 3: 0.1}, [0.2, 0.2, 0.1, 0.4]),
        # Of two middle ratios the larger.
        ({1: 0.4, 2: 0.8, 3: 0.0, 4: 0.0}, [0.4, 0.4, 0.0, 0.0]),
        ({1: 0.4, 2: 0.8, 3: 0.8, 4: 0.0}, [0.2, 0.4, 0.4, 0.0]),
        ({}, [0.4, 0.4, 0.4, 0.4]),
    ],
    ids=["less", "nothing", "harm", "young ratings", "hard round", "two", "larger", "nobody"],
)
def test_who_shows_less_than_its_rating_is_paid_for_what_it_shows(
    shown: dict[int, float], bound: list[float]
) -> None:
    assert mus(EQUAL, shown) == bound


def test_an_update_of_less_use_than_its_value_is_paid_for_its_use() -> None:
    """A payload sent again: it may show work by chance, and does little to the loss."""
    now = micro({1: 0.4, 2: 0.4}) | micro({3: 0.4}, value=0.25) | micro({4: 0.4}, value=-1.0)
    found = bounded(EQUAL, now)
    assert [found[n].value / MICRO for n in EQUAL] == [1.0, 1.0, 0.25, 0.0]
    assert {found[n].mu / MICRO for n in EQUAL} == {0.4}


def test_the_bound_raises_nobody_and_leaves_the_rest_of_a_rating() -> None:
    low = rated(a=0.4, b=0.4, c=-0.1, d=0.0)
    assert mus(low, {1: 0.4, 2: 0.8, 3: 0.8, 4: 0.8}) == [0.2, 0.4, -0.1, 0.0]
    assert bounded({5: FRESH}, micro({5: 1.0})) == {5: FRESH}
    assert bounded(low, {}) == {}


def test_two_thirds_go_to_the_evaluated_and_the_rest_by_rating_to_all() -> None:
    assert paid(EQUAL, {2: 0.4}) == pytest.approx({1: 1 / 12, 2: 3 / 4, 3: 1 / 12, 4: 1 / 12})
    two = paid(EQUAL, {1: 0.4, 2: 0.4})
    assert two == pytest.approx({1: 5 / 12, 2: 5 / 12, 3: 1 / 12, 4: 1 / 12})
    for shown in (dict.fromkeys(EQUAL, 0.4), {}):
        assert paid(EQUAL, shown) == pytest.approx(dict.fromkeys(EQUAL, 1 / 4))


def test_they_share_it_by_what_they_show() -> None:
    """Of two thirds: a half, a quarter and nothing of what the others have. A third by rating."""
    none = paid(EQUAL, {1: 0.4, 2: 0.4, 3: 0.4, 4: 0.0})
    assert none == pytest.approx(dict.fromkeys((1, 2, 3), 2 / 9 + 1 / 12) | {4: 1 / 12})
    half = paid(EQUAL, {1: 0.4, 2: 0.4, 3: 0.4, 4: 0.2})
    assert half == pytest.approx(dict.fromkeys((1, 2, 3), 4 / 21 + 1 / 12) | {4: 2 / 21 + 1 / 12})


def test_none_has_more_than_twice_what_its_rating_gives() -> None:
    """One of four shows something: a half of two thirds, and a quarter of the rest."""
    rest = 1 / 4 * (1 - 1 / 3)
    assert paid(EQUAL, {1: 0.4, 2: 0.0, 3: 0.0, 4: 0.0}) == pytest.approx(
        dict.fromkeys((2, 3, 4), rest) | {1: 1 / 3 + rest}
    )
    for evaluated in (EQUAL, (1, 2, 3)):
        shown = paid(EQUAL, dict.fromkeys(evaluated, -0.1))
        assert shown == pytest.approx(dict.fromkeys(EQUAL, 1 / 4))


@pytest.mark.parametrize("evaluated", [2, 4, 8, 15, 16])
def test_a_round_without_work_pays_a_third_of_a_fair_share(evaluated: int) -> None:
    """Of 16 equal nodes one shows nothing. Who works has more than a fair share on average."""
    equal = rated(**{f"node {n}": 0.4 for n in range(16)})
    others = dict.fromkeys(range(2, evaluated + 1), 0.4)
    spared = paid(equal, others | {evaluated + 1: 0.4} if evaluated < 16 else others)
    drawn = paid(equal, others | {1: 0.0})
    assert drawn[1] == pytest.approx(1 / 48)
    assert evaluated == 16 or spared[1] == pytest.approx(1 / 48)
    assert drawn[2] > 1 / 16


def test_newcomers_alone_have_no_two_thirds() -> None:
    """Their ratings are a tenth of the others': of two thirds they have as much as a tenth."""
    mixed = rated(a=0.4, b=0.4, c=0.4, d=0.04)
    by_rating = {1: 10 / 31, 2: 10 / 31, 3: 10 / 31, 4: 1 / 31}
    part = 2 / 3 * 4 / 31
    assert paid(mixed, {4: 0.4}) == pytest.approx(
        {n: (1 - part) * share + part * (n == 4) for n, share in by_rating.items()}
    )


def test_who_has_no_rating_changes_nobody_s_part() -> None:
    crowd = EQUAL | dict.fromkeys(range(10, 90), FRESH)
    nothing = dict.fromkeys(range(10, 90), 0.0)
    for shown in ({2: 0.4}, {2: 0.4, 10: 1.0}, {10: 1.0}, {}):
        kept = {node: work for node, work in shown.items() if node in EQUAL}
        assert paid(crowd, shown) == pytest.approx(paid(EQUAL, kept) | nothing)
    assert paid({1: FRESH, 2: FRESH}, {1: 1.0}) == {1: 0.0, 2: 0.0}


FIGURE = st.integers(-MICRO, MICRO)
NOW = st.one_of(st.none(), st.builds(Present, FIGURE, FIGURE))


@given(st.lists(st.tuples(FIGURE, FIGURE, NOW), min_size=1, max_size=12))
def test_nothing_is_raised_and_who_shows_more_has_no_less(
    nodes: list[tuple[int, int, Present | None]],
) -> None:
    ratings = {n: Rating(0, 1, mu, value) for n, (mu, value, _) in enumerate(nodes)}
    now = {n: present for n, (_, _, present) in enumerate(nodes) if present is not None}
    found, shares = bounded(ratings, now), round_shares(ratings, now, 1.25)
    assert found.keys() == now.keys() and shares.keys() == ratings.keys()
    assert all(0 <= share <= 1 for share in shares.values())
    assert sum(shares.values()) == pytest.approx(float(any(map(peer_score, ratings.values()))))
    for n, present in now.items():
        assert found[n].mu <= min(ratings[n].mu, max(0, present.work))
        assert found[n].value <= min(ratings[n].value, max(0, present.value))
        for other, more in now.items():
            if ratings[n].mu <= ratings[other].mu and present.work <= more.work:
                assert found[n].mu <= found[other].mu
