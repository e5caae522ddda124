# SPDX-License-Identifier: Apache-2.0
"""What a miner of a split model revealed, fetched and checked: payload, log and entries.

Rule: a miner that shows no log, or no entries, can't be checked by anybody, so its payload counts
as unavailable until it does. The log's root must be the committed one. A miner of the last stage
must state the loss of each sample that its log has forward. Whether a loss is true is for
re-execution to tell. A payload that is more than an epoch's steps can have made is none
(`agents.rounds.stage_bound`). Where the job lists determinism classes, the proof must state one of
them. The bytes of all of it are bounded before they are read: the log by what the epoch can hold,
the entries by the log. Entries may still be gigabytes, so nobody holds them: a reader takes them
one by one as they come, and keeps what `Received` has of each.

Where epochs are audited by segments, the audit seed draws one of every miner's log, and what it
takes to do that one again must be there too: the state before it and the weights at the end. Where
verifiers may be of another determinism class, so must the state after it. What is not there makes
the payload unavailable, whoever is drawn for an audit. So who withholds a state, once it knows
which one is asked for, is not paid. What is there must be what the log binds, and the payload
exactly the change to the last weights. States are read one after the other, and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.jobs.classes import unlisted
from agents.jobs.job import JobContext
from agents.pipeline.checkpoint import joined_shapes, parted, published, state_hash
from agents.pipeline.clasp import loss_digest
from agents.pipeline.epoch import Epoch
from agents.pipeline.inbox import Entry, EntryReader, Received, max_inbox_bytes
from agents.pipeline.miner_log import Kind, MinerLog, Origin, Segment, max_log_bytes
from agents.pipeline.stored_entries import ScratchEntries
from agents.pipeline.trail import trail_bytes
from agents.pipeline.work import change
from agents.protocol.structs import Reveal
from agents.rounds.payload import read_payload
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation, max_proof_bytes
from agents.rounds.report import UNAVAILABLE
from agents.rounds.stage_bound import check_bound
from agents.rounds.submissions import Submission
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable, TooLarge
from agents.training.state import PayloadError, State, file_bound, load_state, model_hash

_REASON = 300

Begin = Callable[[], Callable[[Entry], object]]
"""Called where a miner's entries begin, or begin anew; gives what takes them, one by one."""


@dataclass(frozen=True)
class Mined(Submission):
    """A miner's submission. `gradient` has the tensors of its stage only.

    `log` and `proof` are None where there is no gradient. `received`: its entries without their
    bytes, which `stream_inbox` and `read_inbox` read again. `segment`: what of its log an audit
    does again; None for all of it.
    """

    stage: int = 0
    log: MinerLog | None = None
    received: tuple[Received, ...] = ()
    proof: ProofOfComputation | None = None
    segment: Segment | None = None
    states: tuple[str, ...] = ()

    @property
    def beside(self) -> tuple[bytes, ...]:
        """Digests of proof, log, entries and states; none where there is no gradient."""
        if self.gradient is None or self.proof is None or self.proof.inbox is None:
            return ()
        named = self.proof.trace, self.proof.inbox, *self.states
        return self.reveal.proof, *map(digest_of, named)


def max_message_bytes(job: JobContext) -> int:
    """Bytes that a message between two miners of this job has at most."""
    assert job.slices is not None
    optimizer = job.spec.optimizer
    return job.slices.message_bytes(optimizer.batch_size, optimizer.seq_len)


def max_events(epoch: Epoch) -> int:
    """Events of a miner's log: each sample there and back once, with a step after each."""
    return 3 * len(epoch.samples)


