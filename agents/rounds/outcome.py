# SPDX-License-Identifier: Apache-2.0
"""The result of a round, computed once by the aggregator and again by everyone who doubts it.

Rule: a pure function of the round's model, manifest and payloads. Merge, update and scores are
exact, so two honest parties get the same bytes; only the validation losses, and the gains measured
with them, depend on the hardware: they are compared within a tolerance.

Where nodes train as they like, not every good payload is merged: of those whom earlier scores chose
(everyone, before any round was scored), the ones whose norms are plausible beside each other. The
choice comes first, so that newcomers, however many, can't move the norm that is plausible. A node
that is left out of the merge is scored like all others. If the round ends unscored, it is paid like
all others.

A model that is split is merged stage by stage (`agents.rounds.stagewise`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from agents.jobs.job import JobContext
from agents.jobs.model_files import hash_of, pack_change, pack_model
from agents.jobs.outer_step import stepped, weights_of
from agents.mechanisms.merge import MergeRefused
from agents.mechanisms.privacy.aggregate import Aggregate
from agents.mechanisms.score import Evidence, SelectingScore
from agents.pipeline.credit import PPM
from agents.pipeline.epoch import Epoch
from agents.pipeline.pace import Showed, weights_after
from agents.pipeline.unclaimed import with_unclaimed
from agents.protocol.structs import Proposal
from agents.rounds.mined import Mined
from agents.rounds.named import Named
from agents.rounds.plan import Plan, gamma_of
from agents.rounds.release import Release, plain
from agents.rounds.report import MAX_GAIN_PPM, NodeLine, RoundReport
from agents.rounds.shares import Shared, Shares, pack_record
from agents.rounds.stagewise import merge_stages
from agents.rounds.submissions import Submission
from agents.rounds.unread import with_unread
from agents.storage.cid import cid_of_bytes, digest_of
from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.norms import norm
from agents.training.spec import JobSpec
from agents.training.state import State, apply_outer

LOSS_TOLERANCE = 1e-3  # relative; forward passes differ by rounding across hardware
_TOO_SHORT = 1e-30  # of the wanted norm: stretching by more would leave the range of fp32
GAIN_TOLERANCE_PPM = 200  # likewise; it bounds what a proposer may add to a score
WORST_LOSS = 1e9  # nats per token; stands for every loss beyond it, infinity and NaN


@dataclass(frozen=True)
class Outcome:
    """A round's result. `nodes` and `contributions` are those that share the pool, node 0 among
    them for what is nobody's (`agents.pipeline.unclaimed`, `agents.rounds.unread`).

    `parts`: files that update, checkpoint and report name, where the model is split. `rests_on`:
    digests of what nodes published beside their payloads and is read to tell whose work counts:
    proofs where the job lists determinism classes; of miners log and entries too.
    `doubt`: what is wrong with a noised update that somebody else released, or empty. `lies`: by
    node, evidence of what it stated wrong of the shards that it owns. `unread`: miners that an
    owner names and of whom the proposer says that a piece of one can't be fetched.
    """

    state: State
    merged: State
    update: bytes
    checkpoint: bytes | None
    report: RoundReport
    nodes: tuple[int, ...]
    contributions: tuple[int, ...]
    doubt: str = ""
    parts: tuple[bytes, ...] = ()
    rests_on: tuple[bytes, ...] = ()
    lies: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    unread: frozenset[tuple[int, ...]] = frozenset()

    @property
    def model(self) -> bytes:
        """Hash of the new model."""
        return bytes.fromhex(self.report.model)

    @property
    def files(self) -> tuple[bytes, ...]:
        """What its proposer publishes, the report last."""
        checkpoint = () if self.checkpoint is None else (self.checkpoint,)
        return (*self.parts, self.update, *checkpoint, self.report.to_bytes())

    def paid(self, invalid: Collection[int] = ()) -> dict[int, int]:
        """Contribution by node, ascending, without the nodes that are `invalid` in the round."""
        return _without(self.nodes, self.contributions, invalid)

    def worth(self, job: JobContext) -> dict[int, int]:
        """Contributions by node for its work of this round, in all rounds in which that is paid.
        Empty where it is paid in this round alone."""
        gamma = gamma_of(job)
        own = self.report.delivered(()) if gamma > 1 else {}
        return {node: gamma * passes * PPM for node, passes in own.items()}


@dataclass(frozen=True)
class Merging:
    """The costly half of a result: merged, applied and evaluated, before anything is scored.

    `good`: the submissions to score, ascending by node id. `refused`: why the merge rule would not
    merge, or empty. `merged`: the update to publish. `gains_ppm`: of `good`, as measured here; None
    if the job's score does not ask for them. `doubt`: what is wrong with an update that somebody
    else released, or empty. `left_out`: why some of them did not go into the merge, by node.
    `passes`: by node, those that count, where the model is split. `factors_ppm`: by node, which
    part of its pay is left, likewise. `shared`: how the butterfly of each stage went; None in a job
    without. `named`: what else its owners merged. `asks_memory`: whether the job seats nodes by the
    memory that they declare.
    """

    good: tuple[Submission, ...]
    refused: str
    merged: State
    after: State
    loss_before: float
    loss_after: float
    gains_ppm: tuple[int, ...] | None
    doubt: str = ""
    left_out: Mapping[int, str] = field(default_factory=dict)
    passes: Mapping[int, int] | None = None
    factors_ppm: Mapping[int, int] | None = None
    shared: tuple[Shared, ...] | None = None
    named: Named = field(default_factory=Named)
    asks_memory: bool = False


def compute(
    job: JobContext,
    job_id: int,
    round_id: int,
    plan: Plan,
    before: State,
    submissions: Sequence[Submission],
    device: str,
    stakes: Mapping[int, int] | None = None,
    claimed: Mapping[int, int] | None = None,
    release: Release = plain,
    standing: Mapping[int, int] | None = None,
    history: Sequence[State] = (),
    shares: Shares | None = None,
) -> Outcome:
    """Merge, apply, evaluate and score.

    Args:
        submissions: every revealed node, ascending by id.
        stakes: by node id, in 1e-18 ZOO, when the round opened; None counts all as equal.
        claimed: gains by node that a report publishes. Each that lies within GAIN_TOLERANCE_PPM of
            the one measured here is used in its place, so that everyone scores alike.
        release: what becomes of the merged update before it is published.
        standing: shares by node of the newest round scored before this one; empty before the first.
        history: merged updates of the rounds before, newest first, as many as the score reads.
        shares: what a stage's miners delivered of its merge, in a job with a butterfly.
    """
    merging = merge(
        job, before, submissions, device, stakes, release, plan.step, standing, plan.epoch, shares
    )
    return finish(job, job_id, round_id, plan, before, submissions, merging, claimed, history)


def merge(
    job: JobContext,
    before: State,
    submissions: Sequence[Submission],
    device: str,
    stakes: Mapping[int, int] | None = None,
    release: Release = plain,
    step: int = 0,
    standing: Mapping[int, int] | None = None,
    epoch: Epoch | None = None,
    shares: Shares | None = None,
) -> Merging:
    """The costly half of `compute`. `step`: finalized rounds before this one. `epoch`: where the
    model is split."""
    good = tuple(s for s in submissions if s.gradient is not None)
    if job.slices is not None:
        return _merge_split(job, before, submissions, device, stakes, step, epoch, shares)
    left_out = _left_out(job, good, standing or {})
    chosen = [s for s in good if s.reveal.node not in left_out]
    gradients = [s.gradient for s in chosen if s.gradient is not None]
    merged: State = {name: torch.zeros(shape) for name, shape in job.shapes.items()}
    refused = ""
    if gradients:
        held = None if stakes is None else [stakes[s.reveal.node] for s in chosen]
        if isinstance(job.privacy, Aggregate):
            gradients = job.privacy.prepare(gradients)
        try:
            merged = job.merge(gradients, held)
        except MergeRefused as error:
            refused, gradients = str(error), []
            if job.verification.scored_unmerged:
                left_out = {s.reveal.node: f"not merged: {error}"[:300] for s in good}
            else:
                good = ()
    doubt = ""
    if gradients:
        merged, doubt = release(merged, len(gradients))
    outer_lr = job.spec.outer_lr_at(step)
    after = stepped(job.spec, before, merged, outer_lr)
    batches = job.data.val_batches(job.spec.eval_batches)
    net = job.net(device)
    loss_before = _loss(net, before, batches)
    gains = None
    if gradients and job.score.needs_gains:
        weights = weights_of(before, job.shapes)
        alone = (
            _loss(net, apply_outer(weights, rescaled(own, merged), outer_lr), batches)
            for own in gradients
        )
        gains = tuple(_gain(loss_before, loss) for loss in alone)
    loss_after = _loss(net, after, batches)
    return Merging(good, refused, merged, after, loss_before, loss_after, gains, doubt, left_out)


def _merge_split(
    job: JobContext,
    before: State,
    submissions: Sequence[Submission],
    device: str,
    stakes: Mapping[int, int] | None,
    step: int,
    epoch: Epoch | None,
    shares: Shares | None,
) -> Merging:
    """Of a model that is split. Without an epoch nobody held a stage, and nothing changes."""
    miners = [s for s in submissions if isinstance(s, Mined) and s.gradient is not None]
    unread = [s for s in submissions if s.unavailable]
    merged: State = {name: torch.zeros(shape) for name, shape in job.shapes.items()}
    left_out: Mapping[int, str] = {}
    passes: Mapping[int, int] = {}
    factors: Mapping[int, int] = {}
    shared: tuple[Shared, ...] | None = () if job.spec.butterfly else None
    if epoch is not None:
        if job.spec.butterfly and shares is None:
            raise ValueError("the merge of a job with a butterfly needs its shares")
        found = merge_stages(job, epoch, miners, stakes, shares, unread)
        shared = found.shared if job.spec.butterfly else None
        merged, left_out = found.merged, found.left_out
        passes, factors = found.passes, found.factors_ppm
    after = stepped(job.spec, before, merged, job.spec.outer_lr_at(step))
    batches = job.data.val_batches(job.spec.eval_batches)
    net = job.net(device)
    weights = weights_of(before, job.shapes), weights_of(after, job.shapes)
    losses = _loss(net, weights[0], batches), _loss(net, weights[1], batches)
    return Merging(
        *(tuple(miners), "", merged, after, *losses, None),
        left_out=left_out,
        passes=passes,
        factors_ppm=factors,
        shared=shared,
        named=Named() if shares is None else shares.named,
        asks_memory=job.spec.pipeline is not None and job.spec.pipeline.declared_memory,
    )


def _left_out(
    job: JobContext, good: Sequence[Submission], standing: Mapping[int, int]
) -> dict[int, str]:
    """Which good payloads are not merged, each with the reason."""
    if not isinstance(job.score, SelectingScore):
        return {}
    payloads = {s.reveal.node: s.gradient for s in good if s.gradient is not None}
    chosen = job.score.select(list(payloads), standing)
    norms = {node: norm(payloads[node]) for node in chosen}
    plausible = job.score.plausible_norms(norms)
    reasons = {}
    for node in payloads:
        if node not in norms:
            reasons[node] = "not merged: not among the best of the last scored round"
        elif node not in plausible:
            reasons[node] = f"not merged: its norm {norms[node]:.3g} is implausible"
    return reasons


def rescaled(update: State, like: State) -> State:
    """`update` with the norm of `like`, so that a gain does not depend on its length."""
    length, wanted = norm(update), norm(like)
    if length <= wanted * _TOO_SHORT:
        return update
    return {name: tensor * (wanted / length) for name, tensor in update.items()}


def _loss(net: FlatModel, state: State, batches: Sequence[Tensor]) -> float:
    """The validation loss, always a number: a model that somebody's update has ruined must get a
    report like any other, or its round could be neither audited nor finished."""
    loss = validation_loss(net, state, batches)
    return loss if loss < WORST_LOSS else WORST_LOSS  # NaN is below nothing


def _gain(before: float, after: float) -> int:
    """Relative fall of the validation loss in ppm; the worst loss is the worst gain."""
    if after >= WORST_LOSS:
        return -MAX_GAIN_PPM
    share = (before - after) / before if before > 0 else 0.0
    return max(-MAX_GAIN_PPM, min(MAX_GAIN_PPM, round(share * 1_000_000)))


def paid_by(job: JobContext, plan: Plan, lines: Sequence[NodeLine]) -> dict[int, int]:
    """Contributions by node, by a report's lines; of node 0 what counts for nobody."""
    paid = {line.node: line.contribution for line in lines if line.contribution}
    if job.slices is not None:
        return with_unclaimed(paid, plan.handed_out)
    return paid if job.verification.validators_score else with_unread(paid, lines)


