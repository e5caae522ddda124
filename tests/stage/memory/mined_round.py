# SPDX-License-Identifier: Apache-2.0
"""A round of a tiny split model: three stages, two miners each, all in one process.

Samples pass between the miners' `StageWork`s one after the other. Each hand-over is signed as a
letter is. A miner cheats either in what it sends (`sent` of `work_through`) or in what it shows
(`MinedRound.submit`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from eth_account import Account
from eth_utils import keccak

from agents.pipeline import assignment as seating
from agents.pipeline.checkpoint import published
from agents.pipeline.clasp import loss_digest, stated
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.letters import domain, passage_signer, sign_passage
from agents.pipeline.miner_log import Kind, MinerLog
from agents.pipeline.trail import trail_from
from agents.pipeline.work import StageWork, change
from agents.protocol.structs import Reveal
from agents.rounds.mined import Mined, fetch_mined
from agents.rounds.outcome import Outcome
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.submissions import Submission
from agents.runtime.wallet import Wallet
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import task_id
from agents.training.determinism import determinism_class
from agents.training.spec import Hyperparameters
from agents.training.state import State, model_hash, save_state
from agents.verify.spot_checks import RoundInputs
from tests.stage.memory.honest_round import (
    AUDIT_SEED,
    DEVICE,
    JOB,
    ROUND,
    SEED,
    TinyJob,
    make_tiny_job,
)
from tests.stage.memory.tiny_specs import tiny_model

MINERS = (2, 3, 5, 7, 8, 9)
WHERE = domain(31_337, "0x" + "11" * 20)
PIPELINE: dict[str, Any] = {
    "layers": [1, 1, 1],
    "boundary_options": {"width": 4},
    "local_batch": 2,
}
OTHER_CLASS = "torch=0;device=abacus"
"""A determinism class that no verifier is of."""
_SPEC: dict[str, Any] = {
    "mode": "pipeline",
    "score": "backward_passes",
    "merge": "mean",
    "model": {**tiny_model(8, 16, 16, layers=3), "tie_embeddings": False},
    "optimizer": {"batch_size": 2, "seq_len": 16, "lr": 1e-2},
    "pipeline": PIPELINE,
    "batches_per_round": 12,
}

# What a miner sends in place of the message of a passage.
Sent = Callable[[Passage, bytes], bytes]
# Passages of one epoch are signed by their senders' operators.
WALLETS = {node: Wallet(Account.from_key(keccak(text=f"miner {node}"))) for node in range(2, 17)}


def as_it_is(passage: Passage, message: bytes) -> bytes:
    return message


def signed(passage: Passage, digest: bytes, signature: bytes) -> bool:
    """What `RoundReader` would say: whether the sender's operator signed."""
    signer = passage_signer(WHERE, passage, digest, signature)
    return signer is not None and signer == WALLETS[passage.sender].address


@dataclass(frozen=True)
class MinerWork:
    """A miner's epoch, before anything of it is published."""

    node: int
    stage: int
    entries: tuple[Entry, ...]
    log: MinerLog
    change: State
    losses: tuple[tuple[int, int], ...]
    states: tuple[State, ...] = ()
    last: State = field(default_factory=dict)
    optimizer: State = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """What a miner publishes. `root`: what it committed to as the log's. `states`, `weights`,
    `optimizer`: as the proof names them, where epochs are audited by segments."""

    payload: bytes
    trace: bytes
    root: bytes
    inbox: bytes
    losses: tuple[tuple[int, int], ...]
    busy_ms: int | None = None
    determinism: str = ""
    memory: int | None = None
    states: tuple[bytes, ...] = ()
    weights: bytes | None = None
    optimizer: str | None = None


def told(log: MinerLog, losses: Mapping[int, int]) -> MinerLog:
    """The log of a miner of the last stage that states these losses."""
    events = [
        replace(event, digest_out=loss_digest(losses[event.number]))
        if event.kind is Kind.FORWARD and event.number in losses
        else event
        for event in log.events
    ]
    return replace(log, events=tuple(events))


