# SPDX-License-Identifier: Apache-2.0
"""A tiny real job, the honest work of its nodes, and the chain's facts about it as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from eth_utils import keccak

from agents.jobs.job import JobContext
from agents.jobs.publish import Published, publish_job
from agents.protocol.network import Phase, Proposal, Reveal, Snapshot
from agents.rounds.outcome import Outcome, compute
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.submissions import Submission, fetch
from agents.rounds.sync_sample import sync_root
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign, input_root, work_order
from agents.training.determinism import determinism_class
from agents.training.replay import run_task, trace_of
from agents.training.state import State, load_state, model_hash
from agents.training.trace import Trace
from agents.verify.spot_checks import RoundInputs

JOB, ROUND = 1, 1
SEED = keccak(text="round seed")
AUDIT_SEED = keccak(text="audit seed")
NODES = (3, 5, 8, 9)
WEIGHTS = (10, 10, 10, 30)
DEVICE = "cpu"
_TEXT = [b"line %d of the tiny corpus, squared %d\n" % (i, i * i) for i in range(900)]
_SPEC: dict[str, Any] = {
    "model": {
        "d_model": 16,
        "n_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 1,
        "d_ff": 24,
        "max_seq_len": 16,
    },
    "optimizer": {"batch_size": 2, "seq_len": 16},
    "batches_per_round": 12,
    "eval_batches": 2,
    "rounds": 4,
    "checkpoint_every": 3,
    "audit_sample": 0,
}


@dataclass(frozen=True)
class Work:
    """What an honest node produces, before it is published."""

    node: int
    gradient: State
    payload: bytes
    trace: bytes
    trace_root: bytes
    proof: ProofOfComputation


@dataclass(frozen=True)
class Desk:
    """One round of one job."""

    store: EmbeddedStore
    published: Published
    job: JobContext
    plan: Plan
    before: State
    works: Mapping[int, Work]

    def reveal(self, node: int, payload: bytes | None = None, **proof: Any) -> Reveal:
        """Publish a node's work, or another payload in its place; `proof` changes its proof."""
        work = self.works[node]
        content = self.store.put_bytes(work.payload if payload is None else payload)
        self.store.put_bytes(work.trace)
        paper = self.store.put_bytes(work.proof.model_copy(update=proof).to_bytes())
        return Reveal(
            node=node,
            operator="0x" + f"{node:040x}",
            input_root=input_root(self.plan.manifest, node, model_hash(self.before)),
            content=digest_of(content),
            trace_root=work.trace_root,
            proof=digest_of(paper),
        )

    def submit(self, node: int, gradient: State | None = None) -> Submission:
        """Publish and fetch again; `gradient` replaces the honest one."""
        seed = self.plan.codec_seed(self.job.codec, node)
        payload = None if gradient is None else self.job.codec.encode(gradient, None, seed)
        return fetch(self.reveal(node, payload), self.job, self.store, seed)

    def honest(self) -> list[Submission]:
        """Everybody's own work."""
        return [self.submit(node) for node in NODES]

    def compute(self, submissions: Sequence[Submission], plan: Plan | None = None) -> Outcome:
        """The round's result."""
        plan = plan or self.plan
        return compute(self.job, JOB, ROUND, plan, self.before, submissions, DEVICE)

    def work(
        self, submissions: Sequence[Submission], flagged: Sequence[int] = (), sample: int = 0
    ) -> RoundInputs:
        """What a verifier's audit starts from."""
        job = JobContext(self.job.spec.model_copy(update={"audit_sample": sample}), self.store)
        return RoundInputs(
            job=job,
            job_id=JOB,
            round_id=ROUND,
            plan=self.plan,
            before=self.before,
            merged=self.compute(submissions).merged,
            submissions=submissions,
            audit_seed=AUDIT_SEED,
            flagged=frozenset(flagged),
            scores=dict.fromkeys(NODES, 1_000),
            window_s=600,
        )


