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
holds up no other job.

A member that computes for hours misses the deadlines of challenges and appeals, and a sponsor, or
who registers trainers, chooses how long a round takes. So a round that takes longer than a stated
time, by its spec and this member's speed, or because the one before it did by the clock, is left
until nothing else is to do; after it none of that kind is begun for as long as it took. One that
takes many times longer is not begun, and looked at again hours later: others may have attested a
later model by then, from which this member goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from agents.jobs.model_files import WrongModel, read_model
from agents.jobs.specs_beside import SpecComing
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
from agents.verify.own_speed import OwnSpeed

_PAUSE_S, _PAUSE_MAX_S = 2.0, 300.0
_MOST_S = 3_600.0  # that recomputing a round may take
_IDLE_TIMES = 12  # as long, if nothing else is to do; 64 trainers' gains take 11 times those of 4
_LONG_PAUSE_S = 6 * 3_600.0  # until a round that takes even longer is looked at again
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
        put_off: whether the next round takes too long, and waits until nothing else is to do.
        tried: when a round that was put off was last looked at.
        expected: seconds that the next round takes, by its spec.
        took: seconds that the last round took, if those were unforeseen; less at each long pause.
    """

    count: int = 0
    head: bytes = b""
    due: list[Attestation] = field(default_factory=list)
    wrong: str = ""
    pause: float = 0.0
    not_before: float = 0.0
    put_off: bool = False
    tried: float = 0.0
    expected: float = 0.0
    took: float = 0.0


class Attesting:
    """One member's attestations, of every job.

    `judge_of`: the recomputation of a job, made when it is first needed. `tell`: hears in a
    sentence, once, of a job and why its models are not attested. `most_s`: that a round may take.
    `speed`: the member's. `clock`: seconds.
    """

    def __init__(
        self,
        network: Network,
        judge_of: Callable[[int], Judge],
        tell: Callable[[int, str], None],
        most_s: float = _MOST_S,
        clock: Callable[[], float] = time.monotonic,
        speed: OwnSpeed | None = None,
    ) -> None:
        self._network = network
        self._judge_of = judge_of
        self._tell = tell
        self._most_s = most_s
        self._clock = clock
        self._speed = speed or OwnSpeed(clock)
        self._rest_until = 0.0  # before then no round is begun that was put off
        self._jobs: dict[int, _Progress] = {}

    def step(self, head: Head, idle: bool = True) -> list[Attestation]:
        """What is to be attested now; recomputes one round at most. `idle`: nothing else waits."""
        due: list[Attestation] = []
        worked = False
        put_off: list[tuple[int, int]] = []
        for job_id, heads in self._network.ledger_heads().items():
            length = len(heads)
            try:
                progress = self._progress(job_id, heads)
            except SpecComing:
                continue
            late = self._clock() >= progress.not_before
            if not progress.wrong and progress.count < length and late:
                if not worked and not progress.put_off:
                    worked = self._timed(job_id, progress, head)
                if progress.put_off:
                    put_off.append((job_id, length))
            attested = self._attested([(job_id, one.model) for one in progress.due])
            due += [one for one, done in zip(progress.due, attested, strict=True) if not done]
        if put_off and idle and not worked and self._clock() >= self._rest_until:
            job_id, length = min(put_off, key=lambda one: self._jobs[one[0]].tried)
            self._try_long(job_id, length, head)
        return due

    def _timed(self, job_id: int, progress: _Progress, head: Head, idle: bool = False) -> bool:
        """Recompute the next round of a job; False if it takes too long and is not begun."""
        began = self._clock()
        if not self._recompute(job_id, progress, head, idle):
            return False
        took = self._clock() - began
        if took > self._most_s:
            self._rest_until = self._clock() + took
        # What was long by its spec says nothing of the next one.
        unforeseen = took > self._most_s >= progress.expected
        progress.took = took if unforeseen else 0.0
        return True

    def _try_long(self, job_id: int, length: int, head: Head) -> None:
        """Recompute a round that was put off, if it does not take far too long, and no later model
        has been attested meanwhile."""
        progress = self._jobs[job_id]
        progress.tried = self._clock()
        ahead = self._begin(job_id, length)
        if ahead.count > progress.count:
            self._jobs[job_id] = replace(ahead, due=progress.due)
        elif not self._timed(job_id, progress, head, idle=True):
            progress.took /= 2
            progress.not_before = self._clock() + _LONG_PAUSE_S

    def _progress(self, job_id: int, heads: Sequence[bytes]) -> _Progress:
        found = self._jobs.get(job_id)
        known = found is not None and found.count <= len(heads)
        if found is None or not known or (found.count and heads[found.count - 1] != found.head):
            found = self._jobs[job_id] = self._begin(job_id, len(heads))
        return found

    def _begin(self, job_id: int, length: int) -> _Progress:
        """From the newest model that is attested already: who doubts that one doubts the word of
        a quorum of members. Raises SpecComing while what the job is read from is on its way."""
        try:
            spec = self._judge_of(job_id).reader.models.spec(job_id)
        except (SpecComing, *_EVERYBODYS):
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

    def _recompute(self, job_id: int, progress: _Progress, head: Head, idle: bool) -> bool:
        """Recompute the next round and note what came of it; False if it takes too long."""
        entry = self._network.ledger_entry(job_id, progress.count)
        why, checkpoint = "", None
        try:
            judge = self._judge_of(job_id)
            view = observe(self._network, job_id, head, entry.round_id)
            usual = judge.takes_s(view)
            if not self._may_begin(job_id, progress, usual, idle):
                return False
            patient = not self._left_out(judge, view, entry)
            compute = partial(judge.result_errors, view, patient=patient)
            wrong = self._speed.timed(job_id, entry.round_id, usual, compute)
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
            return True
        progress.pause = progress.not_before = 0.0
        progress.put_off = False
        if wrong:
            progress.wrong = wrong[0]
            self._tell(job_id, f"the model of round {entry.round_id} is wrong: {wrong[0]}")
            return True
        progress.count, progress.head = entry.index + 1, entry.head
        if checkpoint is not None:
            place = (job_id, entry.round_id, entry.new_model)
            progress.due.append(Attestation(*place, checkpoint, entry.head))
        return True

    def _may_begin(self, job_id: int, progress: _Progress, usual: float, idle: bool) -> bool:
        """Whether the next round of a job, which takes so many seconds at the usual speed, is begun
        now; else it is put off."""
        progress.expected = self._speed.expected(job_id, usual)
        takes = max(progress.expected, progress.took)
        if takes <= self._most_s:
            progress.put_off = False
            return True
        far = takes > _IDLE_TIMES * self._most_s
        if not progress.put_off or far:
            later = "looked at again in hours" if far else "left until nothing else is to do"
            self._tell(
                job_id,
                f"a round of it takes {takes / 3_600:.3g} hours to recompute, and "
                f"coordinator.attest_hours is {self._most_s / 3_600:.3g}: {later}",
            )
        progress.put_off = True
        return idle and not far

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
            read_model(models.job(job_id), models.large, digest, entry.new_model)
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