def checkpoint_due(spec: JobSpec, step: int) -> bool:
    """Whether a round after so many finalized ones ends with a checkpoint."""
    return (step + 1) % spec.checkpoint_every == 0 or step + 1 >= spec.rounds


def finish(
    job: JobContext,
    job_id: int,
    round_id: int,
    plan: Plan,
    before: State,
    submissions: Sequence[Submission],
    merging: Merging,
    claimed: Mapping[int, int] | None = None,
    history: Sequence[State] = (),
) -> Outcome:
    """The cheap half of `compute`: scores, report, and who is paid."""
    spec, good = job.spec, merging.good
    gains = merging.gains_ppm
    if gains is not None and claimed is not None:
        pairs = [(claimed.get(s.reveal.node), own) for s, own in zip(good, gains, strict=True)]
        gains = tuple(
            own if said is None or abs(said - own) > GAIN_TOLERANCE_PPM else said
            for said, own in pairs
        )
    marks: dict[int, tuple[int, int, int]] = {}
    if good:
        gradients = [s.gradient for s in good if s.gradient is not None]
        steps = [_batches(plan, merging, s.reveal.node) for s in good]
        left = merging.factors_ppm
        factors = None if left is None else tuple(left.get(s.reveal.node, PPM) for s in good)
        carried = tuple(sum(old.get(s.reveal.node, 0) for old in plan.earlier) for s in good)
        known = (*history, before) if job.score.needs_updates else ()
        evidence = Evidence(
            merging.merged, gains, factors, carried if plan.earlier else None, known
        )
        scores = job.score(gradients, steps, evidence)
        marks = {
            s.reveal.node: mark
            for s, mark in zip(
                good,
                zip(
                    scores.quality_ppm, gains or [0] * len(good), scores.contributions, strict=True
                ),
                strict=True,
            )
        }
    update = pack_change(job, merging.merged, merging.after)
    due = checkpoint_due(spec, plan.step)
    checkpoint = pack_model(job, merging.after) if due else None
    record = None
    if merging.shared is not None:
        record = pack_record(job_id, round_id, [one.line for one in merging.shared])
    report = RoundReport(
        job=job_id,
        round=round_id,
        step=plan.step,
        prev_model=hash_of(job, before).hex(),
        model=hash_of(job, merging.after).hex(),
        update=cid_of_bytes(update.main),
        checkpoint=None if checkpoint is None else cid_of_bytes(checkpoint.main),
        codec=spec.codec,
        merge=spec.merge,
        score=spec.score,
        carry_in=list(plan.carry_in),
        cursor_in=plan.cursor_in,
        nodes=[_line(s, plan, marks, merging) for s in submissions],
        val_loss_before=merging.loss_before,
        val_loss=merging.loss_after,
        shards=None if record is None else cid_of_bytes(record),
        weights=_weights(job, plan, submissions),
    )
    paid = paid_by(job, plan, report.nodes)
    return Outcome(
        state=merging.after,
        merged=merging.merged,
        update=update.main,
        checkpoint=None if checkpoint is None else checkpoint.main,
        report=report,
        nodes=tuple(paid),
        contributions=tuple(paid.values()),
        doubt=merging.doubt,
        parts=(
            *update.parts,
            *(() if checkpoint is None else checkpoint.parts),
            *(() if record is None else (record,)),
            *merging.named.blocks,
        ),
        rests_on=(*(one for s in submissions for one in _beside(s)), *merging.named.files),
        lies={n: lie for one in merging.shared or () for n, lie in one.lies.items()},
        unread=frozenset(merging.named.unread.values()),
    )


