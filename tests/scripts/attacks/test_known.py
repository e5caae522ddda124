# SPDX-License-Identifier: Apache-2.0
"""What is known to pay is among the attacks, and does pay somewhere."""

from __future__ import annotations

from scripts._attacks import money, verifying
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Market, Numbers


def test_each_known_one__is_an_attack_that_pays_with_eighteen_trainers() -> None:
    many = Market(Numbers(nodes=18))
    named = {attack.name: attack for attack in (*verifying.ATTACKS, *money.ATTACKS)}
    assert set(KNOWN) <= set(named)
    assert all(named[name].play(many).profit > 0 for name in KNOWN)
