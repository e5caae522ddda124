# SPDX-License-Identifier: Apache-2.0
"""What a training job's terms make of a cheat, strategy by strategy, and what checking costs.

The counterpart of `agents.tasks.deterrence` for work that verifiers do again. Each node is drawn by
the chance that its exposure asks for (`agents.protocol.draw_chance`), so a lie loses money at any
number of nodes, any price of computing and any cost of a new identity, as long as a slash takes
something. What the terms decide is how much of the work has to be done again for that.

Strategies, by what they bring on average for one round, in 1e-18 ZOO. A node whose work is found
wrong is not paid for the round, loses, and needs a new identity:

- always: it lies in every round, under a new name when it was found.
- leave: it lies once and goes on under a new name, found or not.
- mixed: it lies in one round of `every`, and works honestly else.

Beside them stands honest work. Nothing here counts gas, or what a suspended node does not earn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agents.protocol.draw import CERTAIN
from agents.protocol.draw_chance import MARGIN, Exposure, exposures, lasting_loss
from agents.protocol.numbers import BPS, ZOO
from agents.protocol.slashing import Row

HALF = Fraction(1, 2)


def lie(gain: Fraction, chance: Fraction, loss: Fraction) -> Fraction:
    """What a lie brings on average: `gain` unless it is drawn with `chance`, less `loss` if so."""
    return (1 - chance) * gain - chance * loss


def always(exposed: Exposure, chance: Fraction, identity: int) -> Fraction:
    """Lying in every round. `identity`: what a new one costs."""
    return lie(Fraction(exposed.pay), chance, Fraction(exposed.loss + identity))


def leave(exposed: Exposure, chance: Fraction, identity: int) -> Fraction:
    """Lying once under each name."""
    return lie(Fraction(exposed.pay), chance, Fraction(exposed.loss)) - identity


def honest(pay: int, compute: Fraction) -> Fraction:
    """Working. `compute`: what it costs, as a share of the pay."""
    return pay * (1 - compute)


def mixed(
    exposed: Exposure, chance: Fraction, identity: int, pay: int, compute: Fraction, every: int
) -> Fraction:
    """Lying in one round of `every`. `pay`: of a round of honest work."""
    return ((every - 1) * honest(pay, compute) + always(exposed, chance, identity)) / every


def stake_needed(pay: int, chance: Fraction, table: Mapping[int, Row]) -> int | None:
    """The stake at which a node with this pay is drawn with `chance` at most; None if no stake is
    enough. ValueError for a chance outside of 0 to 1, or 0."""
    if not 0 < chance <= 1:
        raise ValueError("Whoever is paid is drawn with some chance.")
    part = Fraction(lasting_loss(ZOO, table), ZOO)
    return math.ceil(MARGIN * pay * (1 - chance) / chance / part) if part else None


@dataclass(frozen=True)
class Checking:
    """What a round of a job asks of each verifier, if all trainers do the same work.

    Attributes:
        exposed: of each trainer.
        sample: nodes that are drawn whatever they are paid.
        needed: stake at which only half of the nodes would have to be done again; None if no stake
            is enough.
    """

    exposed: tuple[Exposure, ...]
    sample: int
    needed: int | None

    @property
    def redone(self) -> Fraction:
        """Trainers whose work is expected to be done again."""
        nodes = len(self.exposed)
        missed = 1 - Fraction(min(self.sample, nodes), nodes) if nodes else Fraction(0)
        drawn = (Fraction(one.chance, CERTAIN) for one in self.exposed)
        return sum((1 - missed * (1 - chance) for chance in drawn), Fraction(0))

    @property
    def deters(self) -> bool:
        """Whether a lie costs anything. If not, whoever lies loses nothing but its pay."""
        return all(one.loss > 0 for one in self.exposed)

    def sentences(self) -> list[str]:
        """The verdict in words."""
        nodes = len(self.exposed)
        if not nodes:
            return []
        if not self.deters:
            return [
                "a finding of INVALID takes nothing for good from some trainers' stakes, so they "
                "lose nothing by a lie"
            ]
        pay, loss = (max(getattr(one, name) for one in self.exposed) for name in ("pay", "loss"))
        first = (
            f"each verifier is expected to do the work of {float(self.redone):.1f} of {nodes} "
            f"trainers again in a round: {_zoo(pay)} is what a lie may earn, {_zoo(loss)} what it "
            "costs for good when it is found"
        )
        # The sample is drawn whatever is at stake, so that no stake makes it fewer.
        if self.needed is None or nodes < 2 * self.sample or 2 * self.redone <= nodes:
            return [first]
        return [
            first,
            f"half as many take trainers with {_zoo(self.needed)} of stake each, or a reward that "
            "is lower in the same proportion",
        ]


def trainer_pay(reward: int, verifier_bps: int, aggregator_bps: int, trainers: int) -> int:
    """What a round pays each trainer if all do the same work and the verifiers have their cut.

    A job retains so much of each round's pay, since what the verifiers have is not the trainers'.
    """
    return reward * (BPS - verifier_bps - aggregator_bps) // BPS // max(1, trainers)


def checking(
    reward: int,
    verifier_bps: int,
    aggregator_bps: int,
    stakes: Sequence[int],
    table: Mapping[int, Row],
    sample: int,
    retained: int = 0,
) -> Checking:
    """What it takes to check a round of trainers with these stakes, each with the same part.

    `reward`: of the round. `table`: the slashing table. `retained`: rounds whose pay is retained of
    each. Amounts in 1e-18 ZOO. What a lie may win counts the verifiers' cut (`exposures`), what is
    retained does not (`trainer_pay`).
    """
    nodes = range(len(stakes))
    kept = retained * trainer_pay(reward, verifier_bps, aggregator_bps, len(stakes))
    losses = {
        node: lasting_loss(stake, table) + kept for node, stake in zip(nodes, stakes, strict=True)
    }
    found = exposures(reward, aggregator_bps, nodes, [1] * len(stakes), losses)
    most = trainer_pay(reward, 0, aggregator_bps, len(stakes))
    return Checking(tuple(found.values()), sample, stake_needed(most, HALF, table))


def _zoo(amount: int) -> str:
    return f"{amount / ZOO:,.4g} ZOO"
