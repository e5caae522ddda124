# SPDX-License-Identifier: Apache-2.0
"""What honest work pays in an ordinary round, and what it costs: what a cheat gives up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scripts._attacks.attack import gains
from scripts._attacks.market import Market, Player
from scripts._attacks.plays import everybody_works
from scripts._attacks.spot_checks import drawn


@dataclass(frozen=True)
class HonestWork:
    """What somebody honest does, by the round. Amounts in 1e-18 ZOO.

    Attributes:
        name: who does what.
        pay: on average; an aggregator's is that of its turn, divided by the aggregators.
        compute: what computing it costs. A trainer's is `Numbers.compute` of its pay. A verifier
            pays as much for each trainer whose work it is expected to do again. An aggregator
            merges, which costs next to nothing.
    """

    name: str
    pay: Fraction
    compute: Fraction

    @property
    def profit(self) -> Fraction:
        """Pay less cost."""
        return self.pay - self.compute


def honest_work(market: Market) -> tuple[HonestWork, ...]:
    """A trainer, a verifier and an aggregator in a round in which everybody works."""

    def paid(players: list[Player]) -> Fraction:
        return Fraction(gains(market, everybody_works, players, [])[0], len(players))

    trainer, again = paid(market.trainers), redone(market)
    work = trainer * Fraction(str(market.numbers.compute))
    return (
        HonestWork("trainer: a round", trainer, work),
        HonestWork(
            f"verifier: a round, {float(again):.1f} trainers' work again",
            paid(market.verifiers),
            again * work,
        ),
        HonestWork("aggregator: a round", paid(market.aggregators), Fraction(0)),
    )


def redone(market: Market, retained: Fraction = Fraction(0)) -> Fraction:
    """How many trainers' work each verifier is expected to do again. `retained`: of each one's pay;
    in a first round there is none."""
    chances = (drawn(market, player, retained=int(retained)) for player in market.trainers)
    return sum(chances, Fraction(0))


def breaks_even(market: Market) -> Fraction:
    """Up to which share of its pay a trainer's computing may cost, for a verifier that does all
    that the draw asks to be paid as much, once as much pay is retained as the job retains."""
    trainer, verifier, _ = honest_work(market)
    retained = market.numbers.terms.retain_rounds * trainer.pay
    return verifier.pay / (redone(market, retained) * trainer.pay)
