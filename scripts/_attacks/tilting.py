# SPDX-License-Identifier: Apache-2.0
"""A validator that states its losses as far off as nobody can deny, played in real rounds.

All trainers work alike, under the codec, the merge and the score of a gauntlet job. What the
attacker's trainers are paid is compared with the same rounds and an honest validator, and then paid
out on the contracts.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

from agents.storage.embedded import EmbeddedStore
from agents.training.threads import one_thread
from scripts._attacks.attack import Attack, Outcome, outcome
from scripts._attacks.deeds import round_of
from scripts._attacks.market import Market, Numbers
from scripts._attacks.riders import MOST_NODES, PARTS, fields_of, gauntlet_of, uneven
from scripts._attacks.strategies import trains
from scripts._attacks.tilted_swarm import TiltedSwarm


def tilt_the_losses(market: Market) -> Outcome:
    """Adds to its friends' losses, and takes from the others', what machines may differ by."""
    numbers = market.numbers
    if not market.evil_verifiers:
        return Outcome(Fraction(0), Fraction(0), 0, "takes a verifier")
    friends = frozenset(range(1, max(1, round(numbers.share * _many(numbers))) + 1))
    tilted = _part(numbers, friends, friends) - _part(numbers, friends, frozenset())
    fair = Fraction(len(market.evil), len(market.trainers))
    pay = dict.fromkeys(market.honest, int(PARTS * (1 - fair - tilted) / len(market.honest)))
    pay |= dict.fromkeys(market.evil, int(PARTS * (fair + tilted) / len(market.evil)))
    found = outcome(
        market,
        round_of(pay),
        round_of(dict.fromkeys(market.trainers, 1)),
        market.evil,
        numbers.stake * len(market.evil) + numbers.verifier_stake * len(market.evil_verifiers),
        note=f"{float(tilted):+.1%} of the trainers' pay",
    )
    return Outcome(found.profit, found.loss, found.capital, found.note, uneven(market))


def _many(numbers: Numbers) -> int:
    return min(numbers.nodes, MOST_NODES)


def _part(numbers: Numbers, of: frozenset[int], friends: frozenset[int]) -> Fraction:
    """What these nodes have of all pay, where the first validator favours `friends`."""
    won = total = 0.0
    nodes = range(1, _many(numbers) + 1)
    fields = fields_of(gauntlet_of(numbers), len(nodes))
    with one_thread():
        for seed in range(numbers.seeds):
            with tempfile.TemporaryDirectory() as folder:
                store = EmbeddedStore(Path(folder) / "store")
                everyone = dict.fromkeys(nodes, trains())
                swarm = TiltedSwarm.open(store, everyone, seed, **fields)
                swarm.friends = friends
                for _ in range(numbers.rounds):
                    swarm.round()
            won += sum(swarm.pay[node] for node in of)
            total += sum(swarm.pay.values())
    return Fraction(won / total).limit_denominator(PARTS)


ATTACKS = (Attack("tilt the losses by what machines may differ by", "consensus", tilt_the_losses),)
