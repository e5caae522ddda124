# SPDX-License-Identifier: Apache-2.0
"""Which part of a job's pay its verifiers need, so that doing work again pays them.

Each verifier does again what the draw asks for (`agents.protocol.draw_chance`), and has one part of
the verifiers' cut. While a job has retained little of the trainers' pay, more is drawn. So what
counts is the mean of all rounds of a job: a verifier that stays is paid too little for the first
ones and too much for the others.

With v the verifiers' cut, V of them, P a round's pay, t a trainer's part, r trainers' work done
again in a round on average, and c what a round's training costs, as a part of t, the least cut is
the smallest with

    v P / V >= g r c t,   g = `WORTH`.

Trainers have what verifiers don't, so t falls as v grows. Amounts are in 1e-18 ZOO.

Where a pipeline's epochs are audited by segments, a drawn miner's work is one segment of it.

Where nodes take something from round to round (`agents.rounds.codec_memory`), judging one takes its
rounds since the last reset, each once. So a round of a node is done again if the node is drawn in
it or in any later one before the next reset: with a chance p of being drawn and L rounds between
resets that is 1 - (1 - p)^k for the round that has k of them left, itself included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from agents.jobs.deterrence import checking, trainer_pay
from agents.protocol.numbers import BPS
from agents.protocol.slashing import Row
from agents.training.spec import PipelineSpec

WORTH = Fraction(5, 4)
"""How many times its cost a verifier's pay is at the least cut."""

MOST_CUTS = 5_000
"""Both cuts together at most, in 1/10,000 (contracts/TrainingJobs.vy)."""

_STEP = 50
_FINE = 10**6  # of a chance


@dataclass(frozen=True)
class Duty:
    """What a job asks of its verifiers.

    Attributes:
        reward: of a round.
        verifier_bps, aggregator_bps: the cuts.
        stakes: of the trainers, all of whom are paid alike. There is one at least.
        table: the slashing table.
        sample: trainers that are drawn in any case.
        retain_rounds: rounds whose pay is retained of each.
        rounds: of the job.
        verifiers: that share the cut.
        part: of a drawn trainer's work, that is done again.
        carried: rounds between resets of what nodes take from one into the next; 0 if they take
            nothing.
    """

    reward: int
    verifier_bps: int
    aggregator_bps: int
    stakes: Sequence[int]
    table: Mapping[int, Row]
    sample: int
    retain_rounds: int
    rounds: int
    verifiers: int
    part: Fraction = Fraction(1)
    carried: int = 0

    @property
    def trainer_pay(self) -> int:
        """Of a round, if all trainers do the same work."""
        cuts = self.verifier_bps, self.aggregator_bps
        return trainer_pay(self.reward, *cuts, len(self.stakes))

    @property
    def pay(self) -> Fraction:
        """A verifier's, of a round."""
        return Fraction(self.reward * self.verifier_bps, BPS * self.verifiers)

    def redone_in(self, number: int) -> Fraction:
        """Trainers' work of the round of this number, from 1, that each verifier is expected to do
        again because they are drawn in it."""
        retained = min(number - 1, self.retain_rounds)
        cuts = self.verifier_bps, self.aggregator_bps
        given = (self.reward, *cuts, self.stakes, self.table, self.sample, retained)
        return self.part * checking(*given).redone

    @cached_property
    def redone(self) -> Fraction:
        """Trainers' work that each verifier is expected to do again in a round, as the mean of all
        rounds, with what judging those that are drawn takes of the rounds before."""
        length = max(1, self.carried)
        full, rest = divmod(self.rounds, length)
        begun = min(full, -(-self.retain_rounds // length))  # the spans that are like no others
        spans = [self._span(length * place, length) for place in range(begun)]
        if full > begun:
            spans.append((full - begun) * self._span(length * begun, length))
        if rest:
            spans.append(self._span(length * full, rest))
        return sum(spans, Fraction(0)) / self.rounds

    def _span(self, first: int, count: int) -> Fraction:
        """The same of so many rounds after the first ones, between two resets, together."""
        if count == 1:
            return self.redone_in(first + 1)
        most = self.part * len(self.stakes)
        drawn = [
            (self.redone_in(first + number + 1) / most).limit_denominator(_FINE)
            for number in range(count)
        ]
        return most * done_again(drawn)

    def pays(self, compute: Fraction) -> bool:
        """Whether verifying is worth its cost. `compute`: of a round's training, as a part of a
        trainer's pay."""
        return self.pay >= WORTH * self.redone * compute * self.trainer_pay

    def least_cut(self, compute: Fraction) -> int | None:
        """The least verifiers' cut that pays, in steps of half a percent; None if none does that
        the contracts permit."""
        low, high = 0, (MOST_CUTS - self.aggregator_bps) // _STEP
        if not self._with(high * _STEP).pays(compute):
            return None
        while low < high:
            middle = (low + high) // 2
            if self._with(middle * _STEP).pays(compute):
                high = middle
            else:
                low = middle + 1
        return high * _STEP

    def _with(self, verifier_bps: int) -> Duty:
        return replace(self, verifier_bps=verifier_bps)


def done_again(drawn: Sequence[Fraction]) -> Fraction:
    """How many of a node's rounds between two resets are done again, by the chance of being drawn
    in each: those in which it is drawn and all before."""
    missed, total = Fraction(1), Fraction(0)
    for chance in reversed(drawn):
        missed *= 1 - chance
        total += 1 - missed
    return total


def part_done_again(pipeline: PipelineSpec | None, samples: int, trainers: int) -> Fraction:
    """What of a drawn trainer's work is done again: all of it, or a segment of a miner's steps.

    Args:
        pipeline: of the job; None where trainers hold the whole model.
        samples: of a round. The miners of a stage have them in equal parts.
        trainers: of the job, as many at each stage.
    """
    if pipeline is None or not pipeline.segment:
        return Fraction(1)
    miners = max(1, trainers // len(pipeline.layers))
    steps = math.ceil(Fraction(samples, miners * pipeline.local_batch))
    return min(Fraction(1), Fraction(pipeline.segment, steps))
