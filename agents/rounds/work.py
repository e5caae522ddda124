# SPDX-License-Identifier: Apache-2.0
"""The producer of a round's work: trains, makes private, encodes, and writes the proof.

All that leaves the node is made in this file, in this order: local steps, the job's privacy
mechanism, the job's codec. Where the job keeps something from others (noise, or data that only this
node has), no hash of what precedes the noise is published either. Of a job with privacy, no step's
loss is logged or measured: the loss was not noised, and other people read logs and metrics.

Where nodes train as they like, what the commitment binds as trace root is the root over the
parameters that the node started from (`agents.rounds.sync_sample`), and the proof of computation is
a statement that nobody checks. Steps, time and start are the node's own choice; validators measure
the result by its loss.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from agents.jobs.job import JobContext
from agents.jobs.outer_step import weights_of
from agents.mechanisms.privacy import Charge
from agents.protocol.view import View
from agents.rounds.carried import Kept
from agents.rounds.codec_memory import Memories
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.sealing import Sealing
from agents.rounds.sync_sample import sync_root
from agents.runtime.context import Context
from agents.runtime.faults import crashpoint
from agents.storage.cid import cid_of_bytes, digest_of
from agents.training.assignment import WorkOrder, unassigned, work_order
from agents.training.determinism import determinism_class
from agents.training.documents import DataError
from agents.training.local_data import SALT_BYTES, LocalData
from agents.training.norms import cosine
from agents.training.replay import run_task, trace_of
from agents.training.state import State, model_hash, save_state
from agents.training.trace import Trace

Outgoing = Callable[[State, State | None], State]


@dataclass(frozen=True)
class Work:
    """What a task produced: the artefacts to publish, and what to keep for the next round, the
    codec's memory and the state of the inner optimizer.

    `inbox`: of a miner, the file of the entries that its log came of, which may be large.
    """

    payload: bytes
    trace: bytes
    proof: bytes
    trace_root: bytes
    memory: bytes | None = None
    inbox: Path | None = None
    inner: bytes | None = None


class Producer:
    """Does the tasks of one trainer node."""

    def __init__(self, context: Context, memories: Memories, sealing: Sealing, device: str) -> None:
        self._context = context
        self._memories = memories
        self._sealing = sealing
        self._device = device
        self._local: dict[bytes, LocalData] = {}

    def charge(self, job: JobContext, plan: Plan, node: int) -> Charge | None:
        """What the node's task of this round costs in privacy."""
        if job.privacy.unit == "none":
            return None
        if job.privacy.unit == "node":
            return job.privacy.charge()
        assignment = plan.manifest.of(node)
        if assignment is None or assignment.batches == 0:
            return None  # no step looks at the data
        return job.privacy.charge(
            steps=assignment.batches,
            batch=job.spec.optimizer.batch_size,
            examples=self.local(job).examples,
        )

    def produce(
        self,
        job: JobContext,
        view: View,
        plan: Plan,
        node: int,
        before: State,
        outgoing: Outgoing,
        kept: Kept,
        extra: int = 0,
    ) -> Work | None:
        """The task's artefacts; None if the node has no task.

        `before`: the parameters to start from; where nodes are free they may be others than the
        round's. `outgoing` is called with the update and the codec's memory before anything is done
        to the update; an honest trainer returns it as it is. `kept`: see `Memories.before`.
        `extra`: batches that nobody was assigned to train on beside the node's own, where it is
        free to.
        """
        assignment = plan.manifest.of(node)
        if assignment is None:
            return None
        if job.sealed and not self._sealing.ready(view):
            why = "no aggregator had an encryption key when the round opened"
            self._context.log.warning("cannot_seal", round=view.round_id, why=why)
            return None
        task = work_order(
            plan.manifest,
            node,
            job.spec,
            view.job_id,
            plan.step,
            model_hash(before) if job.verification.own_start else view.round.prev_model,
        )
        if extra:
            # The node's own batches last: they are what its work is first of all judged on.
            task = replace(
                task, batch_ranges=(*unassigned(plan.manifest, node, extra), *task.batch_ranges)
            )
        self._context.log.info(
            "task", round=view.round_id, steps=task.steps, ranges=task.batch_ranges
        )
        carried = self._memories.carried(view.job_id, plan, node, kept)
        memory = carried.owed
        began = time.perf_counter()
        with self._context.metrics.busy("train"):
            gradient, trace, inner = self._train(job, task, before, carried.inner)
        spent_s = time.perf_counter() - began
        update = job.privacy.release(outgoing(gradient, memory))
        seed = plan.codec_seed(job.codec, node)
        began = time.perf_counter()
        payload = job.codec.encode(update, memory, seed)
        encode_s = time.perf_counter() - began
        decoded = job.codec.decode(payload, job.shapes, seed)
        after = job.codec.remember(update, memory, decoded)
        shown = model_hash(decoded)
        if job.sealed:
            sealed = self._sealing.seal(payload, view)
            payload, shown = sealed, digest_of(cid_of_bytes(sealed))
        if trace is None:
            trace = Trace(node, (task.model_id, shown))
        self._context.log.info(
            "payload",
            round=view.round_id,
            codec=job.spec.codec,
            bytes=len(payload),
            cosine=round(cosine(update, decoded), 4),
            encode_s=round(encode_s, 4),
        )
        proof = self._proof(job, task, trace, spent_s)
        rest = None if after is None else save_state(after)
        weights = weights_of(before, job.shapes)
        root = sync_root(weights) if job.verification.own_start else trace.root()
        gathered = None if inner is None else save_state(inner)
        return Work(payload, trace.to_bytes(), proof.to_bytes(), root, rest, None, gathered)

    def local(self, job: JobContext) -> LocalData:
        """The node's own data, tokenised as the job demands.

        Raises DataError, which ends no agent: a sponsor's choice must not stop a node's duties.
        """
        folder = self._context.settings.trainer.local_data
        if folder is None:
            raise DataError(
                "This job trains on data that each node brings itself. Set trainer.local_data to "
                "the folder that holds yours."
            )
        key = job.spec.to_bytes()
        if key not in self._local:
            self._local[key] = LocalData(folder, job.spec, job.data)
        return self._local[key]

    def _train(
        self, job: JobContext, task: WorkOrder, before: State, inner: State | None
    ) -> tuple[State, Trace | None, State | None]:
        """The update, the trace where one may be shown, and what the inner optimizer gathered where
        it is kept. `inner`: what it starts from."""
        net, settings = job.net(self._device), self._context.settings.trainer
        progress = self._progress if job.privacy.unit == "none" else self._private_progress
        if job.privacy.unit == "example":
            from agents.training.private import run_private_task

            private = run_private_task(net, task, before, self.local(job), job.privacy, progress)
            return private.pseudo_gradient, None, None
        own = job.spec.access == "local"
        source = self.local(job) if own else job.data
        try:
            result = run_task(net, task, before, source, progress, settings.compile, inner)
        except FloatingPointError:
            if not own or job.privacy.unit == "none":
                raise
            # A sponsor can choose weights with which one word overflows. A node that then sent
            # nothing would tell whether it has the word, and no noise is on that.
            nothing = {name: torch.zeros(shape) for name, shape in job.shapes.items()}
            return nothing, None, None
        trace = trace_of(task, result) if job.traced else None
        return result.pseudo_gradient, trace, result.inner

    def _progress(self, step: int, loss: float) -> None:
        self._context.metrics.loss.set(loss)
        crashpoint("trainer-training")
        self._context.log.debug("step", step=step, loss=round(loss, 4))

    def _private_progress(self, step: int, loss: float) -> None:
        """Without the loss, which is that of the node's own examples and was not noised."""
        crashpoint("trainer-training")
        self._context.log.debug("step", step=step)

    def _proof(
        self, job: JobContext, task: WorkOrder, trace: Trace, spent_s: float
    ) -> ProofOfComputation:
        settings = self._context.settings.trainer
        raw, tee = trace.to_bytes(), settings.attestation
        local = self.local(job) if job.spec.access == "local" else None
        spent_ms = int(spent_s * 1000)
        if job.privacy.unit == "example":
            # Steps take as long as their secret lots are large: told in whole seconds only.
            spent_ms = 1000 * math.ceil(spent_s)
        return ProofOfComputation(
            node=task.node,
            task=task.task_id.hex(),
            gradient_hash=trace.hashes[-1].hex(),
            trace_root=trace.root().hex(),
            trace=cid_of_bytes(raw),
            steps=task.steps,
            compute_time_ms=spent_ms,
            determinism_class=determinism_class(self._device, settings.compile),
            dataset=None if local is None else local.commitment(self._salt()).hex(),
            examples=local.examples if local and job.privacy.unit == "example" else None,
            tee_kind=None if tee is None else "opaque",
            tee_attestation=None if tee is None else tee.read_bytes().hex(),
        )

    def _salt(self) -> bytes:
        """What keeps the dataset's commitment from confirming a guess: drawn once, kept."""
        journal = self._context.journal
        if journal.get("dataset-salt") is None:
            journal.put("dataset-salt", secrets.token_hex(SALT_BYTES))
        return bytes.fromhex(journal.get("dataset-salt"))