def fetch_mined(
    reveal: Reveal,
    job: JobContext,
    store: ContentStore,
    plan: Plan,
    before: State,
    audit_seed: bytes | None = None,
) -> Mined:
    """Fetch and check a miner's artefacts. Raises StoreUnavailable when the store itself is down.

    `plan`: of the round, with an epoch. `before`: the miner's stage at the epoch's start.
    `audit_seed`: of the round, where epochs are audited by segments; None while it is not known.
    """
    epoch, codec = plan.epoch, job.codec_at(plan.step)
    assert epoch is not None
    stage = epoch.stage_of(reveal.node)
    if stage is None:
        return Mined(reveal, None, "wrong input: it holds no stage in this epoch")
    if job.spec.segment and audit_seed is None:
        return Mined(reveal, None, f"{UNAVAILABLE}the audit seed is not known yet", stage)
    shapes = job.stage_shapes(stage)
    segment: Segment | None = None
    states: tuple[str, ...] = ()
    try:
        raw = store.get_digest(reveal.content, codec.wire_size(shapes))
        gradient = read_payload(raw, codec, shapes, plan.codec_seed(codec, reveal.node))
        check_bound(job, plan, stage, gradient, before)
        proof = _read_proof(reveal, job, epoch, stage, store)
        foreign = unlisted(job.spec, proof.determinism_class)
        if foreign:
            raise PayloadError(foreign)
        events = max_events(epoch)
        origin = Origin(reveal.node, epoch.number, stage, _first_state(job, model_hash(before)))
        log = MinerLog.from_bytes(store.get(proof.trace, max_log_bytes(events)), origin, events)
        if log.root() != reveal.trace_root:
            raise PayloadError("the log has not the root that was committed to")
        samples = _forward(log) if stage == epoch.last else []
        if [sample for sample, _ in proof.losses] != samples:
            raise PayloadError("the proof does not state the losses of exactly the log's samples")
        if stage == epoch.last and (false := _unbound(log, dict(proof.losses))) is not None:
            raise PayloadError(f"the proof states another loss of sample {false} than its log")
        if proof.inbox is None:
            raise PayloadError("the proof names no entries")
        received = _received(proof.inbox, job, epoch, stage, log, store)
        if audit_seed is not None and job.spec.segment:
            segment = log.segment(audit_seed, job.spec.segment)
            place = before, gradient, log, proof, stage, segment
            states = _check_states(job, *place, store)
    except StoreUnavailable:
        raise
    except TooLarge as error:
        return Mined(reveal, None, f"too large: {error}"[:_REASON], stage)
    except StoreError as error:
        return Mined(reveal, None, f"{UNAVAILABLE}{error}"[:_REASON], stage)
    except PayloadError as error:
        return Mined(reveal, None, f"bad payload: {error}"[:_REASON], stage)
    return Mined(reveal, gradient, "", stage, log, received, proof, segment, states)


def fetch_log(
    reveal: Reveal,
    job: JobContext,
    store: ContentStore,
    epoch: Epoch,
    start: bytes | None = None,
) -> Mined:
    """A miner's log alone, for an owner of shards, who wants to know whose passes count.

    It reads neither payload nor entries. `start`: hash of the miner's stage at the epoch's start;
    who trains another stage knows none, and takes the one that the log states.
    """
    stage = epoch.stage_of(reveal.node)
    if stage is None:
        return Mined(reveal, None, "wrong input: it holds no stage in this epoch")
    try:
        proof = _read_proof(reveal, job, epoch, stage, store)
        events = max_events(epoch)
        raw = store.get(proof.trace, max_log_bytes(events))
        state = MinerLog.state_in(raw) if start is None else _first_state(job, start)
        origin = Origin(reveal.node, epoch.number, stage, state)
        log = MinerLog.from_bytes(raw, origin, events)
        if log.root() != reveal.trace_root:
            raise PayloadError("the log has not the root that was committed to")
    except StoreUnavailable:
        raise
    except StoreError as error:
        return Mined(reveal, None, f"{UNAVAILABLE}{error}"[:_REASON], stage)
    except PayloadError as error:
        return Mined(reveal, None, f"bad payload: {error}"[:_REASON], stage)
    return Mined(reveal, None, "", stage, log)


def read_inbox(mined: Mined, job: JobContext, epoch: Epoch, store: ContentStore) -> ScratchEntries:
    """The entries of a miner that was fetched and found good, on disk. Whoever has looked at them
    closes them: they may take as much room as `max_inbox_bytes`. Raises StoreError."""
    found = ScratchEntries()
    try:
        stream_inbox(mined, job, epoch, store, found.begin)
    except BaseException:
        found.close()
        raise
    return found


def stream_inbox(
    mined: Mined, job: JobContext, epoch: Epoch, store: ContentStore, begin: Begin
) -> None:
    """Give the entries of such a miner to what `begin` returns. It may be called again, and what
    came before is void then, as it is where this raises. Raises StoreError."""
    assert mined.log is not None and mined.proof is not None and mined.proof.inbox is not None
    _stream(mined.proof.inbox, job, epoch, mined.stage, mined.log, store, begin)


def read_state(
    mined: Mined, job: JobContext, store: ContentStore, index: int
) -> tuple[State, State]:
    """Weights and optimizer after segment 0.. of a miner that was fetched and found good.

    Raises StoreError, or PayloadError for a file that is no such state.
    """
    assert mined.proof is not None
    return _read_state(job, mined.stage, mined.proof, index, store)


def last_weights(mined: Mined, job: JobContext, store: ContentStore) -> State:
    """The weights that such a miner ended with, after a step at least. Raises as `read_state`."""
    assert mined.proof is not None and mined.proof.weights is not None
    return _read_weights(job, mined.stage, mined.proof.weights, store)


