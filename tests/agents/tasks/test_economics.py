# SPDX-License-Identifier: Apache-2.0
"""The article's table to its last digit, and the bounds against every order of drawing."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tasks.economics import (
    abort_expectation,
    abort_penalty_needed,
    article_expectation,
    article_stake,
    article_threshold,
    corrected_penalty,
    corrected_penalty_each,
    corrected_threshold,
    drawn,
    expectation,
    greatest_share,
    honest_at_once,
    honest_expectation,
    limit,
    pair_advantage,
    pair_gain,
    penalty_needed,
    rate_needed,
    threshold,
)
from tests.measure.studies.task_deterrence import watched_expectation

# honest, dishonest, probability of success and stake in dollars, as the article prints them.
ARTICLE = [
    (10, 90, "0.974211503", "3.777697842"),
    (100, 900, "0.972216505", "3.499259211"),
    (1_000, 9_000, "0.972021605", "3.474186444"),
    (10_000, 90_000, "0.97200216", "3.471704109"),
    (1, 99, "1", "-"),
    (10, 990, "0.999731174", "371.8879113"),
    (100, 9_900, "0.999704911", "338.781133"),
    (1_000, 99_000, "0.999702291", "335.7985534"),
]
PRICE = Fraction(1, 10)
SMALL_POOLS = [(d, n - d) for n in range(3, 8) for d in range(n + 1)]

shares = st.fractions(Fraction(1, 1000), Fraction(999, 1000), max_denominator=1000)
pools = st.tuples(st.integers(0, 400), st.integers(0, 400)).filter(lambda pool: sum(pool) >= 3)
amounts = st.integers(1, 10**24)


@pytest.mark.parametrize(("honest", "dishonest", "chance", "stake"), ARTICLE)
def test_the_rows_of_the_article_are_found_again(honest, dishonest, chance, stake):
    draw = drawn(dishonest, honest)
    assert round(draw.wins, 9) == Fraction(chance)
    found = article_stake(draw, PRICE)
    if stake == "-":
        assert found is None
    else:
        assert round(found, 10 - stake.index(".")) == Fraction(stake)


def test_figures_beside_the_table_are_found_again():
    """Each computed once by hand or with other code."""
    first = drawn(90, 10)
    assert first.one == Fraction(90 * 45, 161_700)
    assert corrected_penalty_each(first, PRICE) == Fraction("10.68")
    for share, article, corrected in [
        ("1/10", 0.029, 0.115),
        ("1/3", 0.350, 0.583),
        ("1/2", 1.0, 1.333),
        ("9/10", 34.7, 36.0),
    ]:
        draw = limit(Fraction(share))
        assert float(article_stake(draw, 1)) == pytest.approx(article, abs=0.05 * article)
        assert float(corrected_penalty(draw, 1)) == pytest.approx(corrected, abs=0.001)
    ninety = limit(Fraction(9, 10))
    lost = honest_at_once(ninety, PRICE, article_stake(ninety, PRICE))
    assert float(lost) == pytest.approx(-2.79, abs=0.005)


@pytest.mark.parametrize(("dishonest", "honest"), SMALL_POOLS)
def test_chances__every_order_of_three_nodes(dishonest, honest):
    """Two of the first three run; the third only if they differ."""
    pool = [True] * dishonest + [False] * honest
    seen = Counter()
    orders = list(permutations(range(len(pool)), 3))
    for order in orders:
        first, second, third = (pool[node] for node in order)
        seen["count", first + second + third] += 1
        if first == second:
            seen["wins"] += first
            seen["pair"] += first
        else:
            seen["split"] += 1
            seen["wins" if third else "loses"] += 1
            seen["framed"] += third
    draw = drawn(dishonest, honest)
    counts = (draw.none, draw.one, draw.two, draw.three)
    assert counts == tuple(Fraction(seen["count", i], len(orders)) for i in range(4))
    for name in ("wins", "loses", "pair", "split", "framed"):
        assert getattr(draw, name) == Fraction(seen[name], len(orders)), name
    assert draw.pair + draw.split + draw.none + draw.one / 3 == 1


@pytest.mark.parametrize(("dishonest", "honest"), SMALL_POOLS)
def test_bounds__enumerated_profits(dishonest, honest):
    """Profit per order of drawing, added up in whole units: fee 7, penalty 5, compute 2."""
    fee, penalty, collusion, compute = 7, 5, 11, 2
    pool = [True] * dishonest + [False] * honest
    always = leaves = watched = earned = lanes = 0
    orders = list(permutations(range(len(pool)), 3))
    for order in orders:
        cheats = [pool[node] for node in order]
        drawn_now = 2 if cheats[0] == cheats[1] else 3
        won = sum(cheats[:drawn_now]) >= 2
        if won:
            always += fee
            watched += fee if drawn_now == 2 else -2 * collusion
        elif any(cheats[:drawn_now]):
            always -= penalty
            watched -= penalty
        leaves += fee if all(cheats[:2]) else -penalty * any(cheats[:2])
        for cheat in cheats[:drawn_now]:
            if not cheat:
                lanes += 1
                earned += -2 * penalty - 2 * compute if won else fee - 2 * compute
    draw = drawn(dishonest, honest)
    assert expectation(draw, fee, penalty) == Fraction(always, len(orders))
    assert watched_expectation(draw, fee, penalty, collusion) == Fraction(watched, len(orders))
    assert abort_expectation(draw, fee, penalty) == Fraction(leaves, len(orders))
    if lanes:
        assert honest_expectation(draw, fee, penalty, compute) == Fraction(earned, 2 * lanes)


@given(pools, amounts)
def test_bounds_are_tight(pool, fee):
    draw = drawn(*pool)
    for bound, profit in [
        (article_stake, article_expectation),
        (penalty_needed, expectation),
        (abort_penalty_needed, abort_expectation),
    ]:
        needed = bound(draw, fee)
        if needed is None:
            assert profit(draw, fee, 10**30) > 0
        elif needed:
            assert profit(draw, fee, needed) == 0
            assert profit(draw, fee, needed + 1) < 0 < profit(draw, fee, needed - 1)


@given(pools)
def test_bounds_keep_their_order(pool):
    draw = drawn(*pool)
    article, corrected = article_stake(draw, 1), corrected_penalty(draw, 1)
    needed, leave = penalty_needed(draw, 1), abort_penalty_needed(draw, 1)
    if corrected is None:
        assert needed is None
    else:
        assert article <= corrected
        assert needed == corrected * Fraction(3, 2)
        assert leave <= needed
        assert corrected_penalty_each(draw, 1) >= 2 * corrected


@given(shares, shares, st.sampled_from([article_stake, corrected_penalty, penalty_needed]))
def test_bounds_rise_with_the_share(one, other, bound):
    low, high = sorted((one, other))
    if low < high:
        assert bound(limit(low), 1) < bound(limit(high), 1)
        assert abort_penalty_needed(limit(low), 1) < abort_penalty_needed(limit(high), 1)


@given(st.integers(3, 300), amounts)
def test_bounds_rise_with_the_attackers_nodes(nodes, fee):
    bounds = [penalty_needed(drawn(d, nodes - d), fee) for d in range(nodes + 1)]
    sized = [bound for bound in bounds if bound is not None]
    assert sized == sorted(sized)
    assert bounds[-2:] == [None, None]  # one honest node or none: nobody contradicts the fake


@given(shares)
def test_bounds_are_these_functions_of_the_share(x):
    draw, rest = limit(x), 1 - x
    assert draw.none + draw.one + draw.two + draw.three == 1
    assert draw.wins == x**2 * (3 - 2 * x)
    assert (draw.pair, draw.split) == (x**2, 2 * x * rest)
    assert corrected_penalty(draw, 1) == x * (3 - 2 * x) / (3 * rest**2)
    assert penalty_needed(draw, 1) == x * (3 - 2 * x) / (2 * rest**2)
    assert abort_penalty_needed(draw, 1) == x / (2 * rest)
    assert honest_at_once(draw, 1, 1) == 1 - 2 * x**2


@given(shares, st.integers(1, 50))
def test_a_large_pool_is_nearly_endless(x, times):
    """Chances of three draws differ by at most 3 · 2 / (n - 2), which falls as 1/n."""
    nodes = 1000 * times * x.denominator
    finite, endless = drawn(int(x * nodes), int((1 - x) * nodes)), limit(x)
    for name in ("none", "one", "two", "three", "wins"):
        assert abs(getattr(finite, name) - getattr(endless, name)) < Fraction(6, nodes - 2)


def best_profit(dishonest, honest, penalty, leaving, compute=None):
    """What an attacker makes at a fee of 1 whose nodes fake, work or leave, whichever is best.

    Every situation that the contract can bring about is gone through: it knows whom its node was
    drawn with, a lane that was left is drawn again, there are five lanes and three results at most.
    `compute`: what honest work costs it; None if it can't do any.
    """

    @cache
    def more(fakes, works, truths, d, h, lanes):
        """With so many fakes, own and other true results waiting, nodes left and lanes used."""
        if fakes == 2:
            return Fraction(1)
        if works + truths == 2:
            return Fraction(works, 2) - (penalty if fakes else 0)
        need = 2 - fakes - works - truths or 1
        if lanes + need > 5 or d + h < need:
            return Fraction(0)  # undecided: the fee goes back, nobody is slashed for a result
        total = Fraction(0)
        for own in range(need + 1):
            chance = Fraction(math.comb(d, own) * math.comb(h, need - own), math.comb(d + h, need))
            if chance:
                total += chance * max(
                    more(
                        fakes + own - left - work,
                        works + work,
                        truths + need - own,
                        d - own,
                        h - need + own,
                        lanes + need,
                    )
                    - left * leaving
                    - work * (compute or 0)
                    for left in range(own + 1)
                    for work in range(own - left + 1 if compute is not None else 1)
                )
        return total

    return more(0, 0, 0, dishonest, honest, 0)


@pytest.mark.parametrize(("dishonest", "honest"), [(2, 4), (3, 6), (5, 5), (6, 3), (8, 2)])
def test_leaving_is_no_way_out(dishonest, honest):
    """With both penalties equal nobody who can't compute does better than to fake everywhere."""
    draw = drawn(dishonest, honest)
    bound = penalty_needed(draw, 1)
    for penalty in (bound / 2, bound, 2 * bound):
        assert best_profit(dishonest, honest, penalty, penalty) == expectation(draw, 1, penalty)
    # Where leaving is free no penalty for a lost comparison is large enough.
    assert best_profit(dishonest, honest, 1000 * bound, Fraction(0)) >= draw.pair > 0
    # And what `abort_penalty_needed` asks for is enough: later draws only cost the attacker more.
    leaving = abort_penalty_needed(draw, 1)
    assert best_profit(dishonest, honest, 1000 * bound, leaving) <= 0


