# SPDX-License-Identifier: Apache-2.0
"""Attacks on money at the default numbers: figures by hand. Nothing pays."""

from __future__ import annotations

import pytest

from agents.protocol.numbers import ZOO
from scripts._attacks import money
from scripts._attacks.attack import Attack
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Market, Numbers
from scripts._attacks.money import ATTACKS
from tests.scripts.attacks.conftest import Played, in_zoo
from tests.scripts.attacks.test_training import DRAWN

# What the attacker's people lose when a pool is paid in the next round without one of its three
# trainers, and by any of the three aggregators.
VOID = 850 * (2 / 8 - 3 / 9) + 50 / 3 - 50

EXPECTED = {
    "be funded in another's place": (0, 0),
    "spend another job's escrow": (0, 0),
    "offer impossible terms": (0, 0),
    "pay the first round of another's job": (-1_000, -1_000),
    "cancel while a round runs": (0, 0),
    # A third of the trainers' part stays with the sponsor's people where they are not drawn. Where
    # they are, three lose a fifth of 100 ZOO, the finder has half of it, and the trainers of the
    # next round have their shares.
    "fill one's own job with noise": (
        (1 - DRAWN) * 850 / 3 - DRAWN * 60,
        (1 - DRAWN) * 850 / 3 - DRAWN * 30,
    ),
    # A trainer's wrong result, a verifier's and an aggregator's take three days: there is time for
    # a right one. The trainer loses a fifth of 100, the others of 1,000, half of it to the friend;
    # the cut is another's. Two verifiers attest, the third is suspended.
    "use up the time by wrong results": (-10 - 200 - 50 - 100 / 3, -50 - 100 / 3),
    # One wrong result takes a day, the round is void, and the next one pays its pool. There one of
    # the attacker's three trainers is suspended, and the cut for a result, which was the one's on
    # duty, is one of three aggregators'. The friend has half of what the trainer lost.
    "leave no time for a second result": (VOID - 10, VOID),
    "convict for retained pay": (0, 0),
    "let a job rest with retained pay": (0, 0),
    "claim twice": (0, 0),
    "settle twice": (0, 0),
    "occupy an operator's address": (0, 0),
    "call what only contracts may": (0, 0),
}


def test_every_attack__has_figures_by_hand() -> None:
    assert [attack.name for attack in ATTACKS] == list(EXPECTED)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_attack__brings_what_the_table_says(played: Played, attack: Attack) -> None:
    assert in_zoo(played(attack)) == pytest.approx(EXPECTED[attack.name], abs=1e-9)
    assert played(attack).profit <= 0 or attack.full_name in KNOWN


def test_wrong_results__of_however_many_trainers__void_no_round_at_the_usual_terms() -> None:
    """Of 18 trainers six are the attacker's. One of them proposes, before a result was thrown out;
    a round has time for seven. So it ends as with three: see the table above."""
    many = Market(Numbers(nodes=18))
    found = money.use_up_the_time(many)
    assert found.note == "the round is paid all the same"
    assert in_zoo(found) == pytest.approx((-10 - 200 - 50 - 100 / 3, -50 - 100 / 3))


def test_control__sponsor_with_two_thirds_of_the_voices__has_no_retained_pay(
    captured: Market,
) -> None:
    """The node appeals: two verifiers lose a fifth each, and it has half of that."""
    found = money.convict_for_retained_pay(captured)
    assert in_zoo(found) == pytest.approx((-400, -200), abs=1e-6)
    assert found.capital == 2_000 * ZOO
