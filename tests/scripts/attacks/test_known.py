# SPDX-License-Identifier: Apache-2.0
"""What is known to pay is among the attacks, and does pay somewhere."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scripts._attacks import table
from scripts._attacks.attack import Outcome
from scripts._attacks.catalogue import FAMILIES, attacks
from scripts._attacks.known import BEYOND, KNOWN
from scripts._attacks.market import Market, Numbers

NAMED = {attack.full_name: attack for attack in attacks()}


@pytest.fixture(scope="module")
def markets() -> dict[str, Market]:
    """By family: rounds with many trainers, so that seven of them are a third; else the usual."""
    usual = Market(Numbers())
    return {**dict.fromkeys(FAMILIES, usual), "training": Market(Numbers(nodes=18))}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_each_known_one__is_an_attack_that_pays(markets: dict[str, Market], name: str) -> None:
    attack = NAMED[name]
    assert attack.play(markets[attack.family]).profit > 0


def test_each_attack__has_a_family_and_a_name_of_its_own() -> None:
    everyone = attacks()
    assert {attack.family for attack in everyone} == set(FAMILIES)
    assert len({attack.full_name for attack in everyone}) == len(everyone)


def test_what_is_known_of_one_family__says_nothing_of_the_same_name_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same = [attack for attack in attacks() if attack.name == "do a quarter of the work"]
    families = [attack.family for attack in same]
    assert families == ["scoring", "gauntlet"]
    monkeypatch.setattr(table, "KNOWN", {same[0].full_name: "of that family alone"})
    monkeypatch.setattr(table, "BEYOND", {same[0].full_name})
    found = [(attack, Outcome(Fraction(1), Fraction(1), 1, "as it ends")) for attack in same]
    told = [row[-1] for row in table.rows(found)]
    assert told == ["PAYS, with half of the weight: of that family alone", "PAYS: as it ends"]
    assert "1 of 1 attacks pay: gauntlet" in table.verdict(found)


def test_whatever_takes_half_of_the_weight__is_an_attack() -> None:
    assert NAMED.keys() >= BEYOND
