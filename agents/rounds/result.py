# SPDX-License-Identifier: Apache-2.0
"""The result of a round, computed once by the aggregator and again by everyone who doubts it.

Rule: a pure function of the round's model, manifest and payloads. Merge, update and scores are
exact, so two honest parties get the same bytes; only the two validation losses depend on the
hardware and are compared within a tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from agents.rounds.jobs import JobContext
from agents.rounds.manifests import Plan
from agents.rounds.network import Proposal
from agents.rounds.report import NodeLine, RoundReport
from agents.rounds.submissions import Submission
from agents.scoring import Evidence
from agents.storage.cid import cid_of_bytes, digest_of
from agents.training.evaluate import validation_loss
from agents.training.state import State, apply_outer, model_hash, save_state

LOSS_TOLERANCE = 1e-3  # relative; forward passes differ by rounding across hardware


@dataclass(frozen=True)
class Outcome:
    """A round's result. `nodes` and `contributions` are those that share the pool."""

    state: State
    merged: State
    update: bytes
    checkpoint: bytes | None
    report: RoundReport
    nodes: tuple[int, ...]
    contributions: tuple[int, ...]

    @property
    def model(self) -> bytes:
        """Hash of the new model."""
        return bytes.fromhex(self.report.model)

    def paid(self, invalid: Collection[int]) -> dict[int, int]:
        """Contribution by node, ascending, without the nodes that are `invalid` in the round."""
        return _without(self.nodes, self.contributions, invalid)


def compute(
    job: JobContext,
    job_id: int,
    round_id: int,
    plan: Plan,
    before: State,
    submissions: Sequence[Submission],
    device: str,
) -> Outcome:
    """Merge, apply, evaluate and score. `submissions`: every revealed node, ascending by id."""
    spec = job.spec
    good = [s for s in submissions if s.gradient is not None]
    gradients = [s.gradient for s in good if s.gradient is not None]
    steps = [_batches(plan, s.reveal.node) for s in good]
    if gradients:
        merged: State = job.merge(gradients)
        scores = job.score(gradients, steps, Evidence(merged))
        shares = {
            s.reveal.node: (quality, share)
            for s, quality, share in zip(
                good, scores.quality_ppm, scores.contributions, strict=True
            )
        }
    else:
        merged = {name: torch.zeros(shape) for name, shape in job.shapes.items()}
        shares = {}
    after = apply_outer(before, merged, spec.optimizer.outer_lr)
    update = save_state(merged)
    due = (plan.step + 1) % spec.checkpoint_every == 0 or plan.step + 1 >= spec.rounds
    checkpoint = save_state(after) if due else None
    batches = job.data.val_batches(spec.eval_batches)
    net = job.net(device)
    report = RoundReport(
        job=job_id,
        round=round_id,
        step=plan.step,
        prev_model=model_hash(before).hex(),
        model=model_hash(after).hex(),
        update=cid_of_bytes(update),
        checkpoint=None if checkpoint is None else cid_of_bytes(checkpoint),
        codec=spec.codec,
        merge=spec.merge,
        score=spec.score,
        carry_in=list(plan.carry_in),
        cursor_in=plan.cursor_in,
        nodes=[_line(s, plan, shares) for s in submissions],
        val_loss_before=validation_loss(net, before, batches),
        val_loss=validation_loss(net, after, batches),
    )
    paid = [(line.node, line.contribution) for line in report.nodes if line.contribution]
    return Outcome(
        state=after,
        merged=merged,
        update=update,
        checkpoint=checkpoint,
        report=report,
        nodes=tuple(node for node, _ in paid),
        contributions=tuple(share for _, share in paid),
    )


def _batches(plan: Plan, node: int) -> int:
    assignment = plan.manifest.of(node)
    return 0 if assignment is None else assignment.batches


def _line(submission: Submission, plan: Plan, shares: dict[int, tuple[int, int]]) -> NodeLine:
    node = submission.reveal.node
    quality, share = shares.get(node, (0, 0))
    return NodeLine(
        node=node,
        content=submission.reveal.content.hex(),
        accepted=submission.gradient is not None,
        reason=submission.reason,
        batches=_batches(plan, node),
        quality_ppm=quality,
        contribution=share,
    )


def disagreements(
    mine: Outcome, theirs: Proposal, report: RoundReport, invalid: Collection[int] = ()
) -> list[str]:
    """What is wrong with a proposed result, as sentences; empty if nothing is.

    `report`: the proposal's own, already fetched. `invalid`: nodes found invalid in the round by
    now; they are not paid, whether or not the proposal names them. Reasons for refusing a payload
    are free text and not compared.
    """
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