@dataclass(frozen=True)
class MinedRound(TinyJob):
    """The job's first round, and the work of those who were there."""

    plan: Plan
    works: Mapping[int, MinerWork]

    def encode(self, gradient: State) -> bytes:
        return self.job.codec.encode(gradient, None, b"")

    def shown(self, node: int) -> Shown:
        """What a miner publishes that is honest about what it did."""
        work = self.works[node]
        log, inbox = work.log, Inbox(work.entries).to_bytes()
        shown = Shown(self.encode(work.change), log.to_bytes(), log.root(), inbox, work.losses)
        if not self.job.spec.segment or not log.steps:
            return shown
        optimizer = model_hash(work.optimizer).hex()
        states = tuple(save_state(state) for state in work.states)
        last = save_state(work.last)
        return replace(shown, states=states, weights=last, optimizer=optimizer)

    def submit(
        self,
        node: int,
        missing: str = "",
        withheld: Collection[int] = (),
        audit_seed: bytes = AUDIT_SEED,
        **changes: Any,
    ) -> Mined:
        """Publish and fetch again. `changes`: fields of `Shown`. `missing`: the field of the one
        that is not published. `withheld`: places of states that are not; -1 for the last weights.
        Other `losses` are committed to, unless another log is shown.
        """
        if "losses" in changes and "trace" not in changes:
            log = told(self.works[node].log, dict(changes["losses"]))
            changes |= {"trace": log.to_bytes(), "root": log.root()}
        shown = replace(self.shown(node), **changes)
        if missing:
            shown = replace(shown, **{missing: f"never published: {missing}".encode()})
        proof = ProofOfComputation(
            node=node,
            task=task_id(JOB, self.plan.step, node).hex(),
            gradient_hash=model_hash(self.works[node].change).hex(),
            trace_root=shown.root.hex(),
            trace=cid_of_bytes(shown.trace),
            steps=len(self.works[node].log.steps),
            compute_time_ms=50,
            determinism_class=shown.determinism or determinism_class(DEVICE),
            busy_ms=shown.busy_ms,
            inbox=cid_of_bytes(shown.inbox),
            losses=shown.losses,
            memory=shown.memory,
            states=tuple(map(cid_of_bytes, shown.states)),
            weights=None if shown.weights is None else cid_of_bytes(shown.weights),
            optimizer=shown.optimizer,
        ).to_bytes()
        for place, state in enumerate(shown.states):
            if place not in withheld:
                self.store.put_bytes(state)
        if shown.weights is not None and -1 not in withheld:
            self.store.put_bytes(shown.weights)
        for name in {"payload", "trace", "inbox"} - {missing}:
            self.store.put_bytes(getattr(shown, name))
        self.store.put_bytes(proof)
        digests = [digest_of(cid_of_bytes(raw)) for raw in (shown.payload, proof)]
        reveal = Reveal(
            node=node,
            input_root=b"\0" * 32,
            content=digests[0],
            trace_root=shown.root,
            proof=digests[1],
        )
        return self.fetch(reveal, audit_seed)

    def fetch(self, reveal: Reveal, audit_seed: bytes | None = AUDIT_SEED) -> Mined:
        """`submit` without publishing."""
        epoch = self.plan.epoch
        assert epoch is not None
        stage = epoch.stage_of(reveal.node)
        before = {} if stage is None else stage_before(self, stage)
        return fetch_mined(reveal, self.job, self.store, self.plan, before, audit_seed)

    def honest(self, without: Collection[int] = ()) -> list[Mined]:
        return [self.submit(node) for node in sorted(self.works.keys() - set(without))]

    def compute(self, submissions: Sequence[Submission]) -> Outcome:
        return self.outcome_of(self.plan, submissions)

    def inputs(self, submissions: Sequence[Submission], sample: int = 0) -> RoundInputs:
        """What a verifier's spot checks start from; `sample`: how many miners are drawn."""
        return replace(self.inputs_of(self.plan, submissions, sample=sample), signed=signed)


def copied(state: State) -> State:
    return {name: tensor.clone() for name, tensor in state.items()}


def stage_before(tiny: TinyJob, stage: int) -> State:
    """A stage's weights when the round starts."""
    return {name: tiny.before[name] for name in tiny.job.stage_shapes(stage)}


def make_mined_job(
    store: EmbeddedStore, miners: Sequence[int] = MINERS, **changes: Any
) -> tuple[TinyJob, Plan]:
    """The job and its first round's plan. `changes`: fields of the spec. Where it needs a list of
    classes, it takes this machine's and `OTHER_CLASS`."""
    fields = {**_SPEC, **changes}
    block = fields["pipeline"]
    if block.get("segment") or "codec" in block.get("sharing", {}):
        fields = {"classes": [determinism_class(DEVICE), OTHER_CLASS], **fields}
    tiny = make_tiny_job(store, **fields)
    spec = tiny.job.spec
    assert spec.pipeline is not None
    samples, stages = range(spec.batches_per_round), len(spec.pipeline.layers)
    epoch = seating.epoch_of(JOB, ROUND, SEED, miners, samples, stages)
    manifest = seating.manifest(SEED, miners, (10,) * len(miners), spec, 0)
    return tiny, Plan(manifest, 0, (), 0, epoch)


