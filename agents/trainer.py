# SPDX-License-Identifier: Apache-2.0
"""The trainer: trains its own shard, commits, reveals. It never claims: the cold wallet does.

    before the first round   register (or wait for the owner to), do the benchmark
    COMMIT                   train the assigned batches, journal the secret, commit its hash
    REVEAL                   publish payload, trace and proof; open the commitment
    any phase                permissionless duties, after everybody else

What a commitment hides (salt, payload) is on disk before the commitment is sent: a crash at any
line costs no stake.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from agents.rounds.manifests import Plan, Plans
from agents.rounds.membership import Membership
from agents.rounds.models import Models
from agents.rounds.network import ZERO_DIGEST, Network, Phase
from agents.rounds.upkeep import Upkeep
from agents.rounds.view import View, observe
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.durable import write_atomic
from agents.runtime.faults import crashpoint
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore, open_store
from agents.training.determinism import determinism_class
from agents.training.hardware import hardware_name
from agents.training.local import pick_device
from agents.training.proof import ProofOfComputation
from agents.training.replay import run_task, trace_of
from agents.training.task import Task, build_task, input_root
from agents.training.utilisation import UtilisationMeter

_PATIENCE_S = 4.0
_ROUNDS_KEPT = 3
_ARTEFACTS = ("payload", "trace", "proof")
_COMMITTED = ("input_root", "content", "trace_root", "salt")


@dataclass(frozen=True)
class Work:
    """What a task produced: the artefacts to publish."""

    payload: bytes
    trace: bytes
    proof: bytes
    trace_root: bytes


class Trainer:
    """One trainer node, as a function of the chain."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        self.context = context
        self.store = store
        self.network = Network(context.chain, context.deployment)
        self.models = Models(self.network, store)
        self.plans = Plans(self.network, self.models)
        configured = context.settings.device
        self.device = pick_device() if configured == "auto" else configured
        self._lost_in = 0  # the round in which a lost secret was reported
        self.membership = Membership(self.network, context, store, self.device)
        self.upkeep = Upkeep(self.network, context.sender, _PATIENCE_S, context.settings.jitter_s)

    def step(self, head: Head) -> str | None:
        """The single next action."""
        did = self.membership.step(head)
        job_id = self.context.settings.job_id or self.network.current_job()
        if did or not job_id or job_id > self.network.job_count():
            return did
        view = observe(self.network, job_id, head)
        self.context.metrics.round.set(view.round_id)
        self.context.metrics.phase.set(view.phase)
        node = self.membership.node_id
        if node and view.phase == Phase.COMMIT:
            did = self.commit(view, node)
        elif node and view.phase == Phase.REVEAL:
            did = self.reveal(view, node)
        return did or self.upkeep.step(view)

    # -- COMMIT --------------------------------------------------------------------------------

    def commit(self, view: View, node: int) -> str | None:
        """Train if that has not been done, then commit."""
        if node not in view.snapshot.nodes:
            return self._rejoin(view, node)
        if view.overdue or self._commitment(view, node) != ZERO_DIGEST:
            return None
        plan = self.plans.of(view)
        if plan is None:
            return None
        name = submission_name(view, plan)
        secret = self.context.journal.get(name)
        if secret is None:
            work = self.produce(view, plan, node)
            if work is None:
                return None
            secret = self._remember(name, view, plan, node, work)
        crashpoint("trainer-before-commit")
        self.context.sender.ensure(
            lambda: self._commitment(view, node) != ZERO_DIGEST,
            self.network.rounds,
            "commit",
            view.job_id,
            view.round_id,
            node,
            self._digest(view, node, secret),
        )
        crashpoint("trainer-after-commit")
        return f"committed: round {view.round_id}"

    def produce(self, view: View, plan: Plan, node: int) -> Work | None:
        """Do the task: H local steps, the payload, its trace and its proof of computation."""
        job = self.models.job(view.job_id)
        assignment = plan.manifest.of(node)
        if assignment is None:
            return None
        before = self.models.at(view.job_id, bytes(view.round.prev_model))
        task = build_task(
            plan.manifest,
            node,
            job.spec,
            view.job_id,
            plan.step,
            bytes(view.round.prev_model),
            job.data.shards_of(assignment.ranges),
            int(view.round.deadline),
        )
        settings = self.context.settings.trainer
        self.context.log.info(
            "task", round=view.round_id, steps=task.steps, ranges=task.batch_ranges
        )
        with self.context.metrics.busy("train"), UtilisationMeter(self.device) as usage:
            result = run_task(
                job.net(self.device), task, before, job.data, self._progress, settings.compile
            )
        payload = job.codec.encode(result.pseudo_gradient, None, plan.manifest.seed)
        trace = trace_of(task, result)
        proof = self._proof(task, result.hashes[-1], trace.root(), trace.to_bytes(), usage)
        return Work(payload, trace.to_bytes(), proof.to_bytes(), trace.root())

    def _progress(self, step: int, loss: float) -> None:
        self.context.metrics.loss.set(loss)
        crashpoint("trainer-training")
        self.context.log.debug("step", step=step, loss=round(loss, 4))

    def _proof(
        self, task: Task, gradient: bytes, root: bytes, trace: bytes, usage: UtilisationMeter
    ) -> ProofOfComputation:
        attestation = self.context.settings.trainer.attestation
        return ProofOfComputation(
            node=task.node,
            task=task.task_id.hex(),
            gradient_hash=gradient.hex(),
            trace_root=root.hex(),
            trace=cid_of_bytes(trace),
            steps=task.steps,
            compute_time_ms=int(usage.seconds * 1000),
            device=hardware_name(self.device),
            utilisation=usage.share,
            utilisation_source=usage.source,
            determinism_class=determinism_class(self.device, self.context.settings.trainer.compile),
            tee_kind=None if attestation is None else "opaque",
            tee_attestation=None if attestation is None else attestation.read_bytes().hex(),
        )

    def _remember(self, name: str, view: View, plan: Plan, node: int, work: Work) -> dict[str, str]:
        """Put the secret and the artefacts on disk; only then may the commitment be sent."""
        for artefact in _ARTEFACTS:
            write_atomic(self._path(name, artefact), getattr(work, artefact))
        secret = {
            "input_root": input_root(plan.manifest, node, bytes(view.round.prev_model)).hex(),
            "content": digest_of(cid_of_bytes(work.payload)).hex(),
            "trace_root": work.trace_root.hex(),
            "proof": digest_of(cid_of_bytes(work.proof)).hex(),
            "salt": secrets.token_hex(32),
            "time": str(int(time.time())),
        }
        crashpoint("trainer-before-journal")
        self.context.journal.put(name, secret)
        self._forget_old(view)
        return secret

    def _rejoin(self, view: View, node: int) -> str | None:
        """Come back to a job that stopped expecting this node."""
        chain, rounds = self.context.chain, self.network.rounds
        if not chain.call(rounds, "is_absent", view.job_id, node):
            return None
        self.context.sender.send(rounds, "rejoin", view.job_id, node)
        return f"rejoined: job {view.job_id}"

    # -- REVEAL --------------------------------------------------------------------------------

    def reveal(self, view: View, node: int) -> str | None:
        """Publish what the commitment hid, then open it."""
        committed = self._commitment(view, node) != ZERO_DIGEST
        if not committed or view.overdue or self._revealed(view, node):
            return None
        found = self._secret_of(view, node)
        if found is None:
            self._say_lost(view)
            return None
        name, secret = found
        for artefact in _ARTEFACTS:
            self.store.pin(self.store.put_bytes(self._path(name, artefact).read_bytes()))
        crashpoint("trainer-before-reveal")
        self.context.sender.ensure(
            lambda: self._revealed(view, node),
            self.network.rounds,
            "reveal",
            view.job_id,
            view.round_id,
            node,
            *(bytes.fromhex(secret[key]) for key in (*_COMMITTED, "proof")),
        )
        crashpoint("trainer-after-reveal")
        return f"revealed: round {view.round_id}"

    def _say_lost(self, view: View) -> None:
        """Once a round: the stake at risk is the operator's, and nothing else can be done."""
        if self._lost_in != view.round_id:
            self._lost_in = view.round_id
            why = "the journal has no secret of this commitment; it can't be revealed"
            self.context.log.error("secret_lost", round=view.round_id, why=why)

    def _secret_of(self, view: View, node: int) -> tuple[str, dict[str, str]] | None:
        """The journalled secret of the commitment on chain (a reorg may leave several)."""
        wanted = self._commitment(view, node)
        for name in self.context.journal.keys(f"submission-{view.job_id}-{view.round_id}-"):
            secret = self.context.journal.get(name)
            if self._digest(view, node, secret) == wanted:
                return name, secret
        return None

    # -- small things --------------------------------------------------------------------------

    def _commitment(self, view: View, node: int) -> bytes:
        rounds = self.network.rounds
        return bytes(
            self.context.chain.call(rounds, "commitment_of", view.job_id, view.round_id, node)
        )

    def _digest(self, view: View, node: int, secret: dict[str, str]) -> bytes:
        """The commitment to a secret, by the contract's own function."""
        parts = (bytes.fromhex(secret[key]) for key in _COMMITTED)
        address = self.context.wallet.address
        return bytes(
            self.context.chain.call(
                self.network.rounds,
                "commitment_digest",
                view.job_id,
                view.round_id,
                node,
                address,
                *parts,
            )
        )

    def _revealed(self, view: View, node: int) -> bool:
        rounds = self.network.rounds
        return bool(
            self.context.chain.call(rounds, "is_revealed", view.job_id, view.round_id, node)
        )

    def _path(self, name: str, artefact: str) -> Path:
        return self.context.artefacts / f"{name}.{artefact}"

    def _forget_old(self, view: View) -> None:
        """Drop secrets and artefacts of rounds that can't need them any more."""
        for name in self.context.journal.keys(f"submission-{view.job_id}-"):
            if int(name.split("-")[2]) <= view.round_id - _ROUNDS_KEPT:
                for artefact in _ARTEFACTS:
                    self._path(name, artefact).unlink(missing_ok=True)
                self.context.journal.delete(name)


def submission_name(view: View, plan: Plan) -> str:
    """The journal key of a round's submission; a reorg that changes the seed changes it."""
    return f"submission-{view.job_id}-{view.round_id}-{plan.manifest.seed.hex()[:16]}"


def build(context: Context) -> Trainer:
    """The trainer of a started agent."""
    return Trainer(context, open_store(context.settings.store))
