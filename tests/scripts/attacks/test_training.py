# SPDX-License-Identifier: Apache-2.0
"""Attacks of trainers at the default numbers: figures by hand, and controls that show a profit.

Nine trainers with 100 ZOO, three of them the attacker's; 1,000 ZOO a round, 850 of it for trainers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import comb

import pytest

from agents.jobs.publish import Terms
from agents.protocol.numbers import ZOO, Violation
from agents.protocol.slashing import DEFAULTS, NO_ROW
from scripts._attacks import training
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.market import Market, Numbers
from scripts._attacks.training import ATTACKS
from tests.scripts.attacks.conftest import Played, in_zoo

OF_NINE, OF_EIGHT = 850 / 9, 850 / 8
# A lie is drawn by what it may earn, 950 / 9, and by what it loses for good: 10, half of a fifth,
# or 9 where one stake answers for two lies at a time, half of 20 and 16. Else it is one of the two
# of nine that are looked at anyway.
EXPOSED = 1.25 * 950 / 9 / (1.25 * 950 / 9 + 9)
DRAWN = 1 - (1 - EXPOSED) * 7 / 9
LIE = (1 - DRAWN) * OF_NINE - DRAWN * 20
# A node that lies instead of staying away takes this from the eight others; once it is found they
# have it in the next round, and the finder 10.
BESIDE = (1 - DRAWN) * OF_NINE + DRAWN * -10
DILUTED = 8 * (OF_EIGHT - OF_NINE)

# Five lies of which k are found: each that isn't is paid, and 10, 8 and 32 are gone by the first
# three findings; from the third on nothing is left. As much stays with the friend, which has
# deposited half of a stake for each lie, 50, and loses that where it is not found. The trainers of
# the next round have the share of who is found. The draw counts on seven findings: in five rounds,
# and in two tasks.
GONE = (0, 10, 18, 50, 50, 50)
AT_ONCE = 1 - 7 / 9 * (50 / 7) / (1.25 * 950 / 9 + 50 / 7)
CHANCES = [comb(5, k) * AT_ONCE**k * (1 - AT_ONCE) ** (5 - k) for k in range(6)]
FIVE = sum(c * ((5 - k) * (OF_NINE - 50) - GONE[k]) for k, c in enumerate(CHANCES))
FIVE_BESIDE = sum(c * (5 - k) * OF_NINE for k, c in enumerate(CHANCES))

EXPECTED = {
    "send noise instead of work": (3 * LIE, (1 - DRAWN) * 3 * OF_NINE - DRAWN * 30),
    "send noise in one round of four": (3 * LIE, (1 - DRAWN) * 3 * OF_NINE - DRAWN * 30),
    # Half of each slash stays with the attacker, whose friend has deposited as much for each lie.
    "send noise, found by a friend": (
        3 * (LIE + DRAWN * 10 - (1 - DRAWN) * 10),
        (1 - DRAWN) * 3 * OF_NINE,
    ),
    "send noise under a new name each time": (2 * LIE, 2 * BESIDE),
    "send noise in five jobs at once": (FIVE, FIVE_BESIDE),
    "take retained pay out before a lie": (0, 0),
    # The copier loses 50, and the finder has 25. What the copier would have got is the eight
    # others' in the next round, as if it had stayed away.
    "share one payload among two nodes": (-50, -25),
    "steal a payload and commit first": (-50, -25),
    # 5 %, of which whoever tells has a tenth.
    "copy a commitment from the mempool": (-5, -0.5),
    "replay an old commitment": (-5, -0.5),
    "commit twice": (0, 0),
    "commit late": (0, 0),
    "withhold the reveal": (-4.5, 0),
    # 5, 10 and 15 %, less a tenth of them.
    "commit and abort three times": (-27, 0),
    # Its part is the treasury's.
    "withhold a payload": (0, OF_NINE),
    "publish a payload late": (-100, OF_NINE),
    "flee with the stake before the slash": (LIE, BESIDE),
    "dilute the slash with new stake": (LIE, BESIDE),
    "work on after a conviction": (0, 0),
}


def test_every_attack__has_figures_by_hand() -> None:
    assert [attack.name for attack in ATTACKS] == list(EXPECTED)
    assert {attack.family for attack in ATTACKS} == {"training"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_attack__brings_what_the_table_says(played: Played, attack: Attack) -> None:
    assert in_zoo(played(attack)) == pytest.approx(EXPECTED[attack.name], abs=1e-9)
    assert played(attack).profit <= 0


def test_capital__is_the_stakes_and_bonds(played: Played) -> None:
    capital = {attack.name: played(attack).capital // ZOO for attack in ATTACKS}
    assert capital["send noise instead of work"] == 300
    assert capital["send noise, found by a friend"] == 1_330
    assert capital["publish a payload late"] == 200
    assert capital["copy a commitment from the mempool"] == 100


def test_retained_pay__is_lost_by_a_lie_that_is_found() -> None:
    """Three rounds have filled what is retained, two rounds' pay: 188.9 ZOO are at stake beside the
    20, so the lie is drawn less often, and costs 208.9."""
    retaining = Market(Numbers(terms=Terms(retain_rounds=2)))
    lie = training.lie_now_and_then(retaining)
    loss = 9 + 2 * OF_NINE
    chance = 1 - (1 - 1.25 * 950 / 9 / (1.25 * 950 / 9 + loss)) * 7 / 9
    expected = 3 * ((1 - chance) * OF_NINE - chance * (20 + 2 * OF_NINE))
    assert float(lie.profit) / ZOO == pytest.approx(expected, abs=1e-3)
    early = training.take_retained_pay_out(retaining)
    assert early.note == "refused: pool: still working"


Play = Callable[[Market], Outcome]
LIES: tuple[Play, ...] = (
    training.lie,
    training.lie_now_and_then,
    training.lie_with_a_friend,
    training.lie_under_new_names,
    training.flee_with_the_stake,
    training.dilute_the_slash,
)


@pytest.mark.parametrize("lie", LIES, ids=lambda play: play.__name__)
def test_control__without_a_quorum_of_honest_verifiers_a_lie_is_paid(
    captured: Market, lie: Play
) -> None:
    assert lie(captured).profit > 0 and lie(captured).loss > 0


@pytest.mark.parametrize("lie", LIES, ids=lambda play: play.__name__)
def test_control__two_of_nine_drawn_alike_a_lie_is_paid(
    market: Market, monkeypatch: pytest.MonkeyPatch, lie: Play
) -> None:
    """The rule before each node was drawn by what it stands to win."""
    monkeypatch.setattr(training, "drawn", lambda *_, **__: Fraction(2, 9))
    assert lie(market).profit > 0


def test_control__slashes_that_take_nothing_cost_nothing() -> None:
    rows = (Violation.NO_REVEAL, Violation.COPIED)
    lenient = Market(Numbers(table={**DEFAULTS, **dict.fromkeys(rows, NO_ROW)}))
    assert training.copy_a_commitment(lenient).profit == 0
    assert training.abort_repeatedly(lenient).profit == 0
    # Nobody suspends the thief: in the next round it has one of nine parts of what it forfeited.
    profit = training.steal_a_payload(lenient).profit
    assert float(profit / ZOO) == pytest.approx(OF_NINE / 9)


def test_control__a_harder_table_costs_more() -> None:
    row = replace(DEFAULTS[Violation.NO_REVEAL], bps=1_000)
    hard = Market(Numbers(table={**DEFAULTS, Violation.NO_REVEAL: row}))
    assert training.copy_a_commitment(hard).profit == -10 * ZOO
