# SPDX-License-Identifier: Apache-2.0
"""What honest work pays in an ordinary round, and what it costs: what a cheat gives up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from agents.jobs.publish import Terms
from agents.jobs.verifying_pay import MOST_CUTS, Duty
from agents.mechanisms import verify
from scripts._attacks.attack import gains
from scripts._attacks.market import Market, Numbers, Player
from scripts._attacks.plays import everybody_works


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
    """A trainer, a verifier and an aggregator in a round in which everybody works.

    What a verifier does again is the mean of a job's rounds: the first ones, of whose trainers
    little pay is retained, take more. It has no row where the job's spec has nothing done again.
    """

    def paid(players: list[Player]) -> Fraction:
        return Fraction(gains(market, everybody_works, players, [])[0], len(players))

    trainer, asked = paid(market.trainers), duty(market.numbers)
    work = trainer * Fraction(str(market.numbers.compute))
    verifier = HonestWork(
        f"verifier: a round of {asked.rounds}, {float(asked.redone):.1f} trainers' work again",
        paid(market.verifiers),
        asked.redone * work,
    )
    redone = verify.get(str(market.numbers.spec.get("verify", "reexecution"))).redone
    return (
        HonestWork("trainer: a round", trainer, work),
        *([verifier] if redone else []),
        HonestWork("aggregator: a round", paid(market.aggregators), Fraction(0)),
    )


def duty(numbers: Numbers) -> Duty:
    """What a job with these numbers asks of its verifiers."""
    terms = numbers.terms
    return Duty(
        reward=terms.reward_per_round,
        verifier_bps=terms.verifier_bps,
        aggregator_bps=terms.aggregator_bps,
        stakes=(numbers.stake,) * numbers.crowd,
        table=numbers.table,
        sample=numbers.sample,
        retain_rounds=terms.retain_rounds,
        rounds=numbers.job_rounds,
        verifiers=numbers.verifiers,
        part=numbers.part,
        carried=numbers.carried,
    )


def fairly_paid(numbers: Numbers) -> Numbers:
    """The same with the least verifiers' cut that pays for doing work again, or the most that the
    contracts permit. It is never less than the usual one."""
    asked, usual = duty(numbers), Terms().verifier_bps
    least = asked.least_cut(Fraction(str(numbers.compute)))
    most = MOST_CUTS - asked.aggregator_bps
    cut = most if least is None else max(least, usual)
    return replace(numbers, terms=replace(numbers.terms, verifier_bps=cut))


def breaks_even(numbers: Numbers) -> Fraction:
    """Up to which share of its pay a trainer's computing may cost, for a verifier that does all
    that the draw asks to be paid as much, over all rounds of the job."""
    asked = duty(numbers)
    return asked.pay / (asked.redone * asked.trainer_pay)
