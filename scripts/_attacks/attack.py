# SPDX-License-Identifier: Apache-2.0
"""What an attack is, and how its outcome is measured.

An attack is played twice from the same state: once as the attacker would, once as if it had not.
The second time is the control (`instead`): whoever cheats with its nodes stays away with them, and
whoever cheats as a verifier or aggregator does its duty. Profit and loss are differences between
the two, read from what everybody owns at the end. Where a cheat is found by chance, both endings
are played and weighed with the chance of the draw that verifiers use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from scripts._attacks.market import Market, Player

Deed = Callable[[Market], None]
"""Plays something to its end on the market's contracts."""


@dataclass(frozen=True)
class Outcome:
    """What an attack brings on average. Amounts in 1e-18 ZOO.

    Attributes:
        profit: the attacker's, against its control.
        loss: of everybody else together, against the control; negative if they gain.
        capital: what the attacker has to own for it: stakes and bonds.
        note: how it ends, in a few words; "" if the figures say it.
        allowed: a profit that can't be told from how unevenly equal work is scored.
        played: whether it was; if not, `note` says why, and the figures are 0.
    """

    profit: Fraction
    loss: Fraction
    capital: int
    note: str = ""
    allowed: Fraction = Fraction(0)
    played: bool = True

    @classmethod
    def unplayed(cls, why: str) -> Outcome:
        """Of an attack that there is no way to play on this job."""
        return cls(Fraction(0), Fraction(0), 0, f"not played: {why}", played=False)

    @property
    def pays(self) -> bool:
        """Whether it leaves the attacker better off."""
        return self.profit > self.allowed


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: what the attacker does, in a few words that begin with a verb.
        family: `training`, `verifying`, `scoring`, `gauntlet`, `consensus` or `tasks`.
        play: its outcome at the numbers of a market.
        rounds: that one play takes, for figures that are given by the round.
    """

    name: str
    family: str
    play: Callable[[Market], Outcome]
    rounds: int = 1

    @property
    def full_name(self) -> str:
        """Family and name, since two families may have an attack of one name."""
        return f"{self.family}: {self.name}"


def gains(
    market: Market, deed: Deed, attackers: Iterable[Player | str], others: Iterable[Player | str]
) -> tuple[int, int]:
    """What attackers and others have won when a deed is done; nothing of it stays."""
    attackers, others = list(attackers), list(others)
    with market.attack():
        before = market.wealth(attackers), market.wealth(others)
        deed(market)
        return market.wealth(attackers) - before[0], market.wealth(others) - before[1]


def outcome(
    market: Market,
    deed: Deed,
    instead: Deed,
    attackers: Iterable[Player | str],
    capital: int,
    found: Deed | None = None,
    chance: Fraction = Fraction(0),
    note: str = "",
) -> Outcome:
    """Play a deed, its control, and how it ends if it is found.

    Args:
        attackers: all whose money is the attacker's. Everybody else of the market who can be hurt
            is a bystander.
        capital: what the attacker has to own, in 1e-18 ZOO.
        found: the deed when it is found; `chance`: that it is.
    """
    attackers = list(attackers)
    others = [one for one in market.everybody if one not in attackers]
    won, hurt = gains(market, instead, attackers, others)
    profit, loss = Fraction(0), Fraction(0)
    endings = [(deed, 1 - chance)] + ([(found, chance)] if found is not None else [])
    for ending, weight in endings:
        own, their = gains(market, ending, attackers, others)
        profit += weight * (own - won)
        loss += weight * (hurt - their)
    return Outcome(profit, loss, capital, note)
