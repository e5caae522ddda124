# SPDX-License-Identifier: Apache-2.0
"""Rounds that many attacks have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.protocol.numbers import Violation
from scripts._attacks.attack import Deed
from scripts._attacks.market import Market, Player


def round_of(pay: Mapping[Player, int], found: Sequence[Player] = ()) -> Deed:
    """A round of all trainers with this result. Honest verifiers report those who are `found`, and
    anyone carries out what they confirm."""

    def deed(market: Market) -> None:
        number = market.train()
        arrays = market.propose(number, pay)
        reports = [
            market.report(number, cheat, Violation.INVALID, market.honest_verifiers)
            for cheat in found
        ]
        market.attest(number)
        market.finalize(number, arrays)
        for report in reports:
            market.execute(report)

    return deed


def double_the_verifiers(market: Market) -> None:
    """The attacker's verifiers bond as much again, of money that their owners bring, and wait until
    it counts."""
    more = market.numbers.verifier_stake
    for player in market.evil_verifiers:
        market.give(player.owner, more)
        market.chain.send(player.owner, "NodeRegistry", "add_stake", player.node, more)
    market.chain.wait(int(market.chain.read("NodeRegistry", "maturity")) + 1)


def without_evil(market: Market) -> None:
    """A round in which the attacker's trainers stay away."""
    number = market.train(market.honest)
    market.finish(number, dict.fromkeys(market.honest, 1))
