# SPDX-License-Identifier: Apache-2.0
"""Markets for tests of attacks: what is played on them is undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.protocol.numbers import ZOO
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.market import Market, Numbers

Played = Callable[[Attack], Outcome]


@pytest.fixture(scope="session")
def market() -> Market:
    """At the default numbers. Tests that send transactions of their own do so in `attack()`."""
    return Market(Numbers())


@pytest.fixture(scope="session")
def captured() -> Market:
    """As `market`, but two of three verifiers, and six of nine trainers, are the attacker's: who
    has two thirds of the weight is stopped by no vote."""
    return Market(Numbers(share=0.67))


@pytest.fixture(scope="session")
def played(market: Market) -> Played:
    """Outcome of an attack at the default numbers; each is played once."""
    known: dict[str, Outcome] = {}

    def outcome_of(attack: Attack) -> Outcome:
        if attack.full_name not in known:
            known[attack.full_name] = attack.play(market)
        return known[attack.full_name]

    return outcome_of


def in_zoo(found: Outcome) -> tuple[float, float]:
    """Profit and loss in ZOO."""
    return float(found.profit) / ZOO, float(found.loss) / ZOO
