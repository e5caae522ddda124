# SPDX-License-Identifier: Apache-2.0
"""Judges what others claim, a proposed result or a node's work, by doing it again.

The verdict is a function of public data. While an artefact is missing and there is time, there is
no verdict. Once time is short, a missing artefact counts against the node that had to publish it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from agents.jobs.choice import USUAL_SPEED
from agents.jobs.job import DataLocked
from agents.jobs.judgeable import unjudgeable
from agents.jobs.workload import recomputing
from agents.mechanisms.privacy.aggregate import Aggregate
from agents.protocol.network import Network
from agents.protocol.view import View
from agents.rounds.inputs import RoundInputs
from agents.rounds.member_access import MemberAccess
from agents.rounds.outcome import disagreements
from agents.rounds.reader import RoundReader
from agents.rounds.report import ReportError, RoundReport
from agents.rounds.shares import RecordMissing
from agents.rounds.submissions import Submission, fetch_proof, left_out
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable, TooLarge
from agents.training.local import device_of
from agents.training.state import file_bound
from agents.verify.spot_checks import Finding, malformed, reexecute


def result_errors(
    reader: RoundReader, view: View, patient: bool, protests: bool = True
) -> list[str] | None:
    """What is wrong with the result proposed in a round; empty if nothing, None for no verdict yet.

    A result that leaves out payloads as unavailable is not wrong, or anyone could make an honest
    one look wrong by publishing late; who could read them in time has no verdict on it while it
    `protests`, and so doesn't attest. `patient`: wait for what the store lacks. Raises
    StoreUnavailable when the store itself is down, StoreError where spec, model or text can't be
    had: others than the proposer keep them.
    """
    submissions = reader.submissions(view)
    if patient and any(s.unavailable for s in submissions):
        return None
    proposal = reader.network.proposal(view.job_id, view.round_id, view.round)
    try:
        report = reader.models.report(proposal.report)
    except StoreUnavailable:
        raise
    except StoreError as error:
        return None if patient else [f"the report cannot be had: {error}"]
    except ReportError as error:
        return [str(error)]
    shut = {s.reveal.node for s in submissions if s.unavailable}
    if shut & report.accepted() and reader.models.job(view.job_id).sealed:
        return None  # who can't read what was merged can't judge the merge
    if patient and not _has_noised(reader, view, report):
        return None
    try:
        outcome = reader.outcome(view, submissions, report)
    except StoreUnavailable:
        raise
    except ReportError as error:
        return [str(error)]
    except RecordMissing as error:
        why = f"the record of shards, or what it rests on, cannot be had: {error}"
        return None if patient else [why]
    if outcome is None:
        return None
    wrong = disagreements(outcome, proposal, report)
    late = [s for s in submissions if s.gradient is not None and s.reveal.node in report.missing()]
    hidden = any(_could_read(reader, view, submissions, group) for group in outcome.unread)
    if not wrong and hidden and protests:
        return None
    if not wrong or not late:
        return wrong
    without = left_out(submissions, {s.reveal.node for s in late})
    other = reader.outcome(view, without, report)
    if other is None or disagreements(other, proposal, report):
        return wrong
    in_time = any(reader.had_in_time(view, s) for s in late)
    hidden = any(_could_read(reader, view, submissions, group) for group in other.unread)
    return None if (in_time or hidden) and protests else []


def _has_noised(reader: RoundReader, view: View, report: RoundReport) -> bool:
    """Whether the update can be had, where its noise is its aggregator's secret: nobody can compute
    that one. Whether it is right is not asked here."""
    job = reader.models.job(view.job_id)
    if not isinstance(job.privacy, Aggregate):
        return True
    try:
        reader.models.large.get(report.update, file_bound(job.shapes))
    except StoreUnavailable:
        raise
    except TooLarge:
        return True
    except StoreError:
        return False
    return True


def _could_read(
    reader: RoundReader, view: View, submissions: Sequence[Submission], nodes: Collection[int]
) -> bool:
    """Whether this process had in time what a proposer says nobody could fetch of these nodes."""
    return all(reader.had_in_time(view, s) for s in submissions if s.reveal.node in nodes)


Work = tuple[int, int, bytes, int]
"""Job, round, the round's seed, node."""


