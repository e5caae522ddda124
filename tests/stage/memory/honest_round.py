# SPDX-License-Identifier: Apache-2.0
"""A tiny real job, the honest work of its nodes, and the chain's facts about it as plain data.

Every test that needs a node's work of a round takes it from `make_work`: a real model is trained on
real text, the payload is encoded, the trace and the proof are those that a trainer would publish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from eth_utils import keccak

from agents.jobs.job import JobContext
from agents.jobs.model_files import read_model
from agents.jobs.publish import Published, publish_job
from agents.protocol.marks import Marks
from agents.protocol.numbers import Phase
from agents.protocol.structs import Proposal, Reveal, Snapshot
from agents.rounds.outcome import Outcome, compute
from agents.rounds.payload_bound import bound_of
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.submissions import Submission, fetch
from agents.rounds.sync_sample import sync_root
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import WorkOrder, assign, input_root, work_order
from agents.training.determinism import determinism_class
from agents.training.replay import run_task, trace_of
from agents.training.state import State, model_hash
from agents.training.trace import Trace
from agents.verify.spot_checks import RoundInputs
from tests.stage.memory.tiny_specs import tiny_model

torch.set_num_threads(1)  # the machine is shared

JOB, ROUND = 1, 1
AGGREGATE_S = 300  # a round's window, of what ChainFacts say
SEED = keccak(text="round seed")
AUDIT_SEED = keccak(text="audit seed")
DRAW_SEED = keccak(text="draw seed")
NODES = (3, 5, 8, 9)
WEIGHTS = (10, 10, 10, 30)
DEVICE = "cpu"
_TEXT = [b"line %d of the tiny corpus, squared %d\n" % (i, i * i) for i in range(900)]
_SPEC: dict[str, Any] = {
    "model": tiny_model(16, 24, 16),
    "optimizer": {"batch_size": 2, "seq_len": 16},
    "batches_per_round": 12,
    "eval_batches": 2,
    "rounds": 4,
    "checkpoint_every": 3,
    "audit_sample": 0,
}


@dataclass(frozen=True)
class HonestWork:
    """What a node makes in a round, before it is published; `inner` it keeps."""

    node: int
    gradient: State
    payload: bytes
    trace: bytes
    trace_root: bytes
    proof: ProofOfComputation
    input_root: bytes
    inner: State | None = None

    def publish(self, store: EmbeddedStore, payload: bool = True) -> None:
        """Put the artefacts in the store; without `payload` that one is kept back."""
        for raw in (self.trace, self.proof.to_bytes(), *([self.payload] if payload else [])):
            store.put_bytes(raw)

    def reveal(self) -> Reveal:
        """What the chain says of the work."""
        return Reveal(
            node=self.node,
            input_root=self.input_root,
            content=digest_of(cid_of_bytes(self.payload)),
            trace_root=self.trace_root,
            proof=digest_of(cid_of_bytes(self.proof.to_bytes())),
        )


@dataclass(frozen=True)
class TinyJob:
    """A job's artefacts in a real store, and the model that its first round begins with."""

    store: EmbeddedStore
    published: Published
    job: JobContext
    before: State

    def plan_of(self, seed: bytes, nodes: Sequence[int], weights: Sequence[int]) -> Plan:
        """The first round's plan."""
        return Plan(assign(seed, nodes, weights, self.job.spec), 0, (), 0)

    def outcome_of(self, plan: Plan, submissions: Sequence[Submission]) -> Outcome:
        return compute(self.job, JOB, ROUND, plan, self.before, submissions, DEVICE)

    def inputs_of(
        self,
        plan: Plan,
        submissions: Sequence[Submission],
        flagged: Sequence[int] = (),
        sample: int = 0,
    ) -> RoundInputs:
        """What a verifier's spot checks start from; `sample`: how many nodes are drawn."""
        spec = self.job.spec.model_copy(update={"audit_sample": sample})
        return RoundInputs(
            job=JobContext(spec, self.store),
            job_id=JOB,
            round_id=ROUND,
            plan=plan,
            before=self.before,
            merged=self.outcome_of(plan, submissions).merged,
            submissions=submissions,
            draw_seed=DRAW_SEED,
            flagged=frozenset(flagged),
            window_s=600,
        )


