# SPDX-License-Identifier: Apache-2.0
"""Attacks of trainers on a round of training: commitments, payloads, absence."""

from __future__ import annotations

from collections.abc import Sequence

from agents.protocol.numbers import Phase, Violation
from scripts._attacks.attack import Attack, Outcome, outcome
from scripts._attacks.embedded import Refused
from scripts._attacks.market import Market, Player
from scripts._attacks.spot_checks import drawn


def paid_round(market: Market, players: Sequence[Player]) -> None:
    """A round in which these trainers work and nobody else comes."""
    number = market.train(players)
    market.finish(number, dict.fromkeys(players, 1))


def without_evil(market: Market) -> None:
    """The attacker's trainers stay away."""
    paid_round(market, market.honest)


def lie(market: Market) -> Outcome:
    """All of the attacker's trainers send noise, which nobody can tell from work unless it redoes
    it."""

    def unseen(market: Market) -> None:
        paid_round(market, market.trainers)

    def found(market: Market) -> None:
        number = market.train()
        arrays = market.propose(number, dict.fromkeys(market.trainers, 1))
        reports = [
            market.report(number, cheat, Violation.INVALID, market.honest_verifiers)
            for cheat in market.evil
        ]
        market.attest(number)
        market.finalize(number, arrays)
        for report in reports:
            market.execute(report)

    return outcome(
        market,
        deed=unseen,
        instead=without_evil,
        attackers=market.evil,
        capital=market.numbers.stake * len(market.evil),
        found=found,
        chance=drawn(market, market.evil[0]),
    )


def copy_a_commitment(market: Market) -> Outcome:
    """Commits what an honest trainer's commitment said, seen in the mempool: it can't be opened."""
    thief, victim = market.evil[0], market.honest[0]

    def deed(market: Market) -> None:
        number = market.open()
        digest = market.digest(number, victim, market.work(victim, number))
        place = (market.job, number, thief.node)
        market.chain.send(thief.operator, "TrainingRounds", "commit", *place, digest)
        for player in market.honest:
            market.commit(number, player)
        market.pass_phase(number, Phase.COMMIT)
        for player in market.honest:
            market.reveal(number, player)
        try:
            market.reveal(number, thief, market.work(victim, number))
            raise AssertionError("A copied commitment was opened.")
        except Refused:
            pass
        market.pass_phase(number, Phase.REVEAL)
        args = (market.job, number, thief.node)
        market.chain.send(market.stranger, "TrainingRounds", "slash_unrevealed", *args)
        market.finish(number, dict.fromkeys(market.honest, 1))

    stake = market.numbers.stake
    return outcome(market, deed, without_evil, [thief], stake, note="it can't be opened")


ATTACKS = (
    Attack("send noise instead of work", "training", lie),
    Attack("copy a commitment from the mempool", "training", copy_a_commitment),
)
