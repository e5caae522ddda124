# SPDX-License-Identifier: Apache-2.0
"""What a network's numbers deter: penalties that one stake can pay, and verdicts by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tasks.deterrence import SHARES, Parameters, deterrence, least_penalty, loss_expected
from agents.tasks.economics import pair_advantage

ZOO = 10**18
GIVEN = Parameters(
    stake=100 * ZOO,
    fee=ZOO,
    compute=ZOO // 2,
    mismatch_bps=2_000,
    abort_bps=2_000,
    collusion_bps=5_000,
    audit_rate=Fraction(1, 20),
    reporter_bps=5_000,
    nodes=10,
    open_lanes=4,
)


@pytest.mark.parametrize(
    ("bps", "lanes", "average"),
    [
        (2_000, 1, 20),
        (2_000, 2, 18),  # 20, then 20 % of 80
        (2_000, 3, 18),  # 20 + 16 + 64: the third strike takes all
        (5_000, 4, 25),  # 50 + 25 + 25 + 0
        (10_000, 2, 50),
        (0, 2, 0),
    ],
)
def test_least_penalty__one_stake_for_all_lanes(bps, lanes, average):
    assert least_penalty(100, bps, lanes) == average


def test_least_penalty__refusals():
    for stake, bps, lanes in ((100, 10_001, 1), (100, -1, 1), (100, 1, 0), (-1, 1, 1)):
        with pytest.raises(ValueError, match="bps of a stake"):
            least_penalty(stake, bps, lanes)


@pytest.mark.parametrize("tasks", [0, 1, 2, 3, 6])
def test_loss_expected__all_ways_to_be_found(tasks):
    rate, total = 0.3, 0.0
    for found in product((False, True), repeat=tasks):
        chance, rest, strikes = 1.0, 100.0, 0
        for caught in found:
            chance *= rate if caught else 1 - rate
            if caught:
                strikes += 1
                rest = 0.0 if strikes == 3 else rest / 2
        total += chance * (100 - rest)
    assert loss_expected(100, 5_000, rate, tasks) == pytest.approx(total)


def test_verdict__by_hand():
    """4 of 10: p1 = 60/120, p2 = 36/120, p3 = 4/120; penalty 18 ZOO, collusion 25 ZOO for good."""
    found = deterrence(GIVEN, [Fraction(2, 5)])
    (row,) = found.rows
    assert (GIVEN.mismatch, GIVEN.abort, GIVEN.collusion) == (18 * ZOO, 18 * ZOO, 25 * ZOO)
    assert row.dishonest == 4
    assert row.fake.profit == Fraction(40, 120) * ZOO - Fraction(2, 3) / 2 * 18 * ZOO
    assert row.fake.needed == ZOO
    assert row.fake.margin == 18
    assert row.leave.profit == Fraction(2, 15) * ZOO - Fraction(8, 15) * 18 * ZOO
    assert row.leave.needed == ZOO / Fraction(4)
    # A pair saves a computation each, 1 ZOO, and loses 2 * 25 in one case of 20.
    assert found.pair_advantage == ZOO - Fraction(5, 2) * ZOO
    assert row.pair == Fraction(2, 15) * found.pair_advantage
    assert found.rate_needed == Fraction(1, 50)
    # Per task 80/120 of the fee, 2/3 of 36/120 framed; 160/120 + 24/120 honest lanes.
    assert row.honest == (Fraction(80, 120) * ZOO - Fraction(24, 120) * 18 * ZOO) / Fraction(
        184, 120
    )
    assert row.deterred and found.pair_deterred


def test_verdict__shares_up_to_which_it_holds():
    """18 fees deter up to x (3 - 2x) / (2 (1 - x)^2) = 18; honest nodes earn up to the mirror."""
    found = deterrence(replace(GIVEN, nodes=None))
    x = found.fake_share
    assert x * (3 - 2 * x) / (2 * (1 - x) ** 2) == pytest.approx(18)
    assert found.leave_share == pytest.approx(36 / 37)
    assert found.honest_share == pytest.approx(1 - x)
    assert found.deterred_up_to == Fraction(80, 100)
    assert [row.share for row in found.rows] == list(SHARES)
    assert found.rows[0].share == Fraction(1, 100) and found.rows[-1].share == Fraction(9, 10)


def test_verdict__few_nodes():
    """Of 10 nodes 1 % is none, 10 % one that never wins, 90 % nine who never lose."""
    found = deterrence(GIVEN, [Fraction(1, 100), Fraction(1, 10), Fraction(9, 10), Fraction(1)])
    none, one, nine, all_ = found.rows
    assert none.fake.profit == 0 and none.deterred
    assert one.fake.needed == 0 and one.fake.profit < 0 and one.fake.margin is None
    assert nine.fake.needed is None and nine.fake.profit > 0 and not nine.deterred
    assert all_.honest is None
    assert found.deterred_up_to == Fraction(1, 10)


def test_pairs_covered__the_last_number_whose_losses_are_larger():
    pairs = GIVEN.pairs_covered
    assert pairs > 1

    def lost(tasks):
        return loss_expected(GIVEN.stake, 5_000, 0.05, tasks) / 2 - tasks * GIVEN.compute

    assert lost(pairs) > 0 >= lost(pairs + 1)
    assert all(lost(tasks) > 0 for tasks in range(1, pairs))


def test_pairs_waiting__half_of_the_stake_and_the_lanes_that_are_open():
    """By hand: 100 ZOO cover 50 ZOO of pay, which 25 tasks of 4 ZOO bring; two more are open."""
    assert replace(GIVEN, stake=100 * ZOO, fee=4 * ZOO, open_lanes=2).pairs_waiting == 27


@given(st.integers(1, 1000), st.integers(1, 10_000), st.fractions(0, 1, max_denominator=100))
def test_pairs_covered__none_just_where_one_is_not_deterred(stake, bps, rate):
    given_ = replace(
        GIVEN, stake=stake * ZOO, collusion_bps=bps, audit_rate=rate, reporter_bps=0, fee=4 * ZOO
    )
    advantage = pair_advantage(given_.compute, given_.collusion, rate)
    if abs(advantage) > 10**9:  # beyond what floats round away
        assert (advantage < 0) == (given_.pairs_covered > 0)
    assert given_.pairs_covered <= stake * ZOO // given_.compute


def test_sentences__say_what_deters_and_what_does_not():
    text = " ".join(deterrence(GIVEN).sentences())
    assert "up to an attacker share of 82.4%" in text
    assert "in a pool of 10 nodes, of the shares listed, up to 75%" in text
    assert "is deterred at an audit rate of 5.00%" in text and "more than 2.00% is enough" in text
    assert f"no more than {GIVEN.pairs_covered:,} faked pairs" in text
    assert f"a draw lets {GIVEN.pairs_waiting:,} wait" in text
    assert "earn up to an attacker share of 17.6%" in text
    weak = replace(GIVEN, stake=ZOO, audit_rate=Fraction(0), nodes=None)
    text = " ".join(deterrence(weak).sentences())
    assert "is not deterred at an audit rate of 0.00%" in text and "no audit rate is enough" in text
    hopeless = replace(GIVEN, stake=ZOO // 100)
    text = " ".join(deterrence(hopeless, [Fraction(1, 2)]).sentences())
    assert "in a pool of 10 nodes not even at 50%" in text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fee": 0}, "at most half the fee"),
        ({"compute": ZOO}, "at most half the fee"),
        ({"compute": 0}, "more than nothing"),
        ({"audit_rate": Fraction(2)}, "audit rate"),
        ({"nodes": 2}, "at least three nodes"),
    ],
)
def test_parameters__refusals(change, reason):
    with pytest.raises(ValueError, match=reason):
        replace(GIVEN, **change)
