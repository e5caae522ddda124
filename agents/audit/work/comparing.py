# SPDX-License-Identifier: Apache-2.0
"""A proposed result and its report, field by field, against the recomputed one.

Rule: everything but the validation losses is exact; free text is not compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch

from agents.audit.chain.votes import Tally
from agents.audit.sources.findings import Part
from agents.jobs.job import JobContext
from agents.jobs.outer_step import stepped
from agents.mechanisms.merge import MergeRefused
from agents.protocol.structs import Reveal
from agents.rounds.outcome import (
    LOSS_TOLERANCE,
    Merging,
    Outcome,
    checkpoint_due,
    disagreements,
    paid_by,
)
from agents.rounds.plan import Plan
from agents.rounds.report import RoundReport
from agents.rounds.submissions import Submission
from agents.storage.canonical import loads
from agents.storage.cid import digest_of
from agents.training.state import State

_LOSSES = ("val_loss_before", "val_loss")


def compare_result(part: Part, standing: Tally, report: RoundReport, mine: Outcome) -> None:
    """Result and report against the recomputed ones, field by field. One that a report leaves out
    is none."""
    theirs, before = standing.proposal, len(part.differences)
    update = digest_of(mine.report.update)
    part.same("merge", "update", "the digest on chain", theirs.update, update)
    part.same("model", "ResultProposed", "the model's hash", theirs.model, mine.model)
    paid = mine.paid(standing.invalid)
    pairs = zip(theirs.nodes, theirs.contributions, strict=False)
    claimed = {node: share for node, share in pairs if node not in standing.invalid}
    for node in sorted(paid.keys() | claimed.keys()):
        one, other = claimed.get(node, 0), paid.get(node, 0)
        part.same("merge", f"node {node}", "its contribution on chain", one, other)
    said, own = report.model_dump(mode="json"), mine.report.model_dump(mode="json")
    lines = {line["node"]: line for line in said.pop("nodes")}
    wanted = {line["node"]: line for line in own.pop("nodes")}
    for name, value in own.items():
        if name in _LOSSES:
            close = math.isclose(said[name], value, rel_tol=LOSS_TOLERANCE)
            sentence = f"{name} is {said[name]:.6f}, it should be {value:.6f}."
            part.hold("merge", close, "report", sentence)
        else:
            check = "assignments" if name in ("carry_in", "cursor_in", "step") else "merge"
            part.same(check, "report", name, said.get(name), value)
    part.same("merge", "report", "the nodes in it", sorted(lines), sorted(wanted))
    for node in sorted(lines.keys() & wanted.keys()):
        for name, value in wanted[node].items():
            if name != "reason":  # free text
                check = "assignments" if name == "batches" else "merge"
                told = lines[node].get(name)
                part.same(check, f"node {node}", f"{name} in the report", told, value)
    if len(part.differences) == before and len(theirs.nodes) == len(theirs.contributions):
        for sentence in disagreements(mine, theirs, report, standing.invalid):
            part.differ("merge", "result", f"{sentence}.")
    part.figures["val_loss"] = report.val_loss
    part.figures["val_loss_recomputed"] = mine.report.val_loss


def compare_record(part: Part, theirs: bytes, mine: bytes) -> None:
    """A record of shards, field by field, against the recomputed one; a statement by its owner.

    Both can be read as `agents.rounds.shares.read_record` does.
    """
    told, wanted = loads(theirs), loads(mine)
    stages = told.pop("stages"), wanted.pop("stages")
    subject = "record of shards"
    part.same("merge", subject, "its head", told, wanted)
    part.same("merge", subject, "the number of its stages", *map(len, stages))
    for stage, (line, own) in enumerate(zip(*stages, strict=False)):
        said, counted = ([one["owner"] for one in each.pop("statements")] for each in (line, own))
        where = f"{subject}, stage {stage}"
        part.same("merge", where, "the owners of its statements", said, counted)
        for owner in sorted((Counter(said) - Counter(counted)).keys()):
            sentence = "its statement in the record of shards is not of this round, or not signed."
            part.differ("merge", f"node {owner}", sentence)
        for name in sorted(line.keys() | own.keys()):
            part.same("merge", where, name, line.get(name), own.get(name))


def merge_unseen(
    job: JobContext,
    before: State,
    submissions: Sequence[Submission],
    stakes: dict[int, int],
    report: RoundReport,
    step: int,
) -> Merging:
    """What `agents.rounds.outcome.merge` gives, with the report's figures for what needs data."""
    good = tuple(s for s in submissions if s.gradient is not None)
    merged: State = {name: torch.zeros(shape) for name, shape in job.shapes.items()}
    refused = ""
    if good:
        gradients = [s.gradient for s in good if s.gradient is not None]
        try:
            merged = job.merge(gradients, [stakes[s.reveal.node] for s in good])
        except MergeRefused as error:
            refused, good = str(error), ()
    after = stepped(job.spec, before, merged, job.spec.outer_lr_at(step))
    said = report.gains()
    gains = None
    if good and job.score.needs_gains:
        gains = tuple(said.get(s.reveal.node, 0) for s in good)
    return Merging(good, refused, merged, after, report.val_loss_before, report.val_loss, gains)


def compare_unread(
    part: Part,
    job: JobContext,
    job_id: int,
    plan: Plan,
    prev_model: bytes,
    reveals: Sequence[Reveal],
    standing: Tally,
    report: RoundReport,
) -> None:
    """What can be compared where payloads are sealed for others: everything but merge and scores.

    The report must agree with the spec, the assignments, the reveals, the ledger and the
    contributions.
    """
    theirs = standing.proposal
    lines = {line.node: line for line in report.nodes}
    part.same("merge", "report", "the nodes in it", sorted(lines), sorted(r.node for r in reveals))
    for reveal in reveals:
        line, who = lines.get(reveal.node), f"node {reveal.node}"
        if line is None:
            continue
        assignment = plan.manifest.of(reveal.node)
        batches = 0 if assignment is None else assignment.batches
        part.same("merge", who, "content in the report", line.content, reveal.content.hex())
        part.same("assignments", who, "batches in the report", line.batches, batches)
    pairs = zip(theirs.nodes, theirs.contributions, strict=False)
    claimed = {node: share for node, share in pairs if node not in standing.invalid}
    paid = paid_by(job, plan, report.nodes)
    said = {node: share for node, share in paid.items() if node not in standing.invalid}
    part.same("merge", "report", "the contributions in it", said, claimed)
    part.same("merge", "report", "update", digest_of(report.update), theirs.update)
    part.same("merge", "report", "model", report.model, theirs.model.hex())
    spec = job.spec
    wanted = {
        "job": job_id,
        "round": part.round_id,
        "prev_model": prev_model.hex(),
        "codec": spec.codec,
        "merge": spec.merge,
        "score": spec.score,
    }
    for name, value in wanted.items():
        part.same("merge", "report", name, getattr(report, name), value)
    named, due = report.checkpoint is not None, checkpoint_due(spec, plan.step)
    part.same("merge", "report", "whether it names a checkpoint", named, due)
    part.same("assignments", "report", "step", report.step, plan.step)
    part.same("assignments", "report", "carry_in", report.carry_in, plan.carry_in)
    part.same("assignments", "report", "cursor_in", report.cursor_in, plan.cursor_in)
    part.figures["val_loss"] = report.val_loss
