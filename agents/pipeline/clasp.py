# SPDX-License-Identifier: Apache-2.0
"""CLASP: what each miner adds to the loss, from a published log of pathways and losses.

IOTA, section 6 and appendix B: samples take random paths; l_m is the mean loss of the samples that
passed miner m; outliers are found by robust statistics and paid less.

The estimate. Take the game in which miners that are left out are replaced by a random peer of their
stage. If effects add up, the Shapley value of m is what replacing m by a peer saves: the mean l of
its stage less l_m (`contributions`, as gain: negative for a miner that harms). This assumes that
routes are uniform and independent (`agents.pipeline.routes` draws them), that effects of different
stages add up (else it is the main effect, averaged over everybody else), and that losses are true.
It compares with peers, so a bad miner makes those of its own stage look better: figure 8b.

The last assumption fails if the last stage's miners report losses themselves. One of them can raise
a victim's losses and lower others', so that its own mean stays. With `by_reporter` an effect is the
median, over the miners of the last stage, of what that one's reports say of m relative to its own
mean: less than half of the reporters then can't move it beyond what honest ones say. It protects
from three reporters on. Nobody but itself reports on a miner of the last stage; its reports are
compared with recomputed losses (`lies`).

Distances are measured in robust standard deviations of one kind: 1.4826 median absolute deviations,
or the standard error that so few samples leave, whichever is larger. Among five peers the first
alone is often small by chance. A low loss is never paid for: it would pay for luck, and for lies.
Losses are whole numbers of 1e-6, and so is everything after them: same figures everywhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from eth_utils import keccak

from agents.mechanisms.score.parts.clasp_options import ClaspOptions
from agents.pipeline.credit import PPM
from agents.training.spec import MAX_STAGES

MILLI = 1000
MAX_SAMPLES = 1 << 22
MAX_LOSS = 10**12


@dataclass(frozen=True)
class PathLoss:
    """One sample: the miners that it passed, from the first stage, and its loss in 1e-6."""

    sample: int
    path: tuple[int, ...]
    loss: int


@dataclass(frozen=True)
class Judgement:
    """What the log says of one miner.

    Attributes:
        stage: counted from 0.
        samples: how many passed it.
        contribution: Shapley estimate in 1e-6 of loss: by how much the loss would rise with a
            random peer in its place. Negative: it harms.
        stage_z, overall_z: excess loss in robust standard deviations, in thousandths, against its
            stage's and against all miners' median.
        factor_ppm: part of its pay that is left, 0..1,000,000.
    """

    stage: int
    samples: int
    contribution: int
    stage_z: int
    overall_z: int
    factor_ppm: int


@dataclass(frozen=True)
class Clasp(ClaspOptions):
    """The rule, with the options of a job's score."""

    def judge(self, log: Sequence[PathLoss], liars: Collection[int] = ()) -> dict[int, Judgement]:
        """The judgement of every miner in the log, by ascending id.

        Args:
            log: every sample of the epoch once, complete: whoever publishes it must not choose.
            liars: miners that `lies` convicts; they are paid nothing.

        Raises:
            ValueError: no sample, one twice, paths of different lengths, a miner in two stages, or
                a loss or a number of samples out of range.
        """
        stages = _stages(log)
        means, counts = _means(log, range(len(log[0].path)))
        effects = self._effects(log, stages, means)
        errors = _standard_errors(log, counts)
        gains = _contributions(stages, means)
        overall = _scores(effects, errors)
        peers: dict[int, int] = {}
        for stage in set(stages.values()):
            peers |= _scores({m: e for m, e in effects.items() if stages[m] == stage}, errors)
        return {
            miner: Judgement(
                stage=stages[miner],
                samples=counts[miner],
                contribution=math.floor(gains[miner]),
                stage_z=peers[miner],
                overall_z=overall[miner],
                factor_ppm=0 if miner in liars else self._factor(max(peers[miner], overall[miner])),
            )
            for miner in sorted(stages)
        }

    def _effects(
        self, log: Sequence[PathLoss], stages: Mapping[int, int], means: Mapping[int, Fraction]
    ) -> dict[int, Fraction]:
        last = max(stages.values())
        if not self.by_reporter or not last:
            return dict(means)
        reporters: dict[int, list[PathLoss]] = defaultdict(list)
        for one in log:
            reporters[one.path[-1]].append(one)
        told: dict[int, list[Fraction]] = defaultdict(list)
        for reporter, own in sorted(reporters.items()):
            for miner, mean in _means(own, range(last))[0].items():
                told[miner].append(mean - means[reporter])
        typical = _median([means[reporter] for reporter in reporters])
        own_word = {reporter: means[reporter] - typical for reporter in reporters}
        return {**{miner: _median(values) for miner, values in told.items()}, **own_word}

    def _factor(self, z: int) -> int:
        limit = round(self.threshold * MILLI)
        return min(PPM, max(0, (2 * limit - z) * PPM // limit))


def stated(losses: Mapping[int, float]) -> tuple[tuple[int, int], ...]:
    """(sample, loss in 1e-6), ascending by sample, as a miner of the last stage publishes it.

    `losses`: by sample, in nats a token, finite. More than MAX_LOSS is stated as MAX_LOSS.
    """
    return tuple((s, min(MAX_LOSS, round(loss * PPM))) for s, loss in sorted(losses.items()))


def loss_digest(loss: int) -> bytes:
    """What the log of a miner of the last stage says went out of a forward: keccak256 of the loss
    that it states, in 1e-6, as 8 bytes. So losses are committed to with the log, before anybody has
    seen those of others."""
    return keccak(loss.to_bytes(8, "big"))


def mean_losses(log: Sequence[PathLoss]) -> dict[int, Fraction]:
    """l_m of appendix B in 1e-6, by ascending miner; raises as `judge`."""
    _stages(log)
    return _means(log, range(len(log[0].path)))[0]


def contributions(log: Sequence[PathLoss]) -> dict[int, Fraction]:
    """The Shapley estimate by ascending miner, in 1e-6; see the module. Raises as `judge`."""
    return _contributions(_stages(log), mean_losses(log))


def accusers(log: Iterable[PathLoss], miners: Collection[int]) -> dict[int, int]:
    """By miner, the one of the last stage whose reports say the most against it, ascending.

    That is the reporter in whose samples the miner's own lose the most beside the others; of equal
    ones the lowest id. A miner of the last stage has no reporter but itself. `miners`: of the log.
    """
    reports: dict[int, list[PathLoss]] = defaultdict(list)
    for one in log:
        reports[one.path[-1]].append(one)
    said: dict[int, list[tuple[Fraction, int]]] = defaultdict(list)
    for reporter, own in reports.items():
        mean = Fraction(sum(one.loss for one in own), len(own))
        for miner, theirs in _means(own, range(len(own[0].path)))[0].items():
            said[miner].append((theirs - mean, -reporter))
    return {miner: -max(said[miner])[1] for miner in sorted(miners)}


def companions(log: Collection[PathLoss], miners: Collection[int]) -> dict[int, tuple[int, ...]]:
    """By miner, of each other stage but the last the miner in whose company its samples lose the
    most: the sum of what they lose above their mean. Of equal ones the lowest id. `miners`: of the
    log, ascending in what is returned.

    Who spoils what it hands on to some alone, or with friends a part each, need not lose more than
    usual itself. Then what these lose beside others is in samples of it, all of it in its stage.
    """
    found = dict[int, tuple[int, ...]]()
    for miner in sorted(miners):
        own = [one for one in log if miner in one.path]
        mean = Fraction(sum(one.loss for one in own), len(own))
        more = defaultdict[tuple[int, int], Fraction](Fraction)
        for one in own:
            for stage, other in enumerate(one.path[:-1]):
                more[stage, other] += one.loss - mean
        most = dict[int, tuple[Fraction, int]]()
        for (stage, other), lost in more.items():
            if other != miner:
                most[stage] = max(most.get(stage, (lost, -other)), (lost, -other))
        found[miner] = tuple(-other for _, (_, other) in sorted(most.items()))
    return found


def lies(
    log: Iterable[PathLoss], recomputed: Mapping[int, int], tolerance: int
) -> dict[int, tuple[int, ...]]:
    """Miners of the last stage whose reported losses are wrong, and for which samples.

    `recomputed`: true losses in 1e-6 by sample, of those that a validator worked out again.
    `tolerance`: the largest difference that another machine makes.
    """
    found: dict[int, list[int]] = defaultdict(list)
    for one in log:
        true = recomputed.get(one.sample)
        if true is not None and abs(true - one.loss) > tolerance:
            found[one.path[-1]].append(one.sample)
    return {miner: tuple(samples) for miner, samples in sorted(found.items())}


def _stages(log: Sequence[PathLoss]) -> dict[int, int]:
    """The stage of each miner; ValueError for a log that is none."""
    if not 1 <= len(log) <= MAX_SAMPLES:
        raise ValueError(f"A log has 1 to {MAX_SAMPLES} samples, not {len(log)}.")
    stages: dict[int, int] = {}
    depth = len(log[0].path)
    if len({one.sample for one in log}) != len(log) or not 1 <= depth <= MAX_STAGES:
        raise ValueError(f"A log has each sample once, with a path of 1 to {MAX_STAGES} miners.")
    for one in log:
        if len(one.path) != depth or not 0 <= one.loss <= MAX_LOSS:
            raise ValueError(
                f"Sample {one.sample} has no path of {depth} miners, or its loss is not from 0 to "
                f"{MAX_LOSS} millionths."
            )
        for stage, miner in enumerate(one.path):
            if stages.setdefault(miner, stage) != stage:
                raise ValueError(f"Miner {miner} is in stages {stages[miner]} and {stage}.")
    return stages


def _means(
    log: Iterable[PathLoss], stages: Sequence[int]
) -> tuple[dict[int, Fraction], dict[int, int]]:
    """Mean loss and number of samples of each miner of some stages."""
    sums: dict[int, int] = defaultdict(int)
    counts: dict[int, int] = defaultdict(int)
    for one in log:
        for stage in stages:
            sums[one.path[stage]] += one.loss
            counts[one.path[stage]] += 1
    return {m: Fraction(sums[m], counts[m]) for m in sorted(sums)}, dict(counts)


def _contributions(stages: Mapping[int, int], means: Mapping[int, Fraction]) -> dict[int, Fraction]:
    peers: dict[int, list[Fraction]] = defaultdict(list)
    for miner, stage in stages.items():
        peers[stage].append(means[miner])
    typical = {stage: sum(values, Fraction()) / len(values) for stage, values in peers.items()}
    return {miner: typical[stages[miner]] - mean for miner, mean in means.items()}


def _standard_errors(log: Sequence[PathLoss], counts: Mapping[int, int]) -> dict[int, int]:
    """Of each miner's effect, in 1e-6 and at least 1: sqrt(pi / 2) sigma / sqrt(samples).

    sigma is 1.4826 median absolute deviations of the log's losses; sqrt(pi / 2) is what a median of
    normal numbers has more than their mean.
    """
    losses = [Fraction(one.loss) for one in log]
    sigma = _spread(losses)
    return {
        miner: max(1, math.isqrt(15_708 * sigma * sigma // (10_000 * count)))
        for miner, count in counts.items()
    }


def _scores(effects: Mapping[int, Fraction], errors: Mapping[int, int]) -> dict[int, int]:
    """Robust z in thousandths."""
    centre, spread = _median(list(effects.values())), _spread(list(effects.values()))
    return {
        miner: math.floor(MILLI * (effect - centre) / max(spread, errors[miner]))
        for miner, effect in effects.items()
    }


def _spread(values: Sequence[Fraction]) -> int:
    """1.4826 median absolute deviations, rounded down: sigma of normal numbers."""
    centre = _median(values)
    return math.floor(Fraction(14_826, 10_000) * _median([abs(one - centre) for one in values]))


def _median(values: Sequence[Fraction]) -> Fraction:
    ranked = sorted(values)
    return (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