def _beside(submission: Submission) -> tuple[bytes, ...]:
    """Digests of what a node published beside its payload, without which that would not count."""
    if isinstance(submission, Mined):
        return submission.beside
    return (submission.reveal.proof,) if submission.determinism_class else ()


def _batches(plan: Plan, merging: Merging, node: int) -> int:
    """What a node did, as its score counts it: passes, or the batches that it was assigned."""
    if merging.passes is not None:
        return merging.passes.get(node, 0)
    assignment = plan.manifest.of(node)
    return 0 if assignment is None else assignment.batches


def _line(
    submission: Submission, plan: Plan, marks: dict[int, tuple[int, int, int]], merging: Merging
) -> NodeLine:
    node = submission.reveal.node
    quality, gain, share = marks.get(node, (0, 0, 0))
    accepted = node in marks
    reason = merging.left_out.get(node, submission.reason)
    if merging.refused and submission.gradient is not None and not accepted:
        reason = f"not merged: {merging.refused}"[:300]
    return NodeLine(
        node=node,
        content=submission.reveal.content.hex(),
        accepted=accepted,
        merged=accepted and node not in merging.left_out,
        reason=reason,
        batches=_batches(plan, merging, node),
        quality_ppm=quality,
        gain_ppm=gain,
        contribution=share,
        memory=_declared(submission, merging),
    )