@pytest.mark.parametrize(("dishonest", "honest"), [(2, 4), (3, 6), (5, 5), (6, 3)])
def test_who_can_compute_fakes_own_pairs_only(dishonest, honest):
    """At the bound of always faking the best there is beats honest work by two computations, in
    own pairs; so no penalty for a lost comparison takes that away."""
    draw = drawn(dishonest, honest)
    bound = penalty_needed(draw, 1)
    lanes = 2 * draw.pair + draw.split  # own nodes drawn, if all work
    for compute in (Fraction(1, 10), Fraction(1, 2)):
        works = lanes * (Fraction(1, 2) - compute)
        for penalty in (bound, 1000 * bound):
            best = best_profit(dishonest, honest, penalty, penalty, compute)
            assert best == works + draw.pair * pair_advantage(compute, 10**9, Fraction(0))


def test_shares_at_which_honest_nodes_lose():
    """The roots of the forms in x, here found from polynomials."""
    x = article_threshold()
    p = x * x * (3 - 2 * x)
    assert x == pytest.approx(0.597, abs=0.0005)
    assert (1 - x * x) * (1 - p) == pytest.approx(x * x * p, abs=1e-9)
    x = corrected_threshold()
    assert x == pytest.approx(0.578, abs=0.0005)
    assert 3 * (1 - x) ** 2 * (1 - x * x) == pytest.approx(x**3 * (3 - 2 * x), abs=1e-9)
    assert threshold() == pytest.approx(0.5, abs=1e-11)


