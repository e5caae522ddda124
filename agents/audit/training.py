# SPDX-License-Identifier: Apache-2.0
"""The maths of a job, done again: assignments, merge, model, scores, and with `deep` the training.

Rule: the job's own functions (`assign`, `compute`, `reexecute`) on verified bytes, with the chain's
seeds and snapshots. What earlier rounds left undone is carried along here, not believed from a
report. A round whose inputs are missing is said to be so, and the audit goes on from the model that
the ledger records, if any artefact leads to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from agents.aggregation import MergeRefused
from agents.audit.artefacts import Artefacts
from agents.audit.findings import Part
from agents.audit.opening import Opened
from agents.audit.record import Record
from agents.audit.stakes import Registry
from agents.audit.votes import Standing
from agents.rounds.audit import RoundWork, reexecute
from agents.rounds.jobs import JobContext
from agents.rounds.manifests import Plan, Plans
from agents.rounds.memory import Memories
from agents.rounds.models import Models
from agents.rounds.network import Reveal
from agents.rounds.report import MAX_REPORT_BYTES, UNAVAILABLE, ReportError, RoundReport
from agents.rounds.result import (
    LOSS_TOLERANCE,
    Merging,
    Outcome,
    compute,
    disagreements,
    finish,
)
from agents.rounds.submissions import Submission, fetch, fetch_proof
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.sealed import sealed_size
from agents.training.data import MAX_MANIFEST_BYTES, Dataset
from agents.training.proof import MAX_PROOF_BYTES, ProofOfComputation
from agents.training.spec import MAX_SPEC_BYTES, JobSpec
from agents.training.state import (
    PayloadError,
    State,
    apply_outer,
    file_bound,
    load_state,
    model_hash,
)
from agents.training.task import assign, next_carry

_LOSSES = ("val_loss_before", "val_loss")


@dataclass(frozen=True)
class Replayed:
    """What a round's replay leaves for later checks. `report` None: it can't be had."""

    submissions: list[Submission]
    report: RoundReport | None


class Training:
    """Replays a job's rounds in order, from its genesis model."""

    def __init__(
        self,
        record: Record,
        artefacts: Artefacts,
        registry: Registry,
        device: str,
        part: Part,
        progress: Callable[[str], None],
        data_key: bytes | None = None,
    ) -> None:
        """Read spec, genesis model and data; whatever is wrong with them goes into `part`.

        `data_key`: of encrypted data, if the auditor was given it.
        """
        self._record = record
        self._artefacts = artefacts
        self._registry = registry
        self._device = device
        self._progress = progress
        self._data_key = data_key
        self.job: JobContext | None = None
        self.state: State | None = None
        self._model_before = ""
        self._step = 0
        self._carry: tuple[tuple[int, int], ...] = ()
        self._cursor = 0
        models = Models(record.network, artefacts, lambda _: data_key)
        plans = Plans(record.network, models)
        self._memories = Memories(record.network, artefacts, models, plans, device)
        terms = record.job.terms
        artefacts.name(bytes(terms.spec), "job spec")
        artefacts.name(bytes(terms.genesis_checkpoint), "genesis checkpoint")
        self._read_job(part)
        self.take_failures(part, "job", ())

    # -- the job -------------------------------------------------------------------------------

    def _read_job(self, part: Part) -> None:
        terms = self._record.job.terms
        job = self._guard(part, "job", "job spec", self._load_spec)
        if job is None:
            return
        self.job = job
        part.same("job", "job spec", "rounds", job.spec.rounds, terms.rounds)
        raw = self._guard(
            part,
            "job",
            "genesis checkpoint",
            lambda: self._artefacts.get_digest(
                bytes(terms.genesis_checkpoint), file_bound(job.shapes)
            ),
        )
        state = raw and self._guard(
            part, "job", "genesis checkpoint", lambda: load_state(raw, job.shapes)
        )
        if state:
            what = "the hash of the model in it"
            found = model_hash(state)
            if part.same("job", "genesis checkpoint", what, found, terms.genesis_model):
                self.state = state
        self._guard(part, "job", "dataset", lambda: self._read_data(job, part))

    def _load_spec(self) -> JobContext:
        digest = bytes(self._record.job.terms.spec)
        spec = JobSpec.from_bytes(self._artefacts.get_digest(digest, MAX_SPEC_BYTES))
        self._artefacts.name(spec.data, "dataset manifest")
        if spec.model.config_cid is not None:
            self._artefacts.name(spec.model.config_cid, "model config")
        return JobContext(spec, self._artefacts, lambda: self._data_key)

    def _read_data(self, job: JobContext, part: Part) -> None:
        """Every shard of the dataset, each against its CID and its length."""
        raw = self._artefacts.get(job.spec.data, MAX_MANIFEST_BYTES)
        dataset = Dataset.from_bytes(raw)
        itemsize = np.dtype(dataset.dtype).itemsize
        for index, shard in enumerate(dataset.shards):
            self._progress(f"shard {index + 1} of {len(dataset.shards)}")
            self._artefacts.name(shard.cid, f"shard {index}")
            size = shard.tokens * itemsize
            if job.spec.access == "encrypted":
                size = sealed_size(size)
            try:
                # One byte more: of a shard that is too long, its length is told.
                found = len(self._artefacts.get(shard.cid, size + 1))
            except StoreUnavailable:
                raise
            except StoreError:
                continue  # waits in `failures`
            part.same("job", f"shard {index}", "its length", found, size)

    def _guard(self, part: Part, check: str, subject: str, do: Callable[[], Any]) -> Any:
        """Run; a refusal of bytes becomes a difference and None."""
        part.counts[check] = part.counts.get(check, 0) + 1
        try:
            return do()
        except StoreUnavailable:
            raise
        except StoreError:
            return None  # waits in `failures`
        except (ValueError, OverflowError) as error:
            part.differ(check, subject, f"it can't be used: {error}")
            return None

    def take_failures(self, part: Part, check: str, excused: Sequence[str]) -> None:
        """Differences for the artefacts that could not be had; remarks for those of `excused`."""
        for name, sentence in self._artefacts.failures():
            if any(name.endswith(f"of {who}") for who in excused):
                part.remark(sentence)
            else:
                part.differ(check, name, sentence)

    # -- a round -------------------------------------------------------------------------------

    def plan(self, opened: Opened, seed: bytes | None, part: Part) -> Plan | None:
        """The round's manifest, from seed, snapshot, spec and what earlier rounds left."""
        if self.job is None or seed is None:
            return None
        try:
            manifest = assign(
                seed, opened.nodes, opened.weights, self.job.spec, self._carry, self._cursor
            )
        except ValueError as error:
            part.differ("assignments", "manifest", f"it can't be derived: {error}")
            return None
        return Plan(manifest, self._step, self._carry, self._cursor)

    def read(
        self, part: Part, plan: Plan, reveals: Sequence[Reveal], invalid: frozenset[int]
    ) -> list[Submission]:
        """Payload, proof and trace of every reveal."""
        assert self.job is not None
        found = []
        for reveal in reveals:
            node = f"node {reveal.node}"
            self._artefacts.name(reveal.content, f"payload of {node}")
            self._artefacts.name(reveal.proof, f"proof of {node}")
            found.append(fetch(reveal, self.job, self._artefacts, plan.manifest.seed))
            self._read_proof(part, plan, reveal, found[-1], reveal.node in invalid)
            part.counts["artefacts"] = part.counts.get("artefacts", 0) + 2
        return found

    def _read_proof(
        self, part: Part, plan: Plan, reveal: Reveal, submission: Submission, excused: bool
    ) -> None:
        assert self.job is not None
        assignment = plan.manifest.of(reveal.node)
        batches = 0 if assignment is None else assignment.batches
        node = f"node {reveal.node}"
        self._name_trace(reveal)
        read = fetch_proof(reveal, self.job.trace_steps(batches), self._artefacts)
        if isinstance(read, str):
            part.remark(f"{node}: {read}.")
            return
        trace = read[1]
        wrong = []
        if trace.root() != reveal.trace_root:
            wrong.append(
                f"its trace has the root {trace.root().hex()}, it revealed "
                f"{reveal.trace_root.hex()}"
            )
        if self.job.traced and trace.hashes[0] != bytes.fromhex(self._model_before):
            wrong.append(f"its trace starts from the model {trace.hashes[0].hex()}")
        for sentence in wrong:
            (part.remark if excused else _difference(part, node))(f"{sentence}.")

    def _name_trace(self, reveal: Reveal) -> None:
        """Learn which artefact is the node's trace; an unusable proof is told of elsewhere."""
        with suppress(StoreError, PayloadError):
            raw = self._artefacts.get_digest(reveal.proof, MAX_PROOF_BYTES)
            trace = ProofOfComputation.from_bytes(raw).trace
            self._artefacts.name(trace, f"trace of node {reveal.node}")

    def replay(
        self,
        part: Part,
        opened: Opened,
        plan: Plan,
        reveals: Sequence[Reveal],
        standing: Standing,
        deep: bool,
        flagged: frozenset[int],
        full: bool = True,
    ) -> Replayed:
        """Do a finalized round again and compare everything with what was proposed.

        `full` False: only follow the model and the carried batches through it.
        """
        self._model_before = opened.prev_model.hex()
        submissions = self.read(part, plan, reveals, standing.invalid) if full else []
        report = self._read_report(part, standing)
        outcome = None
        if full and report is not None:
            outcome = self._recompute(part, opened, plan, submissions, standing, report)
            if deep and self.state is not None and outcome is not None:
                guilty = standing.invalid - standing.cleared
                self._redo(part, plan, submissions, outcome, guilty, flagged)
        after = self._model_after(part, standing, report, outcome)
        excused = [f"node {node}" for node in standing.invalid]
        if report is not None:
            excused += [f"node {node}" for node in report.missing()]
        self.take_failures(part, "artefacts", excused)
        self.state = after
        self._step += 1
        if report is not None:
            left = next_carry(plan.manifest, report.accepted() - standing.invalid)
            self._carry, self._cursor = left
        else:
            part.remark("Without the report, all nodes are taken to have delivered.")
            self._carry, self._cursor = next_carry(plan.manifest, opened.nodes)
        return Replayed(submissions, report)

    def _read_report(self, part: Part, standing: Standing) -> RoundReport | None:
        digest = standing.proposal.report
        self._artefacts.name(digest, "report")
        raw = self._guard(
            part,
            "artefacts",
            "report",
            lambda: self._artefacts.get_digest(digest, MAX_REPORT_BYTES),
        )
        if raw is None:
            return None
        try:
            return RoundReport.from_bytes(raw)
        except ReportError as error:
            part.differ("artefacts", "report", f"it can't be used: {error}")
            return None

    def _recompute(
        self,
        part: Part,
        opened: Opened,
        plan: Plan,
        submissions: list[Submission],
        standing: Standing,
        report: RoundReport,
    ) -> Outcome | None:
        assert self.job is not None
        if self.state is None:
            why = f"The model {self._model_before} that the round starts from is not known here"
            part.differ("merge", "model before", f"{why}, so the merge can't be done again.")
            return None
        left_out = report.missing()
        for submission in submissions:
            node = submission.reveal.node
            if node in left_out and submission.gradient is not None:
                part.remark(f"node {node}: its payload came too late and was left out.")
        lost = [s for s in submissions if s.unavailable and s.reveal.node not in left_out]
        if lost:
            which = ", ".join(f"node {s.reveal.node}" for s in lost)
            part.differ("merge", "merge", f"it can't be done again without the payload of {which}.")
            return None
        used = [
            replace(s, gradient=None, reason=UNAVAILABLE) if s.reveal.node in left_out else s
            for s in submissions
        ]
        stakes = self._registry.stakes([s.reveal.node for s in used], opened.event.block)
        self._progress(f"round {part.round_id}: merging {len(used)} payloads")
        job, place = self.job, (self._record.job_id, part.round_id, plan, self.state, used)
        try:
            if self._locked:
                part.remark(
                    "The job's data is encrypted and its key was not given: losses (and gains) in "
                    "the report were believed."
                )
                blind = _merge_unseen(job, self.state, used, stakes, report)
                outcome = finish(job, *place, blind, report.gains())
            else:
                outcome = compute(job, *place, self._device, stakes, report.gains())
        except StoreUnavailable:
            raise
        except (StoreError, ValueError) as error:
            part.differ("merge", "merge", f"it can't be done again: {error}")
            return None
        self._compare(part, standing, report, outcome)
        return outcome

    def _compare(self, part: Part, standing: Standing, report: RoundReport, mine: Outcome) -> None:
        """Result and report against the recomputed ones, field by field."""
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
                part.same(check, "report", name, said[name], value)
        part.same("merge", "report", "the nodes in it", sorted(lines), sorted(wanted))
        for node in sorted(lines.keys() & wanted.keys()):
            for name, value in wanted[node].items():
                if name != "reason":  # free text
                    check = "assignments" if name == "batches" else "merge"
                    part.same(
                        check, f"node {node}", f"{name} in the report", lines[node][name], value
                    )
        if len(part.differences) == before and len(theirs.nodes) == len(theirs.contributions):
            for sentence in disagreements(mine, theirs, report, standing.invalid):
                part.differ("merge", "result", f"{sentence}.")
        part.figures["val_loss"] = report.val_loss
        part.figures["val_loss_recomputed"] = mine.report.val_loss

    def _model_after(
        self,
        part: Part,
        standing: Standing,
        report: RoundReport | None,
        outcome: Outcome | None,
    ) -> State | None:
        """The model after the round, by the published update; checks update and checkpoint."""
        assert self.job is not None
        wanted, shapes = standing.proposal.model, self.job.shapes
        limit = file_bound(shapes)
        self._artefacts.name(standing.proposal.update, "update")
        after: State | None = None
        raw = self._guard(
            part,
            "model",
            "update",
            lambda: self._artefacts.get_digest(standing.proposal.update, limit),
        )
        if raw is not None and outcome is not None:
            cid = cid_of_bytes(outcome.update)
            part.same("model", "update", "the CID of the published bytes", cid_of_bytes(raw), cid)
        if raw is not None and self.state is not None:
            before = self.state
            outer_lr = self.job.spec.optimizer.outer_lr
            applied = self._guard(
                part,
                "model",
                "update",
                lambda: apply_outer(before, load_state(raw, shapes), outer_lr),
            )
            if applied is not None:
                what = "the hash of the model it leads to"
                if part.same("model", "update", what, model_hash(applied), wanted):
                    after = applied
        if report is not None and report.checkpoint is not None:
            cid = report.checkpoint
            self._artefacts.name(cid, "checkpoint")
            kept = self._guard(
                part,
                "model",
                "checkpoint",
                lambda: load_state(self._artefacts.get(cid, limit), shapes),
            )
            if kept is not None:
                what = "the hash of the model in it"
                if part.same("model", "checkpoint", what, model_hash(kept), wanted):
                    after = after or kept
        if after is None and outcome is not None and outcome.model == wanted:
            after = outcome.state
        return after

    @property
    def _locked(self) -> bool:
        """Whether the data can't be read for want of its key."""
        encrypted = self.job is not None and self.job.spec.access == "encrypted"
        return encrypted and self._data_key is None

    # -- deep ----------------------------------------------------------------------------------

    def _redo(
        self,
        part: Part,
        plan: Plan,
        submissions: list[Submission],
        outcome: Outcome,
        invalid: frozenset[int],
        flagged: frozenset[int],
    ) -> None:
        """Run every node's task again; who was found invalid must fail, all others pass."""
        assert self.job is not None and self.state is not None
        if self.job.spec.verify == "screening" or self._locked:
            why = "the data never left its nodes" if not self._locked else "the data is encrypted"
            part.remark(f"Training can't be done again: {why}.")
            return
        work = RoundWork(
            job=self.job,
            job_id=self._record.job_id,
            round_id=part.round_id,
            plan=plan,
            before=self.state,
            merged=outcome.merged,
            submissions=submissions,
            audit_seed=bytes(self._record.current[part.round_id].audit_seed),
            flagged=flagged,
            scores={},
            window_s=int(self._record.job.terms.commit_s),
            memory=lambda node: self._memories.before(self._record.job_id, plan, node),
        )
        for submission in submissions:
            node = submission.reveal.node
            who = f"node {node}"
            self._progress(f"round {part.round_id}: training of {who}")
            if submission.gradient is None:
                if not submission.unavailable:
                    sentence = f"its payload can't be used ({submission.reason}), but nobody "
                    sentence += "had it found INVALID."
                    part.hold("training", node in invalid, who, sentence)
                continue
            try:
                finding = reexecute(work, node, self._device, self._artefacts)
            except StoreUnavailable:
                raise
            except (StoreError, PayloadError, ValueError) as error:
                part.differ("training", who, f"its training can't be done again: {error}")
                continue
            wrong = finding.violation is not None
            if node in invalid:
                sentence = "it was found invalid, but its training gives what it revealed: "
            else:
                sentence = "its training gives something else than it revealed: "
            sentence += finding.reason
            part.hold("training", wrong == (node in invalid), who, sentence)


def _merge_unseen(
    job: JobContext,
    before: State,
    submissions: Sequence[Submission],
    stakes: dict[int, int],
    report: RoundReport,
) -> Merging:
    """What `agents.rounds.result.merge` gives, with the report's figures for what needs data."""
    good = tuple(s for s in submissions if s.gradient is not None)
    merged: State = {name: torch.zeros(shape) for name, shape in job.shapes.items()}
    refused = ""
    if good:
        gradients = [s.gradient for s in good if s.gradient is not None]
        try:
            merged = job.merge(gradients, [stakes[s.reveal.node] for s in good])
        except MergeRefused as error:
            refused, good = str(error), ()
    after = apply_outer(before, merged, job.spec.optimizer.outer_lr)
    said = report.gains()
    gains = None
    if good and job.score.needs_gains:
        gains = tuple(said.get(s.reveal.node, 0) for s in good)
    return Merging(good, refused, merged, after, report.val_loss_before, report.val_loss, gains)


def _difference(part: Part, subject: str) -> Callable[[str], None]:
    return lambda sentence: part.differ("artefacts", subject, sentence)