def _first_state(job: JobContext, weights: bytes) -> bytes:
    """What a log starts from. `weights`: the hash of the stage at the epoch's start."""
    return state_hash(weights) if job.spec.segment else weights


def _read_proof(
    reveal: Reveal, job: JobContext, epoch: Epoch, stage: int, store: ContentStore
) -> ProofOfComputation:
    samples = len(epoch.samples)
    most = samples if stage == epoch.last else 0, samples if job.spec.segment else 0
    told = store.get_digest(reveal.proof, max_proof_bytes(*most))
    return ProofOfComputation.from_bytes(told, *most)


def _check_states(
    job: JobContext,
    before: State,
    gradient: State,
    log: MinerLog,
    proof: ProofOfComputation,
    stage: int,
    segment: Segment,
    store: ContentStore,
) -> tuple[str, ...]:
    """The CIDs of what it takes to do a segment again, each of which was read.

    PayloadError for a state that the log does not bind, or a payload that is not the change to what
    the epoch ended with.
    """
    length, steps = job.spec.segment, len(log.steps)
    if len(proof.states) != published(steps, length):
        raise PayloadError(f"the proof names {len(proof.states)} states of {steps} steps")
    if not steps:
        _check_change(before, before, gradient)
        return ()
    if proof.weights is None or proof.optimizer is None:
        raise PayloadError("the proof names no weights at the end of the epoch")
    needed = [segment.index - 1] if segment.index else []
    if not segment.ends and len(job.spec.classes) != 1:
        needed.append(segment.index)
    for index in needed:
        weights, optimizer = _read_state(job, stage, proof, index, store)
        found = state_hash(model_hash(weights), model_hash(optimizer))
        if found != log.state_after((index + 1) * length):
            raise PayloadError(f"the state after segment {index} is not the one in its log")
    last = _read_weights(job, stage, proof.weights, store)
    if state_hash(model_hash(last), bytes.fromhex(proof.optimizer)) != log.state:
        raise PayloadError("the weights at the end of the epoch are not those in its log")
    _check_change(before, last, gradient)
    return (*(proof.states[index] for index in needed), proof.weights)


def _check_change(before: State, last: State, gradient: State) -> None:
    """PayloadError unless a payload is the change between two states, in every class to the bit."""
    if model_hash(change(before, last)) != model_hash(gradient):
        raise PayloadError("it is not the change to the weights at the end of the epoch")


def _read_state(
    job: JobContext, stage: int, proof: ProofOfComputation, index: int, store: ContentStore
) -> tuple[State, State]:
    shapes = joined_shapes(job.stage_shapes(stage), job.optimizer_shapes(stage))
    return parted(load_state(store.get(proof.states[index], file_bound(shapes)), shapes))


def _read_weights(job: JobContext, stage: int, cid: str, store: ContentStore) -> State:
    shapes = job.stage_shapes(stage)
    return load_state(store.get(cid, file_bound(shapes)), shapes)


def _received(
    cid: str, job: JobContext, epoch: Epoch, stage: int, log: MinerLog, store: ContentStore
) -> tuple[Received, ...]:
    found: list[Received] = []

    def begin() -> Callable[[Entry], None]:
        found.clear()
        return lambda entry: found.append(entry.received())

    _stream(cid, job, epoch, stage, log, store, begin)
    return tuple(found)


def _stream(
    cid: str,
    job: JobContext,
    epoch: Epoch,
    stage: int,
    log: MinerLog,
    store: ContentStore,
    begin: Begin,
) -> None:
    message = max_message_bytes(job)
    longest = max_inbox_bytes(_came_in(epoch, stage, log, message))
    reader = EntryReader(begin, message, max_events(epoch))
    store.stream(cid, reader, longest)
    reader.check()


def _forward(log: MinerLog) -> list[int]:
    """The samples that a log has forward, ascending."""
    return sorted(event.number for event in log.events if event.kind is Kind.FORWARD)


def _unbound(log: MinerLog, losses: Mapping[int, int]) -> int | None:
    """The first sample, in the log's order, whose stated loss is not the one that the log binds."""
    forward = (event for event in log.events if event.kind is Kind.FORWARD)
    return next((e.number for e in forward if e.digest_out != loss_digest(losses[e.number])), None)


def _came_in(epoch: Epoch, stage: int, log: MinerLog, longest: int) -> list[int]:
    """Bytes that the entry of each event may have: none where nothing comes in."""
    brings = {
        kind: trail_bytes(stage, kind) + longest
        for kind in (Kind.FORWARD, Kind.BACKWARD)
        if epoch.source_of(stage, kind) is not None
    }
    return [brings.get(event.kind, 0) for event in log.events]
