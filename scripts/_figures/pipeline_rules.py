# SPDX-License-Identifier: Apache-2.0
"""What the rules of `agents/pipeline` give in the primer's own settings: nothing is trained.

IOTA's figures 7a, 7b, 8a, 8b and appendix A.1. The primer's text gives 50 miners, five stages of
five, and 10 % that a malicious miner adds to mean and deviation of a loss. It does not give how
many collude and on what, nor how many samples CLASP sees. Mean and deviation of an honest loss got
lost in the text that is public; 6 and 0.5 are assumed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from eth_utils import keccak

from agents.pipeline.butterfly import (
    Butterfly,
    Rule,
    Settled,
    agreement,
    recomputed,
    settle,
    valid_fraction,
)
from agents.pipeline.clasp import Clasp, Judgement, PathLoss, mean_losses
from agents.pipeline.credit import PPM, EpochPasses, scores
from agents.pipeline.routes import route

MINERS = 50
STAGES = [list(range(10 * stage, 10 * stage + 5)) for stage in range(5)]
MALICIOUS = (12, 31)
LOSS, SPREAD = 6.0, 0.5


def seed_of(*numbers: int) -> bytes:
    """A public seed of 32 bytes for a study, by numbers."""
    return keccak(b"".join(number.to_bytes(8, "big") for number in numbers))


# -- butterfly all-reduce ----------------------------------------------------------------------


@dataclass(frozen=True)
class Merge:
    """One merge of `miners`, two numbers a shard."""

    butterfly: Butterfly
    values: list[torch.Tensor]

    @classmethod
    def of(cls, miners: int, number: int = 0) -> Merge:
        length = miners * (miners - 1)
        butterfly = Butterfly.draw(seed_of(number), range(miners), length)
        generator = torch.Generator().manual_seed(number)
        uploads = {miner: torch.randn(length, generator=generator) for miner in range(miners)}
        of = recomputed(butterfly, uploads, dict.fromkeys(range(miners), 1), Rule())
        return cls(butterfly, [of(shard) for shard in range(len(butterfly.pairs))])

    def delivered(
        self, lost: Collection[int] = (), colluders: Collection[int] = ()
    ) -> dict[tuple[int, int], torch.Tensor]:
        """What owners deliver; colluders all deliver the same lie."""
        found = {}
        for shard, pair in enumerate(self.butterfly.pairs):
            value = self.values[shard]
            for owner in pair:
                if owner not in lost:
                    found[owner, shard] = value + 1 if owner in colluders else value
        return found

    def settled(self, lost: Collection[int] = (), colluders: Collection[int] = ()) -> Settled:
        """The merge of that."""
        old = torch.zeros(self.butterfly.length)
        delivered = self.delivered(lost, colluders)
        return settle(self.butterfly, old, delivered, self.values.__getitem__)


def agreement_matrix(
    colluders: Collection[int], miners: int = MINERS
) -> tuple[list[list[bool | None]], Settled]:
    """Figure 7a: the matrix, and what settling the same merge found."""
    merge = Merge.of(miners)
    digests = merge.butterfly.digests(merge.delivered(colluders=colluders))
    return agreement(merge.butterfly, digests), merge.settled(colluders=colluders)


@dataclass(frozen=True)
class ValidRow:
    """Figure 7b at one failure rate: `lost` = round(rate * n); `counted` over drawn sets of lost.

    `independent`: where each miner fails by itself with that probability, 1 - rate^2 is expected.
    """

    rate: float
    lost: int
    formula: Fraction
    counted: Fraction
    independent: float
    independent_counted: float


def valid_shards(rates: Sequence[float], miners: int = MINERS, draws: int = 20) -> list[ValidRow]:
    """Figure 7b."""
    rows = []
    chance = random.Random(1)
    merges = [Merge.of(miners, number) for number in range(draws)]
    for rate in rates:
        lost = round(rate * miners)
        valid = alone = 0
        for merge in merges:
            valid += sum(merge.settled(chance.sample(range(miners), lost)).valid)
            failing = {miner for miner in range(miners) if chance.random() < rate}
            alone += sum(merge.settled(failing).valid)
        shards = draws * math.comb(miners, 2)
        rows.append(
            ValidRow(
                rate=rate,
                lost=lost,
                formula=valid_fraction(miners, lost),
                counted=Fraction(valid, shards),
                independent=1 - rate * rate,
                independent_counted=alone / shards,
            )
        )
    return rows


# -- CLASP -------------------------------------------------------------------------------------


def toy_log(samples: int, number: int, malicious: Collection[int] = MALICIOUS) -> list[PathLoss]:
    """The primer's toy: normal losses; mean and deviation 10 % up for each malicious miner met."""
    noise = random.Random(number)
    log = []
    for sample in range(samples):
        path = route(seed_of(number), sample, STAGES)
        factor = 1.1 ** len({*path} & {*malicious})
        loss = max(0.0, noise.gauss(LOSS * factor, SPREAD * factor))
        log.append(PathLoss(sample, path, round(loss * PPM)))
    return log


def plain_z(log: Sequence[PathLoss]) -> dict[int, float]:
    """The primer's z: mean losses against mean and deviation of all 25; at most sqrt(24)."""
    means = {miner: float(value) for miner, value in mean_losses(log).items()}
    centre = math.fsum(means.values()) / len(means)
    spread = math.sqrt(math.fsum((v - centre) ** 2 for v in means.values()) / len(means))
    return {miner: (value - centre) / spread for miner, value in means.items()}


@dataclass(frozen=True)
class Toy:
    """Figures 8a and 8b of one log, by miner. `means`: of the losses, in 1e-6."""

    means: dict[int, Fraction]
    plain: dict[int, float]
    judged: dict[int, Judgement]


def clasp_toy(samples: int, number: int = 0, malicious: Collection[int] = MALICIOUS) -> Toy:
    """Figures 8a (z) and 8b (contributions)."""
    log = toy_log(samples, number, malicious)
    return Toy(mean_losses(log), plain_z(log), Clasp().judge(log))


# -- scores carried ----------------------------------------------------------------------------


def carried_counted(gamma: int, interval: int) -> Fraction:
    """Epochs that `scores` counts, averaged over all moments of one interval (in minutes)."""
    end = 3 * max(gamma, interval)
    at = range(0, end + interval, interval)
    moments = range(end, end + interval)
    counted = 0
    for now in moments:
        records = [EpochPasses(1, one, 1, 1, 1) for one in at if one <= now]
        counted += scores(records, now, gamma).get(1, 0)
    return Fraction(counted, PPM * len(moments))