def _weights(
    job: JobContext, plan: Plan, submissions: Sequence[Submission]
) -> list[tuple[int, int]] | None:
    """What the next round's paths are drawn by; None in a job that draws all alike."""
    if not job.spec.measured_paths:
        return None
    if plan.epoch is None:
        return sorted(plan.weights.items())
    showed = {
        one.reveal.node: Showed.of(one.log, one.proof.busy_ms)
        for one in submissions
        if isinstance(one, Mined) and one.gradient is not None and one.log and one.proof
    }
    return list(weights_after(plan.epoch, plan.weights, showed, job.stages_cost).items())


def _declared(submission: Submission, merging: Merging) -> int | None:
    """The memory that a miner's proof declares, where seats depend on it."""
    if not merging.asks_memory or not isinstance(submission, Mined) or submission.proof is None:
        return None
    return submission.proof.memory


def disagreements(
    mine: Outcome, theirs: Proposal, report: RoundReport, invalid: Collection[int] = ()
) -> list[str]:
    """What is wrong with a proposed result, as sentences; empty if nothing is.

    `report`: the proposal's own, already fetched. `invalid`: nodes whose contribution does not
    matter. Reasons for refusing a payload
    are free text and not compared.
    """
    if mine.doubt:
        # What follows from the update without noise (a model's hash, a loss) is nobody's to know.
        return [mine.doubt]
    wrong = []
    if theirs.model != mine.model:
        wrong.append(f"model is {theirs.model.hex()}, recomputed {mine.model.hex()}")
    if theirs.update != digest_of(mine.report.update):
        wrong.append("the update is not the merge of the accepted payloads")
    if _without(theirs.nodes, theirs.contributions, invalid) != mine.paid(invalid):
        wrong.append("the contributions on chain are not those that the scoring rule gives")
    if _exact(report) != _exact(mine.report):
        wrong.append("the report differs from the recomputed one")
    for name in ("val_loss_before", "val_loss"):
        claimed, own = getattr(report, name), getattr(mine.report, name)
        if not math.isclose(claimed, own, rel_tol=LOSS_TOLERANCE):
            wrong.append(f"{name} is {claimed:.6f}, recomputed {own:.6f}")
    return wrong


def _without(
    nodes: Sequence[int], contributions: Sequence[int], invalid: Collection[int]
) -> dict[int, int]:
    pairs = zip(nodes, contributions, strict=True)
    return {node: share for node, share in pairs if node not in invalid}


def _exact(report: RoundReport) -> RoundReport:
    lines = [line.model_copy(update={"reason": ""}) for line in report.nodes]
    return report.model_copy(update={"nodes": lines, "val_loss": 0.0, "val_loss_before": 0.0})
