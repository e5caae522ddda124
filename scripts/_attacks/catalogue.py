# SPDX-License-Identifier: Apache-2.0
"""All attacks, and what they bring at given numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from scripts._attacks import riders, training
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.market import Market, Numbers

ATTACKS: tuple[Attack, ...] = (*training.ATTACKS, *riders.ATTACKS)
FAMILIES = tuple(dict.fromkeys(attack.family for attack in ATTACKS))


def play(
    numbers: Numbers,
    families: Collection[str] = FAMILIES,
    begun: Callable[[Attack], None] = lambda attack: None,
) -> Iterator[tuple[Attack, Outcome]]:
    """Play all attacks of these families, in their order. `begun` is told of each."""
    market = Market(numbers)
    for attack in ATTACKS:
        if attack.family in families:
            begun(attack)
            yield attack, attack.play(market)
