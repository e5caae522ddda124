# SPDX-License-Identifier: Apache-2.0
"""A codec's memory (error feedback) of any node, re-created from what is public.

Rule: memory starts empty every `codec.memory_rounds` finalized rounds and advances only in rounds
that were finalized with the node's payload accepted and not found invalid, by `codec.remember` of
the node's recomputed gradient and of the payload it revealed. So it is a function of the chain and
the store: a verifier finds the trainer's memory by doing the rounds since the last reset again, and
a trainer that lost its own does the same. At most `memory_rounds` tasks are redone, and each once.
Where nobody else has a node's data, nobody can redo its rounds. The node doesn't redo them either,
because its noise was drawn for one release only. Where nodes train as they like, nobody checks
their memory. In both cases a node that lost its own copy starts with an empty memory. An accepted
payload counts whether it was merged or not, because the node has sent what it contains.

Of a model that is split, `agents.rounds.stage_memory` has the rule.
"""

from __future__ import annotations

from collections import OrderedDict

from agents.jobs.job import JobContext
from agents.protocol.network import Network
from agents.rounds.models import Models
from agents.rounds.payload import max_payload_bytes, read_payload
from agents.rounds.plan import Plan, Plans
from agents.rounds.report import RoundReport
from agents.rounds.stage_memory import Kept, StageMemories
from agents.storage.content_store import ContentStore
from agents.training.assignment import work_order
from agents.training.replay import run_task
from agents.training.state import State

_KEPT = 64


class Memories:
    """Memories of nodes before a round; keeps the latest."""

    def __init__(
        self, network: Network, store: ContentStore, models: Models, plans: Plans, device: str
    ) -> None:
        self._network = network
        self._store = store
        self._models = models
        self._plans = plans
        self._device = device
        self._found: OrderedDict[tuple[bytes, int], State | None] = OrderedDict()
        self._stages = StageMemories(network, store, models, plans, device)

    def before(self, job_id: int, plan: Plan, node: int, kept: Kept | None = None) -> State | None:
        """The node's memory before the round of `plan`; None when it is empty.

        `kept` gives the node's own copies, which save it from doing its rounds again.
        Raises StoreError or PayloadError when an artefact of an earlier round can't be had.
        """
        job = self._models.job(job_id)
        if job.slices is not None:
            return self._stages.before(job_id, plan, node, kept)
        if not job.codec.has_memory:
            return None
        period = job.codec.memory_rounds
        reset = plan.step - plan.step % period
        if job.verification.own_memory_rounds is not None:
            reset = max(reset, plan.step - job.verification.own_memory_rounds)
        todo: list[tuple[int, int, RoundReport, bytes]] = []  # newest first
        memory: State | None = None
        for index in range(plan.step - 1, reset - 1, -1):
            entry = self._network.ledger_entry(job_id, index)
            number, digest = entry.round_id, entry.report
            report = self._models.report(digest)
            if node not in report.accepted():
                continue
            if self._network.in_round("is_invalid", job_id, number, [node]):
                continue
            if (digest, node) in self._found:
                memory = self._found[digest, node]
                break
            seed = self._network.round(job_id, number).seed
            mine = kept(job_id, number, seed) if kept is not None else None
            if mine is not None:
                memory = mine
                break
            if not job.verification.redone:
                break
            todo.append((index, number, report, digest))
        for _, number, report, digest in reversed(todo):
            memory = self._advance(job_id, job, number, report, node, memory)
            self._keep((digest, node), memory)
        return memory

    def _advance(
        self,
        job_id: int,
        job: JobContext,
        number: int,
        report: RoundReport,
        node: int,
        memory: State | None,
    ) -> State | None:
        """The memory after a finalized round, by doing the node's work of that round again."""
        plan = self._plans.past(job_id, number)
        before = self._models.at(job_id, bytes.fromhex(report.prev_model))
        task = work_order(
            plan.manifest, node, job.spec, job_id, plan.step, bytes.fromhex(report.prev_model)
        )
        try:
            gradient = run_task(job.net(self._device), task, before, job.data).pseudo_gradient
        except FloatingPointError:
            return memory  # what was accepted there was no training: it leaves nothing owed
        line = next(line for line in report.nodes if line.node == node)
        raw = self._store.get_digest(
            bytes.fromhex(line.content), max_payload_bytes(job.codec, job.shapes)
        )
        decoded = read_payload(raw, job.codec, job.shapes, plan.codec_seed(job.codec, node))
        return job.codec.remember(job.privacy.release(gradient), memory, decoded)

    def _keep(self, key: tuple[bytes, int], memory: State | None) -> None:
        self._found[key] = memory
        while len(self._found) > _KEPT:
            self._found.popitem(last=False)
