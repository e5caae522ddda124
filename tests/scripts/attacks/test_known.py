# SPDX-License-Identifier: Apache-2.0
"""What is known to pay is among the attacks, and does pay somewhere."""

from __future__ import annotations

import pytest

from scripts._attacks.catalogue import FAMILIES, attacks
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Market, Numbers

NAMED = {attack.name: attack for attack in attacks()}


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
    assert len({(attack.family, attack.name) for attack in everyone}) == len(everyone)
