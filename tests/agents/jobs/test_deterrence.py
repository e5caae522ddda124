# SPDX-License-Identifier: Apache-2.0
"""Cheats against the real draw: under the old one of two nodes they win, under the new one never.

The liar's book is played round by round with the very functions that verifiers draw by
(tests/measure/studies/lies.py); the figures of `agents.jobs.deterrence` stand beside it.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from statistics import fmean

import pytest

from agents.jobs.deterrence import Checking, always, checking, honest, leave, mixed, stake_needed
from agents.jobs.verifying_pay import Duty
from agents.protocol.draw import CERTAIN
from agents.protocol.draw_chance import Exposure, lasting_loss
from agents.protocol.numbers import ZOO
from agents.protocol.slashing import DEFAULTS
from tests.measure.studies.lies import (
    CUT,
    LIAR,
    NODES,
    QUALITIES,
    REWARD,
    SAMPLE,
    by_exposure,
    profits,
    round_of,
    two_of_all,
)

STAKE = 100 * ZOO
COSTS = (Fraction(8, 100), Fraction(3, 10), Fraction(9, 10))
ROUNDS = 3_000


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("nodes", NODES)
def test_a_liar__loses_money_at_any_size_and_quality(nodes: int, quality: Fraction) -> None:
    """As much as the formula says: within four standard deviations of the mean."""
    exposed = round_of(nodes, quality)
    won = fmean(profits(by_exposure, exposed, ROUNDS))
    lies = exposed[LIAR]
    chance = 1 - (1 - Fraction(lies.chance, CERTAIN)) * (1 - Fraction(SAMPLE, nodes))
    said = float(always(lies, chance, 0)) / ZOO
    spread = (lies.pay + lies.loss) / ZOO * sqrt(chance * (1 - chance) / ROUNDS)
    assert won < 0 and said < 0 and abs(won - said) < 4 * spread


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("nodes", NODES)
def test_control__the_old_sample_of_two_paid_the_same_liar(nodes: int, quality: Fraction) -> None:
    assert fmean(profits(two_of_all, round_of(nodes, quality), ROUNDS)) > 0


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("every", [1, 2, 7])
def test_honest_work__is_better_than_any_share_of_lies(
    nodes: int, cost: Fraction, every: int
) -> None:
    exposed = round_of(nodes, QUALITIES[-1])
    work = float(honest(exposed[2].pay, cost)) / ZOO
    lies = fmean(profits(by_exposure, exposed, ROUNDS))
    assert ((every - 1) * work + lies) / every < work
    assert work > 0


@pytest.mark.parametrize("cost", COSTS)
def test_control__with_64_nodes_lying_was_better_than_work(cost: Fraction) -> None:
    exposed = round_of(64, Fraction(5, 4))
    lies = fmean(profits(two_of_all, exposed, ROUNDS))
    assert lies > float(honest(exposed[2].pay, cost)) / ZOO


def test_strategies__by_hand() -> None:
    exposed, half = Exposure(10, 6), Fraction(1, 2)
    assert always(exposed, half, 0) == 2
    assert always(exposed, half, 4) == 0  # a new name only where it was found
    assert leave(exposed, half, 4) == -2  # a new name each time
    assert honest(10, Fraction(3, 10)) == 7
    assert mixed(exposed, half, 4, 10, Fraction(3, 10), 2) == Fraction(7, 2)
    assert mixed(exposed, half, 4, 10, Fraction(3, 10), 1) == always(exposed, half, 4)


@pytest.mark.parametrize("chance", [Fraction(1, 100), Fraction(1, 2), Fraction(9, 10)])
def test_stake_needed__is_enough_and_not_much_more(chance: Fraction) -> None:
    pay = 13 * ZOO
    stake = stake_needed(pay, chance, DEFAULTS)
    assert stake is not None
    for given, few in ((stake, True), (stake * 99 // 100, False)):
        found = Exposure(pay, lasting_loss(given, DEFAULTS)).chance
        assert (Fraction(found, CERTAIN) <= chance + Fraction(1, ZOO)) is few


def test_stake_needed__refusals() -> None:
    assert stake_needed(ZOO, Fraction(1, 2), {}) is None
    for chance in (Fraction(0), Fraction(2)):
        with pytest.raises(ValueError, match="some chance"):
            stake_needed(ZOO, chance, DEFAULTS)


def test_checking__counts_the_sample_and_the_lots() -> None:
    exposed = Exposure(4 * ZOO, 5 * ZOO)  # one in two
    assert float(Checking((exposed,) * 4, 0, None).redone) == pytest.approx(2)
    assert float(Checking((exposed,) * 4, 2, None).redone) == pytest.approx(3)
    assert float(Checking((exposed,) * 4, 9, None).redone) == pytest.approx(4)
    assert Checking((), 2, None).redone == 0 and Checking((), 2, None).sentences() == []


def test_checking__of_default_terms_says_what_would_help() -> None:
    found = checking(REWARD, 0, CUT, [STAKE] * 64, DEFAULTS, SAMPLE)
    assert found.deters and 43 < found.redone < 44
    work, advice = found.sentences()
    assert "43.7 of 64" in work and "14.84 ZOO" in work and "9 ZOO" in work
    assert "206.2 ZOO of stake" in advice
    richer = checking(REWARD, 0, CUT, [found.needed or 0] * 64, DEFAULTS, 0)
    assert float(richer.redone) == pytest.approx(32, abs=0.01) and len(richer.sentences()) == 1


@pytest.mark.parametrize("nodes", [4, 64, 128])
@pytest.mark.parametrize("reward", [ZOO, 1_000 * ZOO, 10**6 * ZOO])
def test_checking__with_retained_pay__is_bounded_at_any_size_and_price(
    nodes: int, reward: int
) -> None:
    """1.25 / (1.25 + rounds) of the nodes at most, however small the stakes beside the reward."""
    for rounds in (1, 8, 32):
        found = checking(reward, 0, CUT, [STAKE] * nodes, DEFAULTS, 0, retained=rounds)
        assert float(found.redone) <= nodes * 1.25 / (1.25 + rounds) * 1.000001


def test_checking__retains_what_trainers_are_paid__without_the_verifiers_cut() -> None:
    """By hand: a lie may win the cut, if nobody attests, and loses eight rounds' pay without it."""
    found = checking(REWARD, 4_200, CUT, [STAKE] * 9, DEFAULTS, SAMPLE, retained=8)
    won, loses = Fraction(950, 9) * Fraction(5, 4), 9 + 8 * Fraction(530, 9)
    chance = 1 - (1 - won / (won + loses)) * Fraction(7, 9)
    assert float(found.redone) == pytest.approx(9 * float(chance), abs=1e-6)
    assert {one.pay for one in found.exposed} == {REWARD * 95 // 100 // 9}
    uncut = checking(REWARD, 0, CUT, [STAKE] * 9, DEFAULTS, SAMPLE, retained=8)
    assert uncut.redone < found.redone and uncut.needed == found.needed


@pytest.mark.parametrize("cut", [0, 1_000, 4_200])
def test_checking__is_what_the_verifiers_are_paid_by(cut: int) -> None:
    """`job create` and agents see the figure that the least cut is computed from."""
    stakes = [STAKE] * 9
    duty = Duty(REWARD, cut, CUT, stakes, DEFAULTS, SAMPLE, retain_rounds=8, rounds=50, verifiers=3)
    for retained in (0, 3, 8):
        found = checking(REWARD, cut, CUT, stakes, DEFAULTS, SAMPLE, retained)
        assert found.redone == duty.redone_in(retained + 1)


def test_checking__what_no_stake_can_save_is_not_advised() -> None:
    """Two of three are drawn whatever they have: with more stake it would be no fewer."""
    found = checking(ZOO, 0, CUT, [STAKE] * 3, DEFAULTS, 2)
    assert 2 < found.redone < 2.1
    assert len(found.sentences()) == 1


def test_checking__where_a_slash_takes_nothing() -> None:
    found = checking(REWARD, 0, CUT, [STAKE] * 4, {}, SAMPLE)
    assert not found.deters and found.redone == 4 and found.needed is None
    assert "lose nothing by a lie" in found.sentences()[0]