@given(shares, st.fractions(Fraction(1, 10), 50, max_denominator=100))
def test_the_honest_side_is_the_attackers_mirror(x, penalty):
    """Per task: what all honest nodes make at x is what the attacker makes at 1 - x."""
    draw = limit(x)
    per_task = honest_expectation(draw, 1, penalty) * (2 * (draw.none + draw.one) + draw.framed)
    assert per_task == expectation(limit(1 - x), 1, penalty)


def test_the_greatest_share_is_where_the_profit_changes_sign():
    assert greatest_share(lambda draw: draw.three < Fraction(1, 8)) == pytest.approx(0.5)
    assert greatest_share(lambda draw: True) == pytest.approx(1)
    assert greatest_share(lambda draw: False) == 0
    # The bound's own inverse.
    needed = penalty_needed(limit(Fraction(7, 10)), 1)
    assert greatest_share(lambda draw: expectation(draw, 1, needed) < 0) == pytest.approx(0.7)


@given(st.integers(1, 10**20), st.integers(1, 10**20))
def test_own_pairs__the_rate_takes_the_advantage(compute, collusion):
    rate = rate_needed(compute, collusion)
    if rate is None:
        assert compute > collusion
        assert pair_advantage(compute, collusion, Fraction(1)) > 0
    else:
        assert pair_advantage(compute, collusion, rate) == 0
        # If computing costs half the fee, the same rate takes the whole of it.
        assert pair_gain(2 * compute, collusion, rate) == 0
        assert pair_advantage(compute, collusion, rate / 2) > 0


