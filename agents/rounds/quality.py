# SPDX-License-Identifier: Apache-2.0
"""Who of a split model's miners harms, by the losses that the last stage published (CLASP).

Rule: the samples are those that count at every stage, so each has a way that the seed drew, and the
miner of the last stage on it has stated its loss. A miner of whose samples none does is not judged.
The losses are taken as stated: whether they are true is for re-execution to tell, which comes
later. All are whole numbers, so everybody who has the miners' logs and proofs judges alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.jobs.job import JobContext
from agents.mechanisms.score.clasp import Clasp as ClaspScore
from agents.pipeline.clasp import Clasp, Judgement, PathLoss, accusers, companions
from agents.pipeline.credit import PPM
from agents.pipeline.epoch import Epoch
from agents.pipeline.passes import counted
from agents.rounds.mined import Mined
from agents.rounds.submissions import Submission


def samples_that_count(epoch: Epoch, revealed: Sequence[Submission]) -> dict[int, tuple[int, ...]]:
    """By miner whose artefacts are good, as `counted`. `revealed`: all that revealed."""
    logs = {m.reveal.node: m.log for m in _readable(revealed)}
    return counted(epoch, logs, [m.reveal.node for m in revealed if m.unavailable])


def _readable(revealed: Sequence[Submission]) -> list[Mined]:
    """Those whose log is good, and of whom all can be had that was asked for."""
    return [m for m in revealed if isinstance(m, Mined) and m.log and not m.unavailable]


def judged(
    job: JobContext, epoch: Epoch, miners: Sequence[Mined], samples: Mapping[int, Sequence[int]]
) -> dict[int, Judgement]:
    """The judgement of each miner of whose samples one counts; empty in a job of another score.

    `samples`: what `samples_that_count` gives of these miners.
    """
    if not isinstance(job.score, ClaspScore):
        return {}
    log = path_losses(epoch, miners, samples)
    return Clasp(job.score.threshold, job.score.by_reporter).judge(log) if log else {}


@dataclass(frozen=True)
class Outlier:
    """A miner whose pay is cut. `accuser`: the miner of the last stage who says the worst of it.
    `companions`: those of other stages in whose company its samples lose the most."""

    judgement: Judgement
    accuser: int
    companions: tuple[int, ...]


def outliers(job: JobContext, epoch: Epoch, revealed: Sequence[Submission]) -> dict[int, Outlier]:
    """The miners, ascending, whose pay the score `clasp` cuts; none in a job of another score.
    `revealed`: all that revealed."""
    if not isinstance(job.score, ClaspScore):
        return {}
    samples = samples_that_count(epoch, revealed)
    miners = _readable(revealed)
    found = judged(job, epoch, miners, samples)
    cut = {node: one for node, one in found.items() if one.factor_ppm < PPM}
    log = path_losses(epoch, miners, samples)
    by, beside = accusers(log, cut), companions(log, cut)
    return {node: Outlier(one, by[node], beside[node]) for node, one in cut.items()}


def path_losses(
    epoch: Epoch, miners: Sequence[Mined], samples: Mapping[int, Sequence[int]]
) -> list[PathLoss]:
    """Each sample that counts at every stage, ascending, with its way and its stated loss."""
    losses = {
        miner.reveal.node: dict(miner.proof.losses)
        for miner in miners
        if miner.stage == epoch.last and miner.proof is not None
    }
    ways: dict[int, dict[int, int]] = {}
    for miner in miners:
        for sample in samples[miner.reveal.node]:
            ways.setdefault(sample, {})[miner.stage] = miner.reveal.node
    log = []
    for sample, way in sorted(ways.items()):
        if len(way) <= epoch.last:
            continue
        path = tuple(way[stage] for stage in range(epoch.last + 1))
        log.append(PathLoss(sample, path, losses[path[-1]][sample]))
    return log
