# SPDX-License-Identifier: Apache-2.0
"""A tiny real job: the honest work of its nodes, dishonest work, and the verifiers' verdict on it.

Rule: what a verifier's key reports on chain in the tests of copies and fakes is what the project's
own re-execution finds in real pseudo-gradients of a real model on real text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from eth_utils import keccak

from agents.jobs.job import JobContext
from agents.jobs.publish import Published, publish_job
from agents.protocol.network import Reveal
from agents.rounds.outcome import Outcome, compute
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.submissions import Submission, fetch
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import WorkOrder, assign, input_root, work_order
from agents.training.determinism import determinism_class
from agents.training.local import LocalResult
from agents.training.replay import run_task, trace_of
from agents.training.state import State, file_bound, load_state, model_hash
from agents.verify.spot_checks import Finding, RoundInputs, reexecute, suspects
from tests.stage.chain.people import Node, Work

DEVICE = "cpu"
AUDIT_SEED = keccak(text="audit seed")
FOREIGN_CLASS = "torch=0;device=another machine"
_TEXT = [b"line %d of the tiny corpus, cubed %d\n" % (i, i**3) for i in range(900)]
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
    "rounds": 8,
    "audit_sample": 0,
}


@dataclass(frozen=True)
class Paper:
    """A node's submission: what it commits to on chain, and what others can fetch of it."""

    node: Node
    work: Work
    submission: Submission


@dataclass(frozen=True)
class Lab:
    """The job's artefacts in a real store."""

    store: EmbeddedStore
    published: Published
    job: JobContext
    before: State

    def plan(self, opened: dict[str, Any], seed: bytes) -> Plan:
        """The round's manifest, from the chain's snapshot and seed."""
        manifest = assign(seed, opened["nodes"], opened["weights"], self.job.spec)
        return Plan(manifest, 0, (), 0)

    def task(self, plan: Plan, node: Node) -> WorkOrder:
        """A node's task in job 1."""
        model = model_hash(self.before)
        return work_order(plan.manifest, node.node_id, self.job.spec, 1, plan.step, model)

    def run(self, task: WorkOrder) -> LocalResult:
        """Train."""
        return run_task(self.job.net(DEVICE), task, self.before, self.job.data)

    def submit(
        self,
        plan: Plan,
        node: Node,
        gradient: State | None = None,
        result: LocalResult | None = None,
        publish: bool = True,
        foreign: bool = False,
    ) -> Paper:
        """Publish a node's work: its honest work, unless a gradient or a whole result is given.

        `publish` False keeps the payload back. `foreign`: claim another determinism class.
        """
        task = self.task(plan, node)
        result = result or self.run(task)
        trace = trace_of(task, result)
        payload = self.job.codec.encode(gradient or result.pseudo_gradient, None, b"")
        proof = ProofOfComputation(
            node=node.node_id,
            task=task.task_id.hex(),
            gradient_hash=result.hashes[-1].hex(),
            trace_root=trace.root().hex(),
            trace=cid_of_bytes(trace.to_bytes()),
            steps=task.steps,
            compute_time_ms=50,
            device="test",
            utilisation=1.0,
            utilisation_source="cpu",
            determinism_class=FOREIGN_CLASS if foreign else determinism_class(DEVICE),
        ).to_bytes()
        for raw in (trace.to_bytes(), proof, *([payload] if publish else [])):
            self.store.put_bytes(raw)
        work = Work(
            input_root(plan.manifest, node.node_id, model_hash(self.before)),
            digest_of(cid_of_bytes(payload)),
            trace.root(),
            keccak(text=f"salt of {node.name}"),
            digest_of(cid_of_bytes(proof)),
        )
        reveal = Reveal(
            node=node.node_id,
            operator=node.operator.address,
            input_root=work.input_root,
            content=work.content,
            trace_root=work.trace_root,
            proof=work.proof,
        )
        return Paper(node, work, fetch(reveal, self.job, self.store))

    def outcome(self, plan: Plan, papers: Sequence[Paper]) -> Outcome:
        """The round's result as every honest party computes it."""
        submissions = [paper.submission for paper in papers]
        return compute(self.job, 1, 1, plan, self.before, submissions, DEVICE)

    def audit(
        self, plan: Plan, papers: Sequence[Paper], flagged: Sequence[Node] = ()
    ) -> RoundInputs:
        """What a verifier starts from; the random sample is empty."""
        return RoundInputs(
            job=self.job,
            job_id=1,
            round_id=1,
            plan=plan,
            before=self.before,
            merged=self.outcome(plan, papers).merged,
            submissions=[paper.submission for paper in papers],
            audit_seed=AUDIT_SEED,
            flagged=frozenset(node.node_id for node in flagged),
            scores={},
            window_s=600,
        )

    def suspects(self, audit: RoundInputs) -> set[int]:
        """Whom public screening sends to re-execution."""
        return set(suspects(audit, self.store))

    def verdict(self, audit: RoundInputs, node: Node) -> Finding:
        """What re-execution finds."""
        return reexecute(audit, node.node_id, DEVICE, self.store)


def make_lab(directory: Path) -> Lab:
    """Publish the job into a new store."""
    torch.set_num_threads(1)
    store = EmbeddedStore(directory / "store")
    published = publish_job(store, _TEXT, _SPEC)
    job = JobContext(published.spec, store)
    checkpoint = store.get(published.checkpoint_cid, file_bound(job.shapes))
    return Lab(store, published, job, load_state(checkpoint, job.shapes))


def mixed(gradient: State, share: float, seed: int = 0) -> State:
    """The gradient with noise of `share` of each tensor's own size."""
    source = torch.Generator().manual_seed(seed)
    return {
        name: tensor + share * tensor.std() * torch.randn(tensor.shape, generator=source)
        for name, tensor in sorted(gradient.items())
    }


def scaled(gradient: State, factor: float) -> State:
    """Every number times a factor."""
    return {name: tensor * factor for name, tensor in gradient.items()}


def noise(gradient: State, seed: int = 0) -> State:
    """Random numbers in place of a gradient."""
    source = torch.Generator().manual_seed(seed)
    return {
        name: 1e-3 * torch.randn(tensor.shape, generator=source)
        for name, tensor in sorted(gradient.items())
    }


def shortened(task: WorkOrder, steps: int) -> WorkOrder:
    """The task with all but its first batches skipped."""
    first, _ = task.batch_ranges[0]
    return replace(task, batch_ranges=((first, first + steps),))