@dataclass(frozen=True)
class HonestRound(TinyJob):
    """One round of the job, and the honest work of all its nodes."""

    plan: Plan
    works: Mapping[int, HonestWork]

    def reveal(self, node: int, payload: bytes | None = None, **proof: Any) -> Reveal:
        """Publish a node's work, or another payload in its place; `proof` changes its proof."""
        work = self.works[node]
        sent = replace(work, proof=work.proof.model_copy(update=proof))
        sent = sent if payload is None else replace(sent, payload=payload)
        sent.publish(self.store)
        return sent.reveal()

    def submit(self, node: int, gradient: State | None = None) -> Submission:
        """Publish and fetch again; `gradient` replaces the honest one."""
        seed = self.plan.codec_seed(self.job.codec, node)
        payload = None if gradient is None else self.job.codec.encode(gradient, None, seed)
        bound = bound_of(self.job, self.plan, node, lambda: self.before)
        return fetch(self.reveal(node, payload), self.job, self.store, seed, allowed=bound)

    def honest(self) -> list[Submission]:
        return [self.submit(node) for node in NODES]

    def compute(self, submissions: Sequence[Submission], plan: Plan | None = None) -> Outcome:
        return self.outcome_of(plan or self.plan, submissions)

    def inputs(
        self, submissions: Sequence[Submission], flagged: Sequence[int] = (), sample: int = 0
    ) -> RoundInputs:
        """What a verifier's spot checks start from."""
        return self.inputs_of(self.plan, submissions, flagged, sample)


def make_tiny_job(store: EmbeddedStore, **changes: Any) -> TinyJob:
    """Publish the job. `changes`: fields of the spec."""
    published = publish_job(store, _TEXT, {**_SPEC, **changes})
    job = JobContext(published.spec, store)
    before = read_model(job, store, digest_of(published.checkpoint_cid), published.model)
    return TinyJob(store, published, job, before)


def make_honest_round(store: EmbeddedStore, **changes: Any) -> HonestRound:
    """Publish the job and do everybody's work once. `changes`: fields of the spec."""
    tiny = make_tiny_job(store, **changes)
    plan = tiny.plan_of(SEED, NODES, WEIGHTS)
    works = {node: make_work(tiny.job, plan, tiny.before, node) for node in NODES}
    return HonestRound(store, tiny.published, tiny.job, tiny.before, plan, works)


def make_work(
    job: JobContext,
    plan: Plan,
    before: State,
    node: int,
    memory: State | None = None,
    *,
    inner: State | None = None,
    job_id: int = JOB,
    order: WorkOrder | None = None,
    gradient: State | None = None,
    model: bytes | None = None,
) -> HonestWork:
    """A node's work in the round of `plan`. `memory`: its codec's. `inner`: the state that its
    inner optimizer starts from.

    It is honest unless one of these is given: another `order` than its own to train by, another
    `gradient` than the trained one to send, or the hash of the round's `model` where `before` is
    not that model.
    """
    own = work_order(plan.manifest, node, job.spec, job_id, plan.step, model_hash(before))
    result = run_task(job.net(DEVICE), order or own, before, job.data, inner=inner)
    seed = plan.codec_seed(job.codec, node)
    sent = result.pseudo_gradient if gradient is None else gradient
    payload = job.codec.encode(job.privacy.release(sent), memory, seed)
    trace = trace_of(own, result)
    if not job.traced:
        decoded = job.codec.decode(payload, job.shapes, seed)
        trace = Trace(node, (model_hash(before), model_hash(decoded)))
    proof = ProofOfComputation(
        node=node,
        task=own.task_id.hex(),
        gradient_hash=trace.hashes[-1].hex(),
        trace_root=trace.root().hex(),
        trace=cid_of_bytes(trace.to_bytes()),
        steps=own.steps,
        compute_time_ms=50,
        determinism_class=determinism_class(DEVICE),
    )
    return HonestWork(
        node=node,
        gradient=result.pseudo_gradient,
        payload=payload,
        trace=trace.to_bytes(),
        trace_root=sync_root(before) if job.verification.own_start else trace.root(),
        proof=proof,
        input_root=input_root(plan.manifest, node, model or model_hash(before)),
        inner=result.inner,
    )


