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
from torch import Tensor

from agents.mechanisms import merge
from agents.pipeline.butterfly import Butterfly, valid_fraction
from agents.pipeline.clasp import Clasp, Judgement, PathLoss, mean_losses
from agents.pipeline.credit import PPM, EpochPasses, scores
from agents.pipeline.routes import route
from agents.pipeline.shards import Settlement, Statement, settle

MINERS = 50
STAGES = [list(range(10 * stage, 10 * stage + 5)) for stage in range(5)]
MALICIOUS = (12, 31)
LOSS, SPREAD = 6.0, 0.5


def seed_of(*numbers: int) -> bytes:
    """A public seed of 32 bytes for a study, by numbers."""
    return keccak(b"".join(number.to_bytes(8, "big") for number in numbers))


# -- butterfly all-reduce ----------------------------------------------------------------------


_NINE_TENTHS = Fraction(9, 10)  # of the shards must be delivered
_NOTHING = bytes(32)  # the digest of a file that nobody reads here


@dataclass(frozen=True)
class Merge:
    """One merge of `miners`, two numbers a shard. `honest`, `lying`: what each owner states that
    merges right, and that has the same lie as all others in every shard. A shard alone is merged to
    the bits that it has in the whole, so it is cut out of that."""

    butterfly: Butterfly
    merged: Tensor
    honest: dict[int, Statement]
    lying: dict[int, Statement]

    @classmethod
    def of(cls, miners: int, number: int = 0) -> Merge:
        length = miners * (miners - 1)
        butterfly = Butterfly.draw(seed_of(number), range(miners), length)
        generator = torch.Generator().manual_seed(number)
        rows = [torch.randn(length, generator=generator) for _ in range(miners)]
        merged = merge.get("mean")()([{"shard": row} for row in rows])["shard"]
        honest, lying = {}, {}
        for owner in butterfly.miners:
            spans = {shard: butterfly.spans[shard] for shard in butterfly.owned(owner)}
            made = {shard: merged[first:last] for shard, (first, last) in spans.items()}
            honest[owner] = _stated(butterfly, owner, made)
            lying[owner] = _stated(butterfly, owner, {s: one + 1 for s, one in made.items()})
        return cls(butterfly, merged, honest, lying)

    def settled(self, lost: Collection[int] = (), colluders: Collection[int] = ()) -> Settlement:
        """What the statements come to. `lost`: owners that state nothing."""
        said = {
            owner: (self.lying if owner in colluders else self.honest)[owner]
            for owner in self.butterfly.miners
            if owner not in lost
        }
        return settle(
            self.butterfly, self.merged, self.butterfly.miners, said, _NINE_TENTHS, _nobody
        )


def _stated(butterfly: Butterfly, owner: int, made: dict[int, Tensor]) -> Statement:
    digests = tuple(butterfly.digest(shard, values) for shard, values in made.items())
    return Statement(0, 0, owner, butterfly.seed, butterfly.miners, _NOTHING, digests)


def _nobody(owner: int, shard: int) -> Tensor | None:
    """Asked for nothing: all owners merge the same miners."""
    raise AssertionError(f"Owner {owner} merged others in shard {shard}.")


def collusion(colluders: Collection[int], miners: int = MINERS) -> Settlement:
    """Figure 7a: agreement matrix and liars where some tell one lie."""
    return Merge.of(miners).settled(colluders=colluders)


def lied_about(settled: Settlement) -> int:
    """Shards of which an owner stated a wrong digest."""
    return len({shard for shards in settled.liars.values() for shard in shards})


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
        shards = draws * math.comb(miners, 2)
        valid = alone = shards
        for one in merges:
            valid -= len(one.settled(chance.sample(range(miners), lost)).lost)
            failing = {miner for miner in range(miners) if chance.random() < rate}
            alone -= len(one.settled(failing).lost)
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
