# SPDX-License-Identifier: Apache-2.0
"""Attacks of verifiers, aggregators and challengers at the default numbers: figures by hand, and
controls that show a profit.

Three verifiers with 1,000 ZOO, one of them the attacker's, share 100 ZOO a round; three aggregators
with 1,000 ZOO have 50 a round in turn; trainers 850.
"""

from __future__ import annotations

import pytest

from agents.protocol.numbers import ZOO, Violation
from agents.protocol.slashing import DEFAULTS, NO_ROW
from scripts._attacks import verifying
from scripts._attacks.attack import Attack
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Market, Numbers
from scripts._attacks.verifying import ATTACKS
from tests.scripts.attacks.conftest import Played, in_zoo
from tests.scripts.attacks.test_training import DRAWN, LIE, OF_NINE

EXPECTED = {
    # A third of the weight convicts nobody, and its verifiers have attested like all.
    "frame an honest node": (0, 0),
    "add stake to convict alone": (0, 0),
    "convict while the others rest": (0, 0),
    # The oldest announcement is the blind one, which earns nothing: the finder's 10 are gone, and
    # the deposits of 25 on the eight others.
    "report everybody blindly": (-8 * 25, 10),
    # One of nine guesses is right and takes the finder's 10; the others lose as much.
    "announce a node by guess": (10 / 9 - 80 / 9, 10 / 9),
    "delay rounds by false reports": (0, 0),
    "split stake over two verifiers": (0, 0),
    "vote with a second node": (0, 0),
    "vote without an approval": (0, 0),
    "judge one's own node": (0, 0),
    # 100 ZOO among two and not among three.
    "finalize before others attest": (0, 0),
    # Half of what the trainers are paid whose work it is expected to do again.
    "attest without a look": (DRAWN * 850 / 2, 0),
    "copy a report from the mempool": (0, 0),
    "copy an announcement": (0, 0),
    "copy a challenge from the mempool": (0, 0),
    "announce every result": (-10, 0),
    # A fifth of the aggregator's stake, of which the finder has half, and its cut, which is
    # another's.
    "propose a result that pays oneself": (-200 - 50, -100 - 50),
    # Six of nine honest nodes are left out, and their part is the treasury's.
    "leave all but one's own out of the result": (0, 6 * OF_NINE),
    "have a trainer propose it": (-20 - 50, -10 - 50),
    "have a friend challenge one's result": (-200 + 100 - 50, -50),
    "stay silent on duty": (-50, -50),
    "challenge a right result twice": (-100, 0),
    "challenge while the committee sleeps": (-100, 0),
    # As a lie, and the bond.
    "shield a lie by a challenge": (LIE - 100, (1 - DRAWN) * OF_NINE - DRAWN * 10),
}


def test_every_attack__has_figures_by_hand() -> None:
    assert [attack.name for attack in ATTACKS] == list(EXPECTED)
    assert {attack.family for attack in ATTACKS} == {"verifying"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_attack__brings_what_the_table_says(played: Played, attack: Attack) -> None:
    assert in_zoo(played(attack)) == pytest.approx(EXPECTED[attack.name], abs=1e-9)
    assert (played(attack).profit > 0) == (attack.full_name in KNOWN)


def test_capital__is_the_stakes_and_bonds(played: Played) -> None:
    capital = {attack.name: played(attack).capital // ZOO for attack in ATTACKS}
    assert capital["propose a result that pays oneself"] == 1_000 + 300 + 1_000
    assert capital["have a friend challenge one's result"] == 1_000 + 110
    assert capital["announce every result"] == 10
    assert capital["announce a node by guess"] == 1_000 + 10
    assert capital["add stake to convict alone"] == 10_000


def test_without_a_verifier__what_takes_one_is_impossible() -> None:
    few = Market(Numbers(nodes=3, verifiers=2))
    found = verifying.frame(few)
    assert (found.profit, found.capital, found.note) == (0, 0, "the attacker has no verifier")
    assert verifying.report_everybody(few) == found


def test_control__verifiers_that_never_attest_what_leaves_others_out_pay_the_one_that_does() -> (
    None
):
    """Its part of the verifiers' cut is a third; alone it has all of 100 ZOO."""
    found = verifying._others_left_out(Market(Numbers()), attested=False)
    assert in_zoo(found)[0] == pytest.approx(100 - 100 / 3)


def test_two_thirds_of_the_weight__do_not_pay_themselves(captured: Market) -> None:
    """The third verifier has half of the challenge window to challenge: as with one of three."""
    assert in_zoo(verifying.pay_oneself(captured)) == pytest.approx((-250, -150))


def test_control__framers_that_can_convict_pay_for_it(captured: Market) -> None:
    """Two fifths of 1,000 ZOO, of which the node has half."""
    assert in_zoo(verifying.frame(captured)) == pytest.approx((-400, -200))


def test_control__a_table_without_these_rows_leaves_the_cut() -> None:
    rows = (Violation.BAD_RESULT, Violation.FALSE_REPORT)
    lenient = Market(Numbers(table={**DEFAULTS, **dict.fromkeys(rows, NO_ROW)}))
    assert in_zoo(verifying.pay_oneself(lenient))[0] == pytest.approx(-50)
    assert in_zoo(verifying.challenge_ones_own_result(lenient))[0] == pytest.approx(-50)