def make_desk(store: EmbeddedStore, **changes: Any) -> Desk:
    """Publish the job and do everybody's work once. `changes`: fields of the spec."""
    published = publish_job(store, _TEXT, {**_SPEC, **changes})
    job = JobContext(published.spec, store)
    before = load_state(store.get(published.checkpoint_cid, 1 << 20), job.shapes)
    manifest = assign(SEED, NODES, WEIGHTS, job.spec)
    plan = Plan(manifest, 0, (), 0)
    return Desk(
        store, published, job, plan, before, {n: make_work(job, plan, before, n) for n in NODES}
    )


def make_work(
    job: JobContext, plan: Plan, before: State, node: int, memory: State | None = None
) -> Work:
    """A node's honest work in the round of `plan`. `memory`: its codec's."""
    task = work_order(plan.manifest, node, job.spec, JOB, plan.step, model_hash(before))
    result = run_task(job.net(DEVICE), task, before, job.data)
    seed = plan.codec_seed(job.codec, node)
    payload = job.codec.encode(job.privacy.release(result.pseudo_gradient), memory, seed)
    trace = trace_of(task, result)
    if not job.traced:
        decoded = job.codec.decode(payload, job.shapes, seed)
        trace = Trace(node, (model_hash(before), model_hash(decoded)))
    proof = ProofOfComputation(
        node=node,
        task=task.task_id.hex(),
        gradient_hash=trace.hashes[-1].hex(),
        trace_root=trace.root().hex(),
        trace=cid_of_bytes(trace.to_bytes()),
        steps=task.steps,
        compute_time_ms=50,
        device="test",
        utilisation=1.0,
        utilisation_source="cpu",
        determinism_class=determinism_class(DEVICE),
    )
    root = sync_root(before) if job.free else trace.root()
    return Work(node, result.pseudo_gradient, payload, trace.to_bytes(), root, proof)


@dataclass
class ChainFacts:
    """What Network would answer about job 1: values that a test sets, no behaviour."""

    published: Published
    entries: list[Any] = field(default_factory=list)
    rounds: dict[int, Any] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    invalid: set[tuple[int, int]] = field(default_factory=set)
    revealed: dict[int, Reveal] = field(default_factory=dict)
    model: bytes = b""
    proposed: Proposal | None = None

    def job(self, job_id: int) -> Any:
        terms = SimpleNamespace(
            spec=digest_of(self.published.spec_cid),
            genesis_model=self.published.model,
            genesis_checkpoint=digest_of(self.published.checkpoint_cid),
        )
        return SimpleNamespace(terms=terms, model=self.model or self.published.model)

    def round(self, job_id: int, round_id: int) -> Any:
        return self.rounds[round_id]

    def seed(self, job_id: int, round_: Any, audit: bool = False) -> bytes | None:
        return round_.seed or None

    def snapshot(self, job_id: int, round_id: int, opened_block: int) -> Snapshot:
        return self.snapshots[round_id]

    def in_round(self, question: str, job_id: int, round_id: int, nodes: Sequence[int]) -> set[int]:
        assert question == "is_invalid"
        return {node for node in nodes if (round_id, node) in self.invalid}

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
        store.put_bytes(outcome.update)
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
        """A round with its snapshot; returns what `observe` would."""
        self.rounds[round_id] = SimpleNamespace(
            seed=seed, opened_block=round_id, prev_model=self.job(JOB).model, result_hash=b""
        )
        weights = tuple(dict(zip(NODES, WEIGHTS, strict=True)).get(node, 10) for node in nodes)
        self.snapshots[round_id] = Snapshot(tuple(nodes), weights, {}, ())
        return SimpleNamespace(
            job_id=JOB,
            round_id=round_id,
            round=self.rounds[round_id],
            phase=Phase.AGGREGATE,
            snapshot=self.snapshots[round_id],
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
    """Every number times `factor`."""
    return {name: tensor * factor for name, tensor in state.items()}


def with_content(submission: Submission, content: bytes) -> Submission:
    """The same payload under another digest."""
    return replace(submission, reveal=replace(submission.reveal, content=content))
