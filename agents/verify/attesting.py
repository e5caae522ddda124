# SPDX-License-Identifier: Apache-2.0
"""Which finalized models a committee member attests: those that it has recomputed, at checkpoints.

A model is attested where its job publishes a checkpoint: every `checkpoint_every` rounds and after
the last one. Before that, a member recomputes each round since the last model that is attested, by
the function by which it judges a challenge: payloads fetched, merged, applied, scored, evaluated.
Then it reads the checkpoint and hashes it. So the committee's word says: this file holds the exact
model that the published payloads give by the job's rules, round after round from the first. It
says nothing of how a payload came about; whose work is right is the verifiers' to find.

The statement of an attestation is the ledger's head at that entry, which binds the whole history.

Rule: a step recomputes one round at most, so that no challenge waits behind it, and each round is
recomputed once. A round that is wrong ends it for the job: every later model rests on that one. A
payload that nobody can have, and that the round left out for that, is not waited for: one node
could keep all models from being attested. Any other artefact that is missing gives no word, and is
looked for again after a pause. So does a job that can't be computed here for whatever reason: it
holds up no other job. A job of which one round takes longer than a stated time, by its spec or by
the clock, is not attested any further: its sponsor chooses how much text a result is evaluated on,
and a member that computes for days misses the deadlines of challenges and appeals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.jobs.model_files import WrongModel, read_model
from agents.protocol.network import Network
from agents.protocol.structs import LedgerEntry
from agents.protocol.view import View, observe
from agents.rounds.report import ReportError
from agents.runtime.chain import Head
from agents.runtime.errors import ConfigError, JournalError, RpcDown, Stopped, WalletError
from agents.storage.cid import digest_of
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.spec import SpecError
from agents.training.state import PayloadError
from agents.verify.judging import Judge

_PAUSE_S, _PAUSE_MAX_S = 2.0, 300.0
_MOST_S = 3_600.0  # that recomputing a round may take
# What no job is to blame for.
_EVERYBODYS = (ConfigError, JournalError, RpcDown, Stopped, StoreUnavailable, WalletError)


@dataclass(frozen=True)
class Attestation:
    """What is to be attested of a model: its checkpoint, and the history that it ends."""

    job_id: int
    round_id: int
    model: bytes
    checkpoint: bytes
    statement: bytes


@dataclass
class _Progress:
    """How far a member is in a job.

    Attributes:
        count: entries of the ledger that are attested or recomputed.
        head: the ledger's head at the last of them; another one there means a reorg.
        due: what is recomputed and waits for its attestation.
        wrong: why nothing more is attested, or empty.
        pause, not_before: after an entry on which there was no word; monotonic seconds.
    """

    count: int = 0
    head: bytes = b""
    due: list[Attestation] = field(default_factory=list)
    wrong: str = ""
    pause: float = 0.0
    not_before: float = 0.0


class Attesting:
    """One member's attestations, of every job.

    `judge_of`: the recomputation of a job, made when it is first needed. `tell`: hears in a
    sentence, once, of a job and why its models are not attested. `most_s`: that a round may take.
    `clock`: seconds.
    """

    def __init__(
        self,
        network: Network,
        judge_of: Callable[[int], Judge],
        tell: Callable[[int, str], None],
        most_s: float = _MOST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = network
        self._judge_of = judge_of
        self._tell = tell
        self._most_s = most_s
        self._clock = clock
        self._jobs: dict[int, _Progress] = {}

    def step(self, head: Head) -> list[Attestation]:
        """What is to be attested now; recomputes one round at most."""
        due: list[Attestation] = []
        worked = False
        for job_id, length in self._lengths():
            if not length:
                continue
            progress = self._progress(job_id, length)
            late = self._clock() >= progress.not_before
            if not worked and not progress.wrong and progress.count < length and late:
                worked = True
                began = self._clock()
                self._recompute(job_id, progress, head)
                if not progress.wrong and self._clock() - began > self._most_s:
                    self._refuse(job_id, progress, "took", self._clock() - began)
            attested = self._attested([(job_id, one.model) for one in progress.due])
            due += [one for one, done in zip(progress.due, attested, strict=True) if not done]
        return due

    def _lengths(self) -> list[tuple[int, int]]:
        """Every job and the length of its ledger, asked for in one request."""
        jobs = range(1, self._network.job_count() + 1)
        asked = [(self._network.ledger, "length", (job_id,)) for job_id in jobs]
        return list(zip(jobs, map(int, self._network.chain.call_many(asked)), strict=True))

    def _progress(self, job_id: int, length: int) -> _Progress:
        found = self._jobs.get(job_id)
        if found is not None:
            known = found.count <= length
            if found.count and known:
                entry = self._network.ledger_entry(job_id, found.count - 1)
                known = entry.head == found.head
            if known:
                return found
        found = self._jobs[job_id] = self._begin(job_id, length)
        return found

    def _begin(self, job_id: int, length: int) -> _Progress:
        """From the newest model that is attested already: who doubts that one doubts the word of
        a quorum of members."""
        try:
            spec = self._judge_of(job_id).reader.models.spec(job_id)
        except _EVERYBODYS:
            raise
        except Exception:
            return _Progress()  # nothing of such a job can be recomputed
        for index in range(length - 1, -1, -1):
            if _is_point(index, spec.checkpoint_every, spec.rounds):
                entry = self._network.ledger_entry(job_id, index)
                if self._attested([(job_id, entry.new_model)]) == [True]:
                    return _Progress(index + 1, entry.head)
        return _Progress()

    def _attested(self, models: list[tuple[int, bytes]]) -> list[bool]:
        """Which of these models, by job and hash, the chain has as attested."""
        asked = [(self._network.ledger, "is_attested", one) for one in models]
        return [bool(found) for found in self._network.chain.call_many(asked)]

    # -- recomputing ---------------------------------------------------------------------------

    def _recompute(self, job_id: int, progress: _Progress, head: Head) -> None:
        entry = self._network.ledger_entry(job_id, progress.count)
        why, checkpoint = "", None
        try:
            judge = self._judge_of(job_id)
            view = observe(self._network, job_id, head, entry.round_id)
            takes = judge.takes_s(view)
            if takes > self._most_s:
                self._refuse(job_id, progress, "takes", takes)
                return
            wrong = judge.result_errors(view, patient=not self._left_out(judge, view, entry))
            spec = judge.reader.models.spec(job_id)
            if wrong == [] and _is_point(entry.index, spec.checkpoint_every, spec.rounds):
                checkpoint, wrong = self._checkpoint(judge, job_id, entry)
        except _EVERYBODYS:
            raise
        except (StoreError, PayloadError, SpecError) as error:
            wrong, why = None, f": {error}"
        except Exception as error:  # a stranger's job, which may be more than this machine can do
            wrong, why = None, f": {type(error).__name__}: {error}"
        if wrong is None:
            progress.pause = min(max(_PAUSE_S, 2 * progress.pause), _PAUSE_MAX_S)
            progress.not_before = self._clock() + progress.pause
            self._tell(job_id, f"round {entry.round_id} can't be recomputed, or not yet{why}")
            return
        progress.pause = progress.not_before = 0.0
        if wrong:
            progress.wrong = wrong[0]
            self._tell(job_id, f"the model of round {entry.round_id} is wrong: {wrong[0]}")
            return
        progress.count, progress.head = entry.index + 1, entry.head
        if checkpoint is not None:
            place = (job_id, entry.round_id, entry.new_model)
            progress.due.append(Attestation(*place, checkpoint, entry.head))

    def _refuse(self, job_id: int, progress: _Progress, takes: str, seconds: float) -> None:
        """Attest nothing more of a job of which one round takes too long."""
        progress.wrong = (
            f"a round of it {takes} {seconds / 3_600:.3g} hours to recompute, and "
            f"coordinator.attest_hours is {self._most_s / 3_600:.3g}"
        )
        self._tell(job_id, progress.wrong)

    def _left_out(self, judge: Judge, view: View, entry: LedgerEntry) -> bool:
        """Whether payloads can't be had, and only such as the round left out for just that: they
        may never come, and the model does not rest on them. What it rests on is all there."""
        submissions = judge.reader.submissions(view)
        shut = {one.reveal.node for one in submissions if one.unavailable}
        if not shut:
            return False
        try:
            report = judge.reader.models.report(entry.report)
        except ReportError:
            return False
        # The record of shards may be missing too.
        return report.shards is None and shut <= report.missing()

    def _checkpoint(
        self, judge: Judge, job_id: int, entry: LedgerEntry
    ) -> tuple[bytes | None, list[str] | None]:
        """The digest of the entry's checkpoint, and what is wrong with it; None: not known yet."""
        models = judge.reader.models
        try:
            cid = models.report(entry.report).checkpoint
            if cid is None:
                return None, ["its report names no checkpoint"]
            digest = digest_of(cid)
            read_model(models.job(job_id), models.store, digest, entry.new_model)
        except StoreUnavailable:
            raise
        except (WrongModel, PayloadError, ReportError) as error:
            return None, [str(error)]
        except StoreError:
            return None, None
        return digest, []


def _is_point(index: int, every: int, rounds: int) -> bool:
    """Whether the round at this place of the ledger publishes a checkpoint."""
    return (index + 1) % every == 0 or index + 1 >= rounds
