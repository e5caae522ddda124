# SPDX-License-Identifier: Apache-2.0
"""What a miner's payload can be at most, whatever its samples were: more is refused by everybody.

Rule: a step needs a backward pass, and a sample has one in each stage. So a miner makes at most as
many steps as an epoch has samples, and what these can move follows from the job's inner optimizer
and the stage that everybody has (`agents.training.most_moved`). A payload that is the change itself
is held against that, number by number. One with something owed in it, or one made by a codec that
bounds what it says, is held against the L2 norm of each tensor: of this epoch's change, and of what
each epoch since the last full synchronisation can have left. A codec that bounds nothing leaves
nothing to hold against. The weights of those earlier epochs are not looked up: decay is counted as
of weights `_EARLIER` times as long as today's.

A refused payload is malformed: its miner is INVALID by the bytes alone
(`agents.verify.spot_checks.malformed`). So what is counted is what no honest miner exceeds, and not
the steps that a log states. Whoever lies about these is found by having them done again.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.jobs.job import JobContext
from agents.mechanisms.codec import Codec, Stretch, StretchCodec
from agents.rounds.plan import Plan
from agents.training import optimizers
from agents.training.most_moved import Most, check_change, check_norms, length
from agents.training.spec import Hyperparameters
from agents.training.state import State

_EARLIER = 4.0


def check_bound(job: JobContext, plan: Plan, stage: int, payload: State, before: State) -> None:
    """PayloadError for a payload that no miner of the stage can have made honestly.

    `payload`: decoded. `before`: the stage at the epoch's start.
    """
    codec, now = job.codec_at(plan.step), _most(job, stage, plan.step)
    first = plan.step - plan.step % job.spec.full_every
    owing = [index for index in range(first, plan.step) if job.codec_at(index).has_memory]
    if codec.lossless and not owing:
        check_change(payload, before, now)
        return
    said = _stretch(codec)
    if said is None:
        return
    weights = {name: length(before[name]) for name in now}
    owed = dict.fromkeys(now, 0.0)
    for index in owing:
        stretch = _stretch(job.codec_at(index))
        if stretch is None:
            return
        then = _norms(job, stage, _most(job, stage, index))
        for name, (share, beyond) in then.items():
            added = beyond + share * (_EARLIER * weights[name])
            owed[name] = stretch.kept * (owed[name] + added)
    own = _norms(job, stage, now)
    whole = {name: beyond + share * weights[name] for name, (share, beyond) in own.items()}
    check_norms(payload, {name: said.said * (whole[name] + owed[name]) for name in now})


def _most(job: JobContext, stage: int, step: int) -> Mapping[str, Most]:
    """By tensor, in the round after `step` finalized ones."""
    hyper = Hyperparameters.of(job.spec, step)
    inner = optimizers.chosen(hyper.inner, hyper.inner_options)
    place = job.stage_shapes(stage), job.stage_hidden(stage)
    return inner.most_moved(*place, hyper, job.spec.batches_per_round)


def _norms(
    job: JobContext, stage: int, most: Mapping[str, Most]
) -> Mapping[str, tuple[float, float]]:
    """By tensor, the share of its weights' L2 norm, and the L2 norm beyond that."""
    shapes = job.stage_shapes(stage)
    return {name: (one.share, one.norm(shapes[name])) for name, one in most.items()}


def _stretch(codec: Codec) -> Stretch | None:
    """None if it bounds nothing."""
    if codec.lossless:
        return Stretch(1.0, 1.0)
    return codec.stretch if isinstance(codec, StretchCodec) else None
