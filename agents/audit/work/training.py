# SPDX-License-Identifier: Apache-2.0
"""The maths of a job, done again: assignments, merge, model, scores, and with `deep` the training.

Rule: the job's own functions (`assign`, `compute`, `reexecute`) on verified bytes, with the chain's
seeds and snapshots. The batches that earlier rounds left undone are carried along here and not
taken from a report, by what was invalid as the next round opened. If a round's inputs are missing,
the audit says so, and goes on from the model that the ledger records, if any artefact leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.audit.chain.evidence import Replayed
from agents.audit.chain.opening import (
    Opened,
    audit_seed,
    found_invalid,
    guilty_at,
    invalid_at,
)
from agents.audit.chain.stakes import StakeBook
from agents.audit.chain.votes import Tally
from agents.audit.sources.artefacts import Artefacts, guarded, take_failures
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.audit.work.comparing import (
    compare_record,
    compare_result,
    compare_unread,
    merge_unseen,
)
from agents.audit.work.founding import read_job
from agents.audit.work.ratings import RoundFacts
from agents.audit.work.redoing import redo_training
from agents.audit.work.submitted import read_submissions
from agents.jobs.model_files import changed, read_model, update_bound
from agents.mechanisms.score.alignment import MAX_HISTORY
from agents.mechanisms.score.gauntlet import MOST_HISTORY
from agents.protocol.marks import nodes_of
from agents.protocol.structs import Reveal
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome, compute, finish
from agents.rounds.plan import Left, Plan, done_in, gamma_of, left_by, planned
from agents.rounds.reader import RoundReader
from agents.rounds.report import MAX_REPORT_BYTES, UNAVAILABLE, ReportError, RoundReport
from agents.rounds.shares import Shares, max_record_bytes
from agents.rounds.submissions import Submission
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import PayloadError, State, model_hash
from agents.training.update import read_update

_MOST_UPDATES = max(MAX_HISTORY, MOST_HISTORY)  # that a score reads


@dataclass(frozen=True)
class _Done:
    """A finalized round. `report`: None if it can't be read."""

    number: int
    plan: Plan
    report: RoundReport | None


