# SPDX-License-Identifier: Apache-2.0
"""What a miner of a split model revealed, fetched and checked: payload, log and entries.

Rule: a miner that shows no log, or no entries, can't be checked by anybody, so its payload counts
as unavailable until it does. The log's root must be the committed one. A miner of the last stage
must state the loss of each sample that its log has forward. Whether a loss is true is for
re-execution to tell. Where the job lists determinism classes, the proof must state one of them. The
bytes of all of it are bounded before they are read: the log by what the epoch can hold, the entries
by the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.jobs.classes import unlisted
from agents.jobs.job import JobContext
from agents.pipeline.epoch import Epoch
from agents.pipeline.inbox import Inbox, Received, max_inbox_bytes
from agents.pipeline.miner_log import Kind, MinerLog, Origin, max_log_bytes
from agents.pipeline.trail import trail_bytes
from agents.protocol.structs import Reveal
from agents.rounds.payload import read_payload
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation, max_proof_bytes
from agents.rounds.report import UNAVAILABLE
from agents.rounds.submissions import Submission
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable, TooLarge
from agents.training.state import PayloadError

_REASON = 300


@dataclass(frozen=True)
class Mined(Submission):
    """A miner's submission. `gradient` has the tensors of its stage only.

    `log` and `proof` are None where there is no gradient. `received`: its entries without their
    bytes, which `read_inbox` reads again.
    """

    stage: int = 0
    log: MinerLog | None = None
    received: tuple[Received, ...] = ()
    proof: ProofOfComputation | None = None

    @property
    def beside(self) -> tuple[bytes, ...]:
        """Digests of proof, log and entries; none where there is no gradient."""
        if self.gradient is None or self.proof is None or self.proof.inbox is None:
            return ()
        return self.reveal.proof, digest_of(self.proof.trace), digest_of(self.proof.inbox)


def max_message_bytes(job: JobContext) -> int:
    """Bytes that a message between two miners of this job has at most."""
    assert job.slices is not None
    optimizer = job.spec.optimizer
    return job.slices.message_bytes(optimizer.batch_size, optimizer.seq_len)


def max_events(epoch: Epoch) -> int:
    """Events of a miner's log: each sample there and back once, with a step after each."""
    return 3 * len(epoch.samples)


def fetch_mined(
    reveal: Reveal, job: JobContext, store: ContentStore, plan: Plan, start: bytes
) -> Mined:
    """Fetch and check a miner's artefacts. Raises StoreUnavailable when the store itself is down.

    `plan`: of the round, with an epoch. `start`: hash of the miner's stage at the epoch's start.
    """
    epoch, codec = plan.epoch, job.codec_at(plan.step)
    assert epoch is not None
    stage = epoch.stage_of(reveal.node)
    if stage is None:
        return Mined(reveal, None, "wrong input: it holds no stage in this epoch")
    shapes = job.stage_shapes(stage)
    try:
        raw = store.get_digest(reveal.content, codec.wire_size(shapes))
        gradient = read_payload(raw, codec, shapes, plan.codec_seed(codec, reveal.node))
        most = len(epoch.samples) if stage == epoch.last else 0
        told = store.get_digest(reveal.proof, max_proof_bytes(most))
        proof = ProofOfComputation.from_bytes(told, most)
        foreign = unlisted(job.spec, proof.determinism_class)
        if foreign:
            raise PayloadError(foreign)
        events = max_events(epoch)
        origin = Origin(reveal.node, epoch.number, stage, start)
        log = MinerLog.from_bytes(store.get(proof.trace, max_log_bytes(events)), origin, events)
        if log.root() != reveal.trace_root:
            raise PayloadError("the log has not the root that was committed to")
        if [sample for sample, _ in proof.losses] != (_forward(log) if most else []):
            raise PayloadError("the proof does not state the losses of exactly the log's samples")
        if proof.inbox is None:
            raise PayloadError("the proof names no entries")
        entries = _read(proof.inbox, job, epoch, stage, log, store).entries
        received = tuple(entry.received() for entry in entries)
    except StoreUnavailable:
        raise
    except TooLarge as error:
        return Mined(reveal, None, f"too large: {error}"[:_REASON], stage)
    except StoreError as error:
        return Mined(reveal, None, f"{UNAVAILABLE}{error}"[:_REASON], stage)
    except PayloadError as error:
        return Mined(reveal, None, f"bad payload: {error}"[:_REASON], stage)
    return Mined(reveal, gradient, "", stage, log, received, proof)


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
        most = len(epoch.samples) if stage == epoch.last else 0
        told = store.get_digest(reveal.proof, max_proof_bytes(most))
        proof = ProofOfComputation.from_bytes(told, most)
        events = max_events(epoch)
        raw = store.get(proof.trace, max_log_bytes(events))
        state = MinerLog.state_in(raw) if start is None else start
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


def read_inbox(mined: Mined, job: JobContext, epoch: Epoch, store: ContentStore) -> Inbox:
    """The entries of a miner that was fetched and found good. Raises StoreError."""
    assert mined.log is not None and mined.proof is not None and mined.proof.inbox is not None
    return _read(mined.proof.inbox, job, epoch, mined.stage, mined.log, store)


def _read(
    cid: str, job: JobContext, epoch: Epoch, stage: int, log: MinerLog, store: ContentStore
) -> Inbox:
    message = max_message_bytes(job)
    longest = max_inbox_bytes(_came_in(epoch, stage, log, message))
    return Inbox.from_bytes(store.get(cid, longest), message, max_events(epoch))


def _forward(log: MinerLog) -> list[int]:
    """The samples that a log has forward, ascending."""
    return sorted(event.number for event in log.events if event.kind is Kind.FORWARD)


def _came_in(epoch: Epoch, stage: int, log: MinerLog, longest: int) -> list[int]:
    """Bytes that the entry of each event may have: none where nothing comes in."""
    brings = {
        kind: trail_bytes(stage, kind) + longest
        for kind in (Kind.FORWARD, Kind.BACKWARD)
        if epoch.source_of(stage, kind) is not None
    }
    return [brings.get(event.kind, 0) for event in log.events]