class Judge:
    """Everything a committee member needs to recompute; made when the first case comes up.

    `tell`: hears once, in a sentence, of a node that this machine has no word on. `access`: what
    the member can read of encrypted data and sealed payloads; without it there is no verdict on
    them. `reader`: of rounds; by default one of its own with that access. `no_word`: the nodes'
    works that this machine found right and can't clear, and of each whether its trace was missing;
    kept by a member that makes more than one judge of a job.
    """

    def __init__(
        self,
        network: Network,
        store: ContentStore,
        device: str,
        tell: Callable[[str], None] = lambda why: None,
        access: MemberAccess | None = None,
        reader: RoundReader | None = None,
        no_word: dict[Work, bool] | None = None,
    ) -> None:
        self.reader = reader or RoundReader(
            network,
            store,
            device_of(device),
            models=None if access is None else access.models,
            sealing=access,
        )
        self._tell = tell
        self._no_word = {} if no_word is None else no_word

    def takes_s(self, view: View) -> float:
        """Seconds that `result_errors` computes on a machine of usual speed; 0 where keys are
        missing, since nothing is computed then. Raises SpecError, StoreError."""
        job = self.reader.models.job(view.job_id)
        try:
            return recomputing(job, view.round.n_revealed) / USUAL_SPEED
        except DataLocked:
            return 0.0

    def is_refused(self, view: View) -> bool:
        """Whether nobody creates the job, or works on it, since its results can't be recomputed in
        time at the usual speed, however few trainers come. Raises SpecError, StoreError."""
        return unjudgeable(self.reader.models.job(view.job_id), view.job.terms) is not None

    def result_errors(self, view: View, patient: bool) -> list[str] | None:
        """See `result_errors` above. None too while keys of what it takes are not disclosed."""
        try:
            return result_errors(self.reader, view, patient)
        except DataLocked as locked:
            self._tell(f"round {view.round_id} of job {view.job_id} can't be judged yet: {locked}")
            return None

    def is_innocent(self, view: View, node: int) -> bool | None:
        """Whether a node's work in the round of `view` is right; None while it can't be had.

        So it is while keys of the node's data are not disclosed. None too where this machine finds
        the work right and could not compare all that a verifier of the node's class compares: it is
        of another class and some bits differ, or the proof or the trace can't be had. Else a node
        could choose a lie that its reporters see and the committee doesn't, appeal, and have them
        slashed.
        """
        work: Work = view.job_id, view.round_id, view.round.seed, node
        if work in self._no_word and not self._trace_came(view, work):
            return None
        found = self.finding(view, node)
        if found is None:
            return None
        if found.violation is None and found.unsure:
            self._no_word[work] = self._misses_trace(view, node)
            self._tell(
                f"node {node} in round {view.round_id} can't be cleared here: {found.unsure}"
            )
            return None
        return found.violation is None

    def finding(self, view: View, node: int) -> Finding | None:
        """What doing a node's work again finds; None while it can't be had."""
        found = self._found(view, node)
        if found is None:
            return None
        inputs, _ = found
        try:
            if inputs.job.spec.butterfly:
                submissions = self.reader.submissions(view)
                report = self.reader.proposed(view, submissions)
                outcome = None if report is None else self.reader.outcome(view, submissions, report)
                if outcome is not None:
                    inputs = replace(inputs, lies=outcome.lies)
            for finding in malformed(inputs):
                if finding.node == node:
                    return finding
            return reexecute(inputs, node, self.reader.device, self.reader.store)
        except DataLocked as locked:
            self._tell(f"node {node} in round {view.round_id} can't be judged yet: {locked}")
            return None

    def _found(self, view: View, node: int) -> tuple[RoundInputs, Submission] | None:
        """What a node's work is judged by, and what it submitted, once both can be had."""
        submissions = self.reader.submissions(view)
        mine = next((s for s in submissions if s.reveal.node == node), None)
        if mine is None or mine.unavailable:
            return None
        inputs = self.reader.inputs(view, submissions)
        return None if inputs is None else (inputs, mine)

    def _trace_came(self, view: View, work: Work) -> bool:
        """Whether a trace that was missing is there now, by which the node may be cleared."""
        return self._no_word[work] and not self._misses_trace(view, work[-1])

    def _misses_trace(self, view: View, node: int) -> bool:
        """Whether a node's trace, which its replay could be compared with, can't be read."""
        found = self._found(view, node)
        if found is None or not found[0].job.traced:
            return False
        inputs, mine = found
        return isinstance(fetch_proof(mine.reveal, inputs.steps(node), self.reader.store), str)
