# SPDX-License-Identifier: Apache-2.0
"""What honest work pays in an ordinary round, and what it costs: what a cheat gives up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scripts._attacks.attack import gains
from scripts._attacks.market import Market, Player
from scripts._attacks.plays import drawn, everybody_works


@dataclass(frozen=True)
class HonestWork:
    """What one node of a role earns. Amounts in 1e-18 ZOO a round.

    Attributes:
        role: in one word.
        pay: by the round; an aggregator's is that of its turn, divided by the aggregators.
        cost: of computing. A trainer's is `compute` of its pay. A verifier pays as much for each
            trainer whose work it is expected to do again. An aggregator merges, which costs next to
            nothing.
        redone: trainers whose work it is expected to do again.
    """

    role: str
    pay: Fraction
    cost: Fraction
    redone: Fraction = Fraction(0)


def honest_work(market: Market) -> list[HonestWork]:
    """A trainer, a verifier and an aggregator in a round in which everybody works."""

    def paid(players: list[Player]) -> Fraction:
        return Fraction(gains(market, everybody_works, players, [])[0], len(players))

    trainer = paid(market.trainers)
    work = trainer * Fraction(market.numbers.compute)
    redone = sum((drawn(market, player) for player in market.trainers), Fraction(0))
    return [
        HonestWork("trainer", trainer, work),
        HonestWork("verifier", paid(market.verifiers), redone * work, redone),
        HonestWork("aggregator", paid(market.aggregators), Fraction(0)),
    ]
