# SPDX-License-Identifier: Apache-2.0
"""The merge of a split model: each stage's miners among themselves, by the job's merge rule.

Rule: a contributor is a miner with at least `least_passes` passes that count (B_min of the primer),
and a stage's update is the merge of exactly its contributors. A stage without a quorum of them
keeps its weights, and so does a stage whose merge is refused; the other stages don't wait for it.
Passes that count are paid whether they are merged or not. Else a miner that does nothing, and
leaves the others too few to merge, would take their pay from them.

Where the job's `all_reduce` is `butterfly`, what a stage's owners did not deliver of its merge is
left out (`agents.rounds.shares`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from agents.jobs.job import JobContext
from agents.mechanisms.merge import MergeRefused, WeighingMerge
from agents.pipeline.credit import PPM
from agents.pipeline.epoch import Epoch
from agents.pipeline.quorum import Quorum
from agents.pipeline.shards import flat, merge_shard
from agents.rounds.mined import Mined
from agents.rounds.quality import judged, samples_that_count
from agents.rounds.shares import Shared, Shares, share
from agents.rounds.submissions import Submission
from agents.training.state import PayloadError, State


@dataclass(frozen=True)
class Stagewise:
    """`merged`: the update of all stages. `passes`: of each miner, those that count. `left_out`:
    why a miner's payload is not in the merge. `factors_ppm`: of each miner, which part of its pay
    its samples' losses leave. `shared`: of each stage that has owners of shards and was merged, how
    that went."""

    merged: State
    passes: Mapping[int, int]
    left_out: Mapping[int, str]
    factors_ppm: Mapping[int, int]
    shared: tuple[Shared, ...] = ()


def quorum_of(job: JobContext) -> Quorum:
    """The terms of the merge of each stage."""
    assert job.spec.pipeline is not None
    return Quorum(job.spec.pipeline.least_passes, Fraction(str(job.spec.pipeline.quorum)))


def contributors_of(
    job: JobContext, epoch: Epoch, stage: int, passes: Mapping[int, int]
) -> tuple[int, ...]:
    """Who is merged in a stage, ascending; nobody without a quorum. `passes`: that count, by miner
    whose artefacts are good."""
    worked = {node: passes.get(node, 0) for node in epoch.stages[stage]}
    quorum = quorum_of(job)
    return tuple(quorum.contributors(worked)) if quorum.reached(worked) else ()


def merge_stages(
    job: JobContext,
    epoch: Epoch,
    miners: Sequence[Mined],
    stakes: Mapping[int, int] | None,
    shares: Shares | None = None,
    unread: Sequence[Submission] = (),
) -> Stagewise:
    """Merge each stage. `miners`: all whose artefacts are good, ascending; `stakes` as `merge`.
    `shares`: where the job has a butterfly. `unread`: of whom something can't be had."""
    assert job.slices is not None and job.spec.pipeline is not None
    samples = samples_that_count(epoch, [*miners, *unread])
    passes = {node: len(done) for node, done in samples.items()}
    quorum, shared = quorum_of(job), list[Shared]()
    merged: State = {}
    left_out: dict[int, str] = {}
    for stage in range(job.slices.last + 1):
        here = [m for m in miners if m.stage == stage]
        worked = {node: passes.get(node, 0) for node in epoch.stages[stage]}
        contributors = quorum.contributors(worked)
        chosen = [m for m in here if m.reveal.node in contributors]
        for miner in here:
            if miner not in chosen:
                few = f"{passes[miner.reveal.node]} passes count, and {quorum.least} are needed"
                left_out[miner.reveal.node] = f"not merged: {few}"
        if not quorum.reached(worked):
            for miner in chosen:
                left_out[miner.reveal.node] = (
                    f"not merged: {len(chosen)} of {len(worked)} miners of the stage have enough "
                    f"passes, and {quorum.needed(len(worked))} are needed"
                )
            chosen = []
        update = {name: torch.zeros(shape) for name, shape in job.stage_shapes(stage).items()}
        gradients = [m.gradient for m in chosen if m.gradient is not None]
        if gradients:
            try:
                update = _merged(job, gradients, chosen, stakes, passes)
            except MergeRefused as error:
                for miner in chosen:
                    left_out[miner.reveal.node] = f"not merged: {error}"[:300]
            else:
                update = _delivered(
                    job, epoch, stage, update, chosen, here, shares, shared, left_out
                )
        merged |= update
    harm = judged(job, epoch, miners, samples)
    factors = {node: harm[node].factor_ppm if node in harm else PPM for node in passes}
    return Stagewise(merged, passes, left_out, factors, tuple(shared))


def _merged(
    job: JobContext,
    gradients: Sequence[State],
    chosen: Sequence[Mined],
    stakes: Mapping[int, int] | None,
    passes: Mapping[int, int],
) -> State:
    """One stage's update by the job's merge rule. Raises MergeRefused."""
    nodes = [miner.reveal.node for miner in chosen]
    if isinstance(job.merge, WeighingMerge):
        return job.merge.weighed(gradients, [passes[node] for node in nodes])
    return job.merge(gradients, None if stakes is None else [stakes[node] for node in nodes])


def _delivered(
    job: JobContext,
    epoch: Epoch,
    stage: int,
    update: State,
    chosen: Sequence[Mined],
    here: Sequence[Mined],
    shares: Shares | None,
    shared: list[Shared],
    left_out: dict[int, str],
) -> State:
    """What the stage's owners delivered of its merge; all of it where it has none. `here`: all
    miners of the stage whose artefacts are good."""
    assert job.spec.pipeline is not None
    if shares is None:
        return update
    nodes = [miner.reveal.node for miner in chosen]
    least = Fraction(str(job.spec.pipeline.least_valid))
    good = {m.reveal.node: m.gradient for m in here if m.gradient is not None}
    shapes, rows = job.stage_shapes(stage), dict[int, Tensor]()
    butterfly = shares.butterfly(epoch, stage, sum(map(math.prod, shapes.values())))
    if butterfly is None:
        return update
    order = butterfly

    def again(owner: int, shard: int) -> Tensor | None:
        named = shares.statements[owner].contributors
        rows.update({node: flat(good[node]) for node in named if node in good and node not in rows})
        pieces = shares.named.pieces_of(order, owner, shard, named, rows)
        try:
            return None if pieces is None else merge_shard(pieces, job.merge)
        except MergeRefused as error:
            raise PayloadError(f"Owner {owner} names too few: {error}") from None

    found = share(shares, epoch, stage, update, nodes, shapes, least, again)
    if found is None:
        return update
    shared.append(found)
    if found.refused:
        left_out |= dict.fromkeys(nodes, f"not merged: {found.refused}")
    return found.update