def make_mined_round(
    store: EmbeddedStore,
    miners: Sequence[int] = MINERS,
    died: Collection[int] = (),
    sent: Sent = as_it_is,
    work: type[StageWork] = StageWork,
    **changes: Any,
) -> MinedRound:
    """Publish the job and do everybody's work once; see `work_through`."""
    tiny, plan = make_mined_job(store, miners, **changes)
    works = work_through(tiny, plan, died, sent, work)
    return MinedRound(store, tiny.published, tiny.job, tiny.before, plan, works)


def work_through(
    tiny: TinyJob,
    plan: Plan,
    died: Collection[int] = (),
    sent: Sent = as_it_is,
    work: type[StageWork] = StageWork,
) -> dict[int, MinerWork]:
    """The epoch, one sample after the other. `died`: miners that were never there: others do their
    samples. `sent`: what a sender sends, and signs, of what it made and logs. `work`: what executes
    entries."""
    epoch = plan.epoch
    assert epoch is not None
    start = partial(_AtWork, tiny, plan, sent, work)
    at_work = {node: start(node) for stage in epoch.stages for node in stage if node not in died}
    for sample in epoch.samples:
        way = [at_work[node] for node in epoch.route(sample, died)]
        entry = Entry(Kind.FORWARD, sample)
        for miner, beside in zip(way, [*way[1:], None], strict=True):
            entry = miner.do(entry, beside) or Entry(Kind.BACKWARD, sample)
        for miner, beside in zip(way[::-1], [*way[-2::-1], None], strict=True):
            entry = miner.do(entry, beside) or entry
    return {node: miner.finish() for node, miner in at_work.items()}


class _AtWork:
    """A live miner without post, disk and clock."""

    def __init__(
        self, tiny: TinyJob, plan: Plan, sent: Sent, work: type[StageWork], node: int
    ) -> None:
        job, epoch = tiny.job, plan.epoch
        assert job.slices is not None and job.spec.pipeline is not None and epoch is not None
        stage = epoch.stage_of(node)
        assert stage is not None
        self.node, self._epoch, self._sent = node, epoch, sent
        self._before = stage_before(tiny, stage)
        self._most = job.spec.pipeline.local_batch
        hyper = Hyperparameters.of(job.spec, plan.step)
        self._states: list[State] = []
        self._work_segment = job.spec.segment
        self._work = work(
            *(job.slices, epoch, node, self._before, hyper, job.data.batch, self._most),
            segment=job.spec.segment,
            keep=lambda steps, state: self._states.append(copied(state)),
        )
        self._entries: list[Entry] = []

    def do(self, entry: Entry, to: _AtWork | None) -> Entry | None:
        """Execute; the signed entry of the next miner, None where nothing goes on."""
        message = self._execute(entry)
        if self._work.passes == self._most:
            self._execute(Entry(Kind.STEP, self._work.steps))
        if message is None or to is None:
            return None
        epoch = self._epoch
        passage = Passage.of(epoch, entry.sample, entry.kind, self.node, to.node)
        message = self._sent(passage, message)
        signature = sign_passage(WALLETS[self.node], WHERE, passage, message)
        trail = trail_from(entry) if entry.kind is Kind.FORWARD else b""
        return Entry(entry.kind, entry.sample, self.node, signature, message, trail)

    def finish(self) -> MinerWork:
        if self._work.passes:
            self._execute(Entry(Kind.STEP, self._work.steps))
        made, optimizer = copied(self._work.state()), copied(self._work.optimizer())
        update = change(self._before, made)
        log, segment = self._work.log(), self._work_segment
        losses = stated(self._work.losses)
        due = published(len(log.steps), segment) if segment else 0
        place = self.node, self._work.stage, tuple(self._entries), log, update, losses
        return MinerWork(*place, tuple(self._states[:due]), made, optimizer)

    def _execute(self, entry: Entry) -> bytes | None:
        self._entries.append(entry)
        return self._work.do(entry).message
