# SPDX-License-Identifier: Apache-2.0
"""What a miner still owes since the last full synchronisation, re-created from what is public.

Rule: as `agents.rounds.codec_memory`, of one stage. It starts empty after a full synchronisation
and advances in finalized rounds in which the node held the same stage and its payload was accepted
and not invalid (`Plan.invalid`), by its replayed change and the payload that it revealed. So a
verifier finds it by doing the node's epochs since then again, at most `full_every` - 1 of them,
each once. A node that was moved to another stage meanwhile owes nothing there. An epoch that can't
be replayed leaves nothing new: whoever sent it was not drawn then, and what it encodes with another
memory is wrong now.

A convicted node is locked, so it is in no round before its report has an end: it was slashed and
its mark stays, or the mark is gone. So what a round of the node left behind is the same for every
later round, and is kept by that round's report.
"""

from __future__ import annotations

from collections import OrderedDict

from agents.jobs.job import JobContext
from agents.jobs.model_files import stage_of
from agents.mechanisms.boundary import WireError
from agents.pipeline.stage import StageError
from agents.pipeline.work import StageWork, change, replay
from agents.protocol.network import Network
from agents.rounds.carried import Kept
from agents.rounds.mined import fetch_mined, read_inbox
from agents.rounds.models import Models
from agents.rounds.plan import Plan, Plans
from agents.storage.content_store import ContentStore
from agents.storage.errors import CorruptContent
from agents.training import last_bits
from agents.training.spec import Hyperparameters
from agents.training.state import State

_KEPT = 64


def begun(job: JobContext, plan: Plan, node: int, before: State, device: str) -> StageWork:
    """A miner's epoch before its first entry."""
    assert job.slices is not None and job.spec.pipeline is not None and plan.epoch is not None
    hyper, batch = Hyperparameters.of(job.spec, plan.step), job.data.batch
    place = job.slices, plan.epoch, node, before, hyper, batch
    return StageWork(*place, job.spec.pipeline.local_batch, device, segment=job.spec.segment)


class StageMemories:
    """Memories of miners before a round; keeps the latest."""

    def __init__(
        self, network: Network, store: ContentStore, models: Models, plans: Plans, device: str
    ) -> None:
        self._network, self._store = network, store
        self._models, self._plans, self._device = models, plans, device
        self._found: OrderedDict[tuple[bytes, int], State | None] = OrderedDict()

    def before(
        self,
        job_id: int,
        plan: Plan,
        node: int,
        kept: Kept | None = None,
        moved_by: bytes = b"",
    ) -> State | None:
        """What the node owes before the round of `plan`; None for nothing.

        `kept`: the node's own copies, which save it from doing its epochs again. `moved_by`: a seed
        by which the weights of those epochs are moved in their last bits, to see whether rounding
        decides what is owed; empty for the weights as they are. Raises StoreError or PayloadError
        when an artefact of an earlier round can't be had.
        """
        job, stage = self._models.job(job_id), None
        if plan.epoch is not None:
            stage = plan.epoch.stage_of(node)
        first = plan.step - plan.step % job.spec.full_every
        todo: list[tuple[int, bytes, Plan]] = []  # newest first
        memory: State | None = None
        for index in range(plan.step - 1, first - 1, -1) if stage is not None else ():
            entry = self._network.ledger_entry(job_id, index)
            number, digest = entry.round_id, entry.report
            past = self._plans.past(job_id, number)
            held = None if past.epoch is None else past.epoch.stage_of(node)
            if held not in (None, stage):
                break
            if held is None or not job.codec_at(index).has_memory:
                continue
            if node not in self._models.report(digest).accepted():
                continue
            if (number, node) in plan.invalid:
                continue
            if not moved_by and (digest, node) in self._found:
                memory = self._found[digest, node]
                break
            mine = None if kept is None else kept(job_id, number, past.manifest.seed)
            if mine is not None:
                memory = mine.owed
                break
            todo.append((number, digest, past))
        for number, digest, past in reversed(todo):
            memory = self._advance(job_id, job, number, past, node, memory, moved_by)
            if not moved_by:  # nobody asks by a seed again
                self._found[digest, node] = memory
        while len(self._found) > _KEPT:
            self._found.popitem(last=False)
        return memory

    def _advance(
        self,
        job_id: int,
        job: JobContext,
        number: int,
        past: Plan,
        node: int,
        memory: State | None,
        moved_by: bytes,
    ) -> State | None:
        """The memory after a finalized round, by doing the node's epoch of that round again."""
        assert past.epoch is not None
        stage = past.epoch.stage_of(node)
        assert stage is not None
        round_ = self._network.round(job_id, number)
        before = stage_of(job, self._models.at(job_id, round_.prev_model, stage), stage)
        reveal = self._network.reveals(job_id, number, round_.opened_block)[node]
        mined = fetch_mined(reveal, job, self._store, past, before)
        if mined.gradient is None:
            raise CorruptContent(
                f"what node {node} sent in round {number} can't be read any more: {mined.reason}"
            )
        if moved_by:
            before = last_bits.moved(before, moved_by)
        with read_inbox(mined, job, past.epoch, self._store) as entries:
            try:
                work = replay(begun(job, past, node, before, self._device), entries)
            except (StageError, WireError, FloatingPointError):
                return memory
        codec = job.codec_at(past.step)
        return codec.remember(change(before, work.state()), memory, mined.gradient)