@dataclass
class ChainFacts:
    """What Network would answer about job 1: values that a test sets.

    `invalid`: (round, node) whose work is invalid now. A round that is opened keeps them as they
    are then.
    """

    published: Published
    entries: list[Any] = field(default_factory=list)
    rounds: dict[int, Any] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    invalid: set[tuple[int, int]] = field(default_factory=set)
    marks: dict[int, Marks] = field(default_factory=dict)
    revealed: dict[int, Reveal] = field(default_factory=dict)
    model: bytes = b""
    proposed: Proposal | None = None
    now: int = 0

    @property
    def chain(self) -> Any:
        """The clock of the chain."""
        return SimpleNamespace(newest_head=lambda: SimpleNamespace(timestamp=self.now))

    def job(self, job_id: int) -> Any:
        terms = SimpleNamespace(
            spec=digest_of(self.published.spec_cid),
            genesis_model=self.published.model,
            genesis_checkpoint=digest_of(self.published.checkpoint_cid),
        )
        return SimpleNamespace(terms=terms, model=self.model or self.published.model)

    def round(self, job_id: int, round_id: int) -> Any:
        return self.rounds[round_id]

    def seed(self, job_id: int, round_id: int, round_: Any, audit: bool = False) -> bytes | None:
        return round_.seed or None

    def snapshot(self, job_id: int, round_id: int, round_: Any) -> Snapshot:
        return self.snapshots[round_id]

    def marks_at(self, job_id: int, round_id: int, round_: Any) -> Marks:
        return self.marks[round_id]

    def reveals(self, job_id: int, round_id: int, opened_block: int) -> dict[int, Reveal]:
        return self.revealed

    def proposal(self, job_id: int, round_id: int, round_: Any) -> Proposal:
        assert self.proposed is not None
        return self.proposed

    def stakes_at(self, nodes: Sequence[int], block: int) -> dict[int, int]:
        return dict.fromkeys(nodes, 1)

    def ledger_length(self, job_id: int) -> int:
        return len(self.entries)

    def ledger_entry(self, job_id: int, index: int) -> Any:
        return self.entries[index]

    def record(self, round_id: int, outcome: Outcome, store: EmbeddedStore) -> None:
        """A finalized round: its artefacts in the store, its entry in the ledger."""
        for raw in (*outcome.parts, outcome.update):
            store.put_bytes(raw)
        if outcome.checkpoint is not None:
            store.put_bytes(outcome.checkpoint)
        report = store.put_bytes(outcome.report.to_bytes())
        self.model = outcome.model
        self.entries.append(
            SimpleNamespace(
                round_id=round_id,
                prev_model=bytes.fromhex(outcome.report.prev_model),
                new_model=outcome.model,
                report=digest_of(report),
            )
        )

    def open(self, round_id: int, seed: bytes, nodes: Sequence[int] = NODES) -> Any:
        """A round in AGGREGATE, with its snapshot; returns what `observe` would."""
        self.rounds[round_id] = SimpleNamespace(
            seed=seed,
            opened_block=round_id,
            prev_model=self.job(JOB).model,
            result_hash=b"",
            deadline=self.now + AGGREGATE_S,
        )
        weights = tuple(dict(zip(NODES, WEIGHTS, strict=True)).get(node, 10) for node in nodes)
        self.snapshots[round_id] = Snapshot(tuple(nodes), weights, {}, ())
        self.marks[round_id] = frozenset(self.invalid)
        return SimpleNamespace(
            job_id=JOB,
            round_id=round_id,
            round=self.rounds[round_id],
            phase=Phase.AGGREGATE,
            snapshot=self.snapshots[round_id],
            job=SimpleNamespace(terms=SimpleNamespace(aggregate_s=AGGREGATE_S)),
            now=self.now,
        )


def proposal_of(outcome: Outcome) -> Proposal:
    """What an honest aggregator proposes."""
    return Proposal(
        proposer=1,
        model=outcome.model,
        update=digest_of(outcome.report.update),
        report=digest_of(cid_of_bytes(outcome.report.to_bytes())),
        result_hash=b"\1" * 32,
        nodes=outcome.nodes,
        contributions=outcome.contributions,
    )


def scaled(state: State, factor: float) -> State:
    return {name: tensor * factor for name, tensor in state.items()}


def noise(like: State, seed: int = 0) -> State:
    """Random numbers in the shapes of a gradient."""
    source = torch.Generator().manual_seed(seed)
    return {
        name: 1e-3 * torch.randn(tensor.shape, generator=source)
        for name, tensor in sorted(like.items())
    }