class Training:
    """Replays a job's rounds in order, from its genesis model."""

    def __init__(
        self,
        record: Record,
        artefacts: Artefacts,
        registry: StakeBook,
        device: str,
        part: Part,
        progress: Callable[[str], None],
        data_key: bytes | None = None,
        random_source: bool = False,
    ) -> None:
        """Read spec, genesis model and data; whatever is wrong with them goes into `part`.

        `data_key`: of encrypted data, if the auditor was given it. `random_source`: the deployment
        takes seeds from a contract.
        """
        self._record = record
        self._artefacts = artefacts
        self._registry = registry
        self._device = device
        self._progress = progress
        self._data_key = data_key
        self._random_source = random_source
        self._model_before = ""
        self._earlier: State | None = None
        # Merged updates that changed the model, newest first; None once one is unknown.
        self._history: list[State] | None = []
        self.replayed: dict[int, Replayed] = {}  # steps of the round last replayed, by node
        self.facts: RoundFacts | None = None  # of the round last replayed in full
        self._step = 0
        self._done: list[_Done] = []  # those that a plan may still ask for, oldest first
        models = Models(record.network, artefacts, lambda _: data_key)
        self._reader = RoundReader(record.network, artefacts, device, models=models)
        self.job, self.state = read_job(record, artefacts, part, progress, data_key)
        take_failures(artefacts, part, "job")

    def plan(self, opened: Opened, seed: bytes | None, part: Part) -> Plan | None:
        """The round's manifest, from seed, snapshot, spec and what earlier rounds left."""
        if self.job is None or seed is None:
            return None
        try:
            place = self._record.job_id, part.round_id
            nodes, weights = opened.nodes, opened.weights
            return planned(self.job, place, seed, nodes, weights, self._step, self._left(opened))
        except ValueError as error:
            part.differ("assignments", "manifest", f"it can't be derived: {error}")
            return None

    def _left(self, opened: Opened) -> Left:
        """What the finalized rounds leave to the one that was opened so, as `Plans` has it."""
        if not self._done:
            return Left()
        assert self.job is not None
        last, marks = self._done[-1], invalid_at(self._record, opened.event)
        paid = self._done[max(0, len(self._done) - gamma_of(self.job) + 1) :]
        earlier = tuple(
            one.report.delivered(nodes_of(marks, one.number))
            for one in paid
            if one.report is not None
        )
        if last.report is None:
            handed_out = {one.node for one in last.plan.manifest.assignments}
            return replace(left_by(last.plan, handed_out), earlier=earlier, invalid=marks)
        left = left_by(last.plan, done_in(self.job, last.report) - nodes_of(marks, last.number))
        return replace(left, earlier=earlier, invalid=marks).told(last.report)

    def replay(
        self,
        part: Part,
        opened: Opened,
        plan: Plan,
        reveals: Sequence[Reveal],
        standing: Tally,
        deep: bool,
        flagged: frozenset[int],
        full: bool = True,
        chosen: Mapping[int, int] | None = None,
    ) -> None:
        """Do a finalized round again and compare everything with what was proposed.

        `full` False: only follow the model and the carried batches through it. `chosen`: the
        consensus that decided whose payloads are merged.
        """
        self.facts = None
        self.replayed = {}
        self._model_before = opened.prev_model.hex()
        assert self.job is not None
        submissions: list[Submission] = []
        if full:
            place = (plan, reveals, standing.invalid, opened.prev_model, self.state)
            segments = bool(self.job.spec.segment)
            drawn = self._audit_seed(part) if segments else None
            submissions = read_submissions(part, self.job, self._artefacts, *place, drawn)
        report = self._read_report(part, standing)
        outcome = None
        if full and report is not None and self.job.sealed:
            part.remark(
                "Payloads are sealed for the round's aggregators and verifiers, who recomputed "
                "them: merge, scores and losses were believed, training was not done again."
            )
            told = (plan, opened.prev_model, reveals, standing, report)
            compare_unread(part, self.job, self._record.job_id, *told)
        elif full and report is not None:
            outcome = self._recompute(
                part, opened, plan, submissions, standing, report, chosen or {}
            )
            if deep and self.state is not None and outcome is not None:
                guilty = standing.invalid - standing.cleared
                found = (outcome.merged, outcome.lies)
                self._redo(part, plan, submissions, guilty, flagged, *found)
        history = self._history
        after = self._model_after(part, standing, report, outcome)
        excused = [f"node {node}" for node in standing.invalid]
        if report is not None:
            excused += [f"node {node}" for node in report.missing()]
        take_failures(self._artefacts, part, "artefacts", excused)
        if full:
            self._keep_facts(plan, submissions, standing.invalid, history)
            if after is None:
                sentence = "neither the update nor a checkpoint leads to the model after the round."
                part.differ("model", "model", sentence)
        self._earlier, self.state = self.state, after
        self._step += 1
        if report is None:
            part.remark("Without the report, all nodes are taken to have delivered.")
        self._done = [*self._done, _Done(part.round_id, plan, report)][-gamma_of(self.job) :]

    def replay_void(
        self,
        part: Part,
        opened: Opened,
        plan: Plan,
        reveals: Sequence[Reveal],
        deep: bool,
        flagged: frozenset[int],
    ) -> None:
        """Look at the work of a round that came to nothing, for what rests on it all the same: who
        was slashed for it, and scores that stand in later rounds.

        What a node no longer publishes is a remark. Nothing is looked at of a split model, where a
        node may be guilty of what it said about a merge that was never made.
        """
        assert self.job is not None
        verification = self.job.verification
        if self.state is None or self.job.sealed or self.job.slices is not None:
            part.remark("The round is void, and its work was not looked at.")
            return
        invalid = found_invalid(self._record, part.round_id)
        place = (plan, reveals, invalid, opened.prev_model, self.state)
        submissions = read_submissions(part, self.job, self._artefacts, *place, None)
        if invalid and not (deep and verification.redone):
            part.remark("The round is void. Who was found invalid in it was not looked at.")
        elif invalid:
            guilty = frozenset(guilty_at(self._record, part.round_id, self._record.last))
            self._redo(part, plan, submissions, guilty, flagged, {}, {})
        excused = [f"node {reveal.node}" for reveal in reveals]
        take_failures(self._artefacts, part, "artefacts", excused)
        self._keep_facts(plan, submissions, invalid, self._history)

    def _keep_facts(
        self,
        plan: Plan,
        submissions: Sequence[Submission],
        invalid: frozenset[int],
        history: list[State] | None,
    ) -> None:
        assert self.job is not None
        if self.state is not None and (self._earlier is not None or not self._step):
            place = (self.state, self._earlier, submissions, invalid)
            self.facts = RoundFacts(self.job, plan, *place, history)

    def _audit_seed(self, part: Part) -> bytes | None:
        return audit_seed(self._record, part.round_id, self._random_source)

    def _read_report(self, part: Part, standing: Tally) -> RoundReport | None:
        digest = standing.proposal.report
        self._artefacts.name(digest, "report")
        raw = guarded(
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
        standing: Tally,
        report: RoundReport,
        chosen: Mapping[int, int],
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
        if self._history is None and job.score.needs_updates:
            part.differ("merge", "merge", "it can't be done again without the updates before it.")
            return None
        history = (self._history or [])[: job.score.needs_updates]
        try:
            if self._locked:
                part.remark(
                    "The job's data is encrypted and its key was not given: losses (and gains) in "
                    "the report were believed."
                )
                blind = merge_unseen(job, self.state, used, stakes, report, plan.step)
                outcome = finish(job, *place, blind, report.gains(), history)
            else:
                outcome = compute(
                    *(job, *place, self._device, stakes, report.gains()),
                    standing=chosen,
                    history=history,
                    shares=self._shares(part, plan, used, report),
                )
        except StoreUnavailable:
            raise
        except (StoreError, ValueError) as error:
            part.differ("merge", "merge", f"it can't be done again: {error}")
            return None
        compare_result(part, standing, report, outcome)
        self._compare_record(part, plan, report, outcome)
        return outcome

    def _compare_record(
        self, part: Part, plan: Plan, report: RoundReport, outcome: Outcome
    ) -> None:
        """Say what is wrong with a record of shards that is another than the recomputed one."""
        cid = report.shards
        if plan.epoch is None or cid is None or cid == outcome.report.shards:
            return
        mine = next((p for p in outcome.parts if cid_of_bytes(p) == outcome.report.shards), None)
        longest, what = max_record_bytes(plan.epoch), "record of shards"
        theirs = guarded(part, "merge", what, lambda: self._artefacts.get(cid, longest))
        if theirs is not None and mine is not None:
            compare_record(part, theirs, mine)

    def _shares(
        self, part: Part, plan: Plan, used: Sequence[Submission], report: RoundReport
    ) -> Shares | None:
        """What shards are judged by, in a job with a butterfly. Raises as `recorded`."""
        assert self.job is not None
        if not self.job.spec.butterfly or plan.epoch is None:
            return None
        if report.shards is not None:
            self._artefacts.name(report.shards, "record of shards")
        recorded = self._reader.recorded(plan.epoch, report)
        seed = self._audit_seed(part)
        if seed is None:
            raise ValueError("the audit seed that orders the shards can't be known")
        place = self._record.job_id, part.round_id, plan, used
        return self._reader.shares(*place, seed, recorded)

    def _model_after(
        self,
        part: Part,
        standing: Tally,
        report: RoundReport | None,
        outcome: Outcome | None,
    ) -> State | None:
        """The model after the round, by the published update; checks update and checkpoint."""
        assert self.job is not None
        job, wanted = self.job, standing.proposal.model
        self._artefacts.name(standing.proposal.update, "update")
        after: State | None = None
        raw = guarded(
            part,
            "model",
            "update",
            lambda: self._artefacts.get_digest(standing.proposal.update, update_bound(job)),
        )
        if raw is not None and outcome is not None:
            cid = cid_of_bytes(outcome.update)
            part.same("model", "update", "the CID of the published bytes", cid_of_bytes(raw), cid)
        if raw is not None and self.state is not None:
            before = self.state
            rate = job.spec.outer_lr_at(self._step)
            after = guarded(
                part,
                "model",
                "update",
                lambda: changed(job, self._artefacts, cid_of_bytes(raw), before, rate, wanted),
            )
        if report is not None and report.checkpoint is not None:
            cid = report.checkpoint
            self._artefacts.name(cid, "checkpoint")
            kept = guarded(
                part,
                "model",
                "checkpoint",
                lambda: read_model(job, self._artefacts, digest_of(cid), wanted),
            )
            after = after or kept
        if after is None and outcome is not None and outcome.model == wanted:
            after = outcome.state
        if job.slices is None:
            self._remember(raw, after)
        return after

    def _remember(self, raw: bytes | None, after: State | None) -> None:
        """Keep the round's update for what later rounds were measured against."""
        earlier, self._history = self._history, None
        if raw is None or self.state is None or after is None or earlier is None:
            return
        assert self.job is not None
        if model_hash(after).hex() == self._model_before:
            self._history = earlier
            return
        try:
            newest = read_update(raw, self.job.shapes)
        except PayloadError:
            return  # said already: the model was then read from a checkpoint
        self._history = [newest, *earlier][:_MOST_UPDATES]

    @property
    def _locked(self) -> bool:
        """Whether the data can't be read for want of its key."""
        encrypted = self.job is not None and self.job.spec.access == "encrypted"
        return encrypted and self._data_key is None

    def _redo(
        self,
        part: Part,
        plan: Plan,
        submissions: list[Submission],
        guilty: frozenset[int],
        flagged: frozenset[int],
        merged: State,
        lies: Mapping[int, Mapping[str, Any]],
    ) -> None:
        assert self.job is not None and self.state is not None
        verification = self.job.verification
        if self._locked or not (verification.redone or verification.copies_judged):
            why = "the data never left its nodes" if not self._locked else "the data is encrypted"
            part.remark(f"Training can't be done again: {why}.")
            return
        round_ = (self.job, self._record.job_id, part.round_id, plan, self.state, submissions)
        inputs = replace(
            self._reader.inputs_at(*round_),
            merged=merged,
            lies=lies,
            flagged=flagged,
            window_s=self._record.job.terms.commit_s,
        )
        self.replayed = redo_training(
            part, inputs, guilty, self._device, self._artefacts, self._progress
        )
