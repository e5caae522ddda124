# SPDX-License-Identifier: Apache-2.0
"""A validator that says of others' nodes that their payloads came too late, which no bytes deny.

Trainers work alike, and validators measure them in real rounds under the codec, the merge and the
score of a gauntlet job. In each round the first validator knows the others' vectors. It gives
nothing to those strangers whose medians fall most by it, and their parts to the rest, as its record
would. The vectors are then brought to the contracts, round by round, in the place of the market's
verifiers, and pay its trainers. It is played for each number of denied nodes, and the attacker's
trainers stand in each place among the others; what counts is the mean over places where it denies
as many as pay best.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from agents.protocol.median import stake_median
from agents.protocol.numbers import SCALE
from agents.storage.canonical import dumps, loads
from agents.storage.embedded import EmbeddedStore
from agents.training.threads import one_thread
from scripts._attacks.attack import Attack, Deed, Outcome, outcome
from scripts._attacks.gauntlet_swarm import VALIDATORS, GauntletSwarm
from scripts._attacks.market import Market, Numbers, Player
from scripts._attacks.riders import MOST_NODES, fields_of, gauntlet_of
from scripts._attacks.scoring_round import ScoringRound
from scripts._attacks.strategies import trains

Round = list[list[int]]  # a vector of each validator
_MOST_PLACES = 3


def measured(numbers: Numbers, nodes: int, every: int = 0) -> list[list[Round]]:
    """What honest validators say of equal nodes, by seed and round, in a job with these numbers'
    mechanisms. `every`: after so many rounds the last one lacks one payload, another one each time;
    0: never."""
    job = dumps(fields_of(gauntlet_of(numbers), nodes))
    return [_measured(job, numbers.rounds, nodes, seed, every) for seed in range(numbers.seeds)]


@cache
def _measured(job: bytes, rounds: int, nodes: int, seed: int, every: int) -> list[Round]:
    fields = loads(job, len(job))
    everyone, found = dict.fromkeys(range(1, nodes + 1), trains()), []
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        swarm = _Missing.open(EmbeddedStore(Path(folder) / "store"), everyone, seed, **fields)
        swarm.every = every
        for _ in range(rounds):
            swarm.round()
            found.append([swarm.vectors[index] for index in range(VALIDATORS)])
    return found


@dataclass
class _Missing(GauntletSwarm):
    """`every`: after so many rounds the last validator lacks one payload; 0: never."""

    every: int = 0

    def lost(self, index: int) -> frozenset[int]:
        if not self.every or (self.number + 1) % self.every or index != VALIDATORS - 1:
            return frozenset()
        word = int.from_bytes(self.word("missed"), "big")
        return frozenset({self.nodes[word % len(self.nodes)]})


def denying(rows: Round, friends: Sequence[int], count: int) -> list[int]:
    """The first validator's vector if it gives nothing to those `count` strangers whose medians
    fall most by it. Nodes are named by their places."""
    own, honest = rows[0], rows[1:]
    alike = [1] * len(rows)
    told = stake_median(rows, alike, len(rows))
    without = stake_median([[0] * len(own), *honest], alike, len(rows))
    strangers = [node for node in range(len(own)) if node not in friends]
    strangers.sort(key=lambda node: without[node] - told[node])
    left = [0 if node in strangers[:count] else score for node, score in enumerate(own)]
    total = sum(left) or 1
    return [score * SCALE // total for score in left]


def deny_payloads(market: Market, every: int = 0) -> Outcome:
    """Says of the strangers that pay best that their payloads came too late. `every`: after so many
    rounds an honest validator lacks one, too."""
    if not market.evil_verifiers:
        return Outcome(Fraction(0), Fraction(0), 0, "takes a verifier")
    market = _small(market)
    seeds = measured(market.numbers, len(market.trainers), every)
    plays = [(rounds, place) for rounds in seeds for place in range(_places(market))]
    tries = {
        count: [_denied(market, rounds, place, count) for rounds, place in plays]
        for count in range(1, len(market.honest) + 1)
    }
    rounds = market.numbers.rounds
    profit, count = max(
        (sum((one.profit for one in found), Fraction(0)) / (len(found) * rounds), count)
        for count, found in tries.items()
    )
    best = tries[count]
    loss = sum((one.loss for one in best), Fraction(0)) / (len(best) * rounds)
    return Outcome(profit, loss, best[0].capital, f"of {count} others, {rounds} rounds")


def _small(market: Market) -> Market:
    """The same, with no more trainers than a swarm has."""
    if len(market.trainers) <= MOST_NODES:
        return market
    return Market(replace(market.numbers, nodes=MOST_NODES))


def _places(market: Market) -> int:
    return min(_MOST_PLACES, len(market.trainers) // len(market.evil))


def _denied(market: Market, rounds: Sequence[Round], place: int, count: int) -> Outcome:
    """With the attacker's trainers at this place of the swarm's."""
    nodes, evil = len(market.trainers), len(market.evil)
    friends = [(place * evil + step) % nodes for step in range(evil)]
    strangers = [node for node in range(nodes) if node not in friends]
    at = {
        **dict(zip(friends, market.evil, strict=True)),
        **dict(zip(strangers, market.honest, strict=True)),
    }

    def played(denied: int) -> Deed:
        def deed(market: Market) -> None:
            for number, rows in enumerate(rounds):
                first = denying(rows, friends, denied) if denied else rows[0]
                round_ = ScoringRound(market, adopted=number > 0)
                round_.finish(_brought(market, at, [first, *rows[1:]]))

        return deed

    capital = market.numbers.stake * evil
    capital += market.numbers.verifier_stake * len(market.evil_verifiers)
    gang = [*market.evil, *market.evil_verifiers]
    return outcome(market, played(count), played(0), gang, capital)


def _brought(
    market: Market, at: Mapping[int, Player], rows: Round
) -> dict[Player, dict[Player, int]]:
    """The first vector by the attacker's verifiers, the last by the last honest one, the second by
    all others."""
    first, second, last = (
        {at[node]: score for node, score in enumerate(row) if score} for row in rows
    )
    given = dict.fromkeys(market.evil_verifiers, first)
    given |= dict.fromkeys(market.honest_verifiers, second)
    return {**given, market.honest_verifiers[-1]: last}


ATTACKS = (Attack("say that others' payloads came too late", "consensus", deny_payloads),)
