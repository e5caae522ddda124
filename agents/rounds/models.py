# SPDX-License-Identifier: Apache-2.0
"""The exact model of a job, at any finalized round, from chain and store alone.

Rule: start from the newest full checkpoint at or before the wanted round, apply the published
updates one by one, and compare the model hash with the ledger after each. Reports are read from the
wanted round backwards, and none from before the start: an old one may be gone for good. A model
whose hash is not the ledger's is never returned. A model kept in memory is hashed again whenever it
is asked for. If it has changed, the node drops it and builds it again from chain and store.

Of a model that is split, one stage can be asked for alone: then no file of another stage is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agents.jobs.job import DataKeys, JobContext, JobContexts
from agents.jobs.model_files import Reader, WrongModel, changed, read_model
from agents.mechanisms.options import MAX_MEMORY_ROUNDS
from agents.protocol.network import Network
from agents.protocol.structs import LedgerEntry
from agents.rounds.large_files import StillComing
from agents.rounds.report import MAX_REPORT_BYTES, RoundReport
from agents.runtime.newest import Newest
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import CorruptContent, StoreError, StoreUnavailable
from agents.training.spec import JobSpec
from agents.training.state import PayloadError, State, model_hash, numbers_in

_KEPT = 3
# A re-execution may look back over MAX_MEMORY_ROUNDS of a job. A report of 64 nodes takes 83 KB.
_REPORTS_KEPT = 2 * MAX_MEMORY_ROUNDS
_Place = tuple[bytes, int | None]  # a model's hash, and which stage of it; None: the whole of it


@dataclass(frozen=True)
class CaughtUp:
    """How a model was rebuilt.

    `start`: how many rounds were final at the model it was rebuilt from (0: genesis). `replayed`:
    updates applied since. `damaged`: hashes of kept copies that had changed and were dropped.
    """

    job_id: int
    model: bytes
    start: int
    replayed: int
    damaged: tuple[bytes, ...]


def _unheard(caught_up: CaughtUp) -> None:
    pass


class Models:
    """Reads specs, reports and models of jobs; keeps the last few models and reports in memory.

    Attributes:
        largest: numbers in the largest model, or stage of one, that was ever held.
        large: by what checkpoints, updates and the job's text are read.
    """

    def __init__(
        self,
        network: Network,
        store: ContentStore,
        key_of: Callable[[int], DataKeys | None] | None = None,
        tell: Callable[[CaughtUp], None] = _unheard,
        memory: int | None = None,
        large: Reader | None = None,
    ) -> None:
        """`key_of`: the keys of a job's encrypted data by the job's id, None while none is held.

        `tell`: called when a model was rebuilt, unless that was one round's ordinary step.

        `memory`: bytes that a job may take, see JobContext.

        `large`: by what checkpoints, updates and the job's text are read, by default `store`; an
        agent whose loop must not wait for them gives `LargeFiles`.
        """
        self._network = network
        self._tell = tell
        self._damaged: list[bytes] = []
        self._store = store
        self.large: Reader = large or store
        self._jobs = JobContexts(network, store, key_of, memory, large)
        self._states: dict[_Place, tuple[State, bytes]] = {}  # with the hash of what is kept
        self._reports: Newest[bytes, RoundReport] = Newest(_REPORTS_KEPT)
        self.largest = 0

    def job(self, job_id: int) -> JobContext:
        """The job's fixed facts. Raises SpecError, StoreError."""
        return self._jobs.context(job_id)

    def fetch(self, spec: bytes) -> None:
        """Have the store get what a job is read from, by the digest of its spec, in any thread.
        Raises SpecError, StoreError."""
        self._jobs.fetch(spec)

    def spec(self, job_id: int) -> JobSpec:
        """The job's spec. Raises SpecError, StoreError."""
        return self.job(job_id).spec

    def report(self, digest: bytes) -> RoundReport:
        """A round's report by the digest on chain. Raises ReportError, StoreError."""

        def read() -> RoundReport:
            return RoundReport.from_bytes(self._store.get_digest(digest, MAX_REPORT_BYTES))

        return self._reports.of(digest, read)

    @property
    def store(self) -> ContentStore:
        """Where the artefacts are."""
        return self._store

    def genesis(self, job_id: int) -> bytes:
        """Hash of the model that the job's first round starts from."""
        return self._network.job(job_id).terms.genesis_model

    def ledger(self, job_id: int) -> Iterator[LedgerEntry]:
        """What the chain records of the job's finalized rounds, oldest first."""
        for index in range(self._network.ledger_length(job_id)):
            yield self._network.ledger_entry(job_id, index)

    def current(self, job_id: int) -> State:
        """The model that the next round starts from (or the running one started from)."""
        return self.at(job_id, self._network.job(job_id).model)

    def _remember(self, place: _Place, state: State) -> None:
        self._states[place] = state, model_hash(state)
        self.largest = max(self.largest, numbers_in(state))
        while len(self._states) > _KEPT:
            del self._states[next(iter(self._states))]

    def _recall(self, place: _Place) -> State | None:
        """The copy in memory, if there is one and it still is that model."""
        state, known = self._states.get(place, ({}, b""))
        if known and model_hash(state) != known:
            del self._states[place]
            self._damaged.append(place[0])
            return None
        return state if known else None

    def at(self, job_id: int, wanted: bytes, stage: int | None = None) -> State:
        """The model of hash `wanted`: the genesis model or one that the ledger records.

        `stage`: the tensors of this stage only, of a model that is split.

        Raises StoreError when an artefact can't be had, CorruptContent when the published
        artefacts don't lead to the recorded hash, PayloadError for malformed ones.
        """
        kept = self._recall((wanted, stage))
        if kept is not None:
            return kept
        terms = self._network.job(job_id).terms
        hashes, reports = [terms.genesis_model], list[bytes]()
        for entry in self.ledger(job_id):
            if hashes[-1] == wanted:
                break
            hashes.append(entry.new_model)
            reports.append(entry.report)
        if hashes[-1] != wanted:
            raise CorruptContent(
                f"job {job_id} has no model {wanted.hex()} in its ledger; the chain has moved"
            )
        start, state = self._start(job_id, terms.genesis_checkpoint, hashes, reports, stage)
        job = self.job(job_id)
        for index in range(start, len(reports)):
            report, rate = self.report(reports[index]), job.spec.outer_lr_at(index)
            after = hashes[index + 1]
            try:
                state = changed(job, self.large, report.update, state, rate, after, stage)
            except WrongModel as error:
                raise _lie(f"update {report.update} of round {report.round}", error) from error
        self._remember((wanted, stage), state)
        replayed = len(reports) - start
        if self._damaged or replayed > 1:
            self._tell(CaughtUp(job_id, wanted, start, replayed, tuple(self._damaged)))
        self._damaged.clear()
        return state

    def _start(
        self,
        job_id: int,
        genesis: bytes,
        hashes: list[bytes],
        reports: list[bytes],
        stage: int | None,
    ) -> tuple[int, State]:
        """(i, model hashes[i]) for the greatest i that is in memory or has a usable checkpoint.

        `reports`: their digests; that of place i says what led from hashes[i] to the next.
        """
        for index in range(len(hashes) - 1, 0, -1):
            kept = self._recall((hashes[index], stage))
            if kept is not None:
                return index, kept
            # Without this report no older model leads to the wanted one: what it raises is raised.
            checkpoint = self.report(reports[index - 1]).checkpoint
            if checkpoint is None:
                continue
            try:
                return index, self._load(job_id, digest_of(checkpoint), hashes[index], stage)
            except (StoreUnavailable, StillComing):
                raise
            except (StoreError, PayloadError):
                continue  # lost or wrong: an older start and the updates lead to the same hash
        kept = self._recall((hashes[0], stage))
        return 0, self._load(job_id, genesis, hashes[0], stage) if kept is None else kept

    def _load(self, job_id: int, digest: bytes, wanted: bytes, stage: int | None) -> State:
        try:
            return read_model(self.job(job_id), self.large, digest, wanted, stage)
        except WrongModel as error:
            raise _lie(f"checkpoint {digest.hex()}", error) from error


def _lie(what: str, error: WrongModel) -> CorruptContent:
    return CorruptContent(
        f"{what} is not what the chain records: {error}; whoever published it lied, or the job "
        "spec is not the one it was made with"
    )
