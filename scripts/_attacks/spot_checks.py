# SPDX-License-Identifier: Apache-2.0
"""How likely a cheat's work is done again, by the draw that verifiers use."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from agents.protocol.draw import CERTAIN
from agents.protocol.draw_chance import exposures, findings_at_once, lasting_loss
from scripts._attacks.market import Market, Player


def drawn(
    market: Market,
    cheat: Player,
    contributions: Mapping[int, int] | None = None,
    retained: int = 0,
    rounds: int = 1,
) -> Fraction:
    """The chance that a trainer is drawn in a round.

    Args:
        contributions: of all trainers by node; None pays all alike.
        retained: of the cheat's pay, in 1e-18 ZOO.
        rounds: in which it has its work at once.
    """
    numbers = market.numbers
    terms = numbers.terms
    paid = contributions or {player.node: 1 for player in market.trainers}
    losses = dict.fromkeys(paid, lasting_loss(numbers.stake, numbers.table))
    losses[cheat.node] = lasting_loss(numbers.stake, numbers.table, findings_at_once(rounds))
    losses[cheat.node] += retained
    cut = terms.aggregator_bps
    found = exposures(terms.reward_per_round, cut, list(paid), list(paid.values()), losses)
    exposed = Fraction(found[cheat.node].chance, CERTAIN)
    sample = Fraction(min(numbers.sample, len(paid)), len(paid))
    return 1 - (1 - sample) * (1 - exposed)