def test_own_pairs__without_audits_nothing_deters():
    assert pair_advantage(3, 10**9, Fraction(0)) == 6
    assert pair_gain(7, 10**9, Fraction(0)) == 7
    assert rate_needed(3, 0) is None


@given(pools, st.integers(1, 100), st.integers(1, 1000), st.integers(1, 1000))
def test_whoever_appeals_makes_it_worse_for_the_cheat(pool, fee, penalty, collusion):
    draw = drawn(*pool)
    watched = watched_expectation(draw, fee, penalty, collusion)
    assert watched <= expectation(draw, fee, penalty)
    audited = watched_expectation(draw, fee, penalty, collusion, Fraction(1, 2))
    assert audited == watched - draw.pair * collusion


@pytest.mark.parametrize(("dishonest", "honest"), [(1, 1), (0, 2), (-1, 9), (9, -1)])
def test_drawn__fewer_than_three__is_refused(dishonest, honest):
    with pytest.raises(ValueError, match="can't be drawn"):
        drawn(dishonest, honest)


def test_impossible_pools_are_refused():
    for share in (Fraction(-1, 10), Fraction(11, 10)):
        with pytest.raises(ValueError, match="from 0 to 1"):
            limit(share)
    for alone in (limit(Fraction(1)), drawn(5, 0)):
        for honest in (honest_at_once, honest_expectation):
            with pytest.raises(ValueError, match="no honest node"):
                honest(alone, 1, 1)


def test_chances_are_exact_for_large_pools():
    draw = drawn(99_000, 1_000)
    assert draw.three == Fraction(math.comb(99_000, 3), math.comb(100_000, 3))
    assert sum((draw.none, draw.one, draw.two, draw.three)) == 1
