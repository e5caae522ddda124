# SPDX-License-Identifier: Apache-2.0
"""A trainer's round where the model is split: it holds one stage for an epoch.

The node reads its stage alone, works through the epoch with its neighbours (`agents.pipeline`), and
commits to what it did: the change of its stage, its log, and the entries that the log came of. Its
post is opened with the first such job, and stays open for the next epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from agents.jobs.job import JobContext
from agents.jobs.model_files import stage_of
from agents.pipeline.addresses import AddressBook, Inquiry
from agents.pipeline.checkpoint import States, published
from agents.pipeline.clasp import stated
from agents.pipeline.collector import beside
from agents.pipeline.entries_file import class_of_entries
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import most_sent, unpacked
from agents.pipeline.letters import Announcement, Domain, domain
from agents.pipeline.mailbox import Running
from agents.pipeline.miner import Finished, Miner
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.schedule import Times
from agents.pipeline.work import StageWork, change
from agents.protocol.network import Network
from agents.protocol.view import View
from agents.rounds.carried import Kept
from agents.rounds.codec_memory import Memories
from agents.rounds.mined import max_message_bytes
from agents.rounds.models import Models
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.stage_payload import packed
from agents.rounds.work import Outgoing, Work
from agents.runtime.context import Context
from agents.storage.cid import cid_of_bytes, cid_of_file
from agents.training.assignment import task_id
from agents.training.determinism import determinism_class
from agents.training.spec import Hyperparameters
from agents.training.state import State, model_hash, save_state

_WINDOW = 0.7  # of what is left of the COMMIT phase: the rest is for the commitment to be mined
_ADDRESSES_S = 5.0  # how long addresses of the stages beside are waited for
_ASK_S = 3.0  # between two looks for addresses


class Mining:
    """The epochs of one trainer node."""

    def __init__(
        self,
        context: Context,
        network: Network,
        models: Models,
        memories: Memories,
        device: str,
        outgoing: Outgoing,
        work: type[StageWork] = StageWork,
    ) -> None:
        """`outgoing`: called with the change of the stage, and with what is owed, before it is
        encoded; an honest trainer returns the change as it is. `work`: what executes entries."""
        self._context, self._network, self._models = context, network, models
        self._memories, self._device = memories, device
        self._outgoing, self._kind = outgoing, work
        self._where = domain(network.deployment.chain_id, network.rounds.address)
        self._operators: dict[int, str] = {}
        self._book = AddressBook(self._where, lambda node: self._operators.get(node))
        self._opened: _Opened | None = None
        self._unseated: tuple[int, int] | None = None

    def produce(
        self, job: JobContext, view: View, plan: Plan, node: int, kept: Kept, states: States
    ) -> Work | None:
        """Work through the epoch; None if the node was stopped at it, holds no stage, or began it
        in another determinism class.

        `kept`: see `StageMemories.before`. `states`: where the epoch's states go, if it has
        segments.
        """
        epoch = plan.epoch
        if epoch is None:
            self._say_unseated(view)
            return None
        stage = epoch.stage_of(node)
        if stage is None or not self._has_room(job, view, stage):
            return None
        began = time.monotonic()
        deadline = began + _WINDOW * max(0, view.round.deadline - view.now)
        self._drop_older(epoch)
        if self._is_bound_elsewhere(view, epoch):
            return None
        before = stage_of(job, self._models.at(view.job_id, view.round.prev_model, stage), stage)
        self._meet(epoch, node, view.round.opened_block)
        start = partial(self._work, job, epoch, node, before, plan.step, states)
        with self._context.metrics.busy("train"):
            finished = self._mine(job, epoch, node, start, deadline)
        if finished is None:
            return None
        spent_s = time.monotonic() - began
        return self._result(job, plan, node, before, finished, spent_s, kept, states)

    def _work(
        self,
        job: JobContext,
        epoch: Epoch,
        node: int,
        before: State,
        step: int,
        states: States,
    ) -> StageWork:
        assert job.slices is not None and job.spec.pipeline is not None
        hyper = Hyperparameters.of(job.spec, step)
        place = job.slices, epoch, node, before, hyper, job.data.batch
        recompute = self._context.settings.trainer.recompute
        most, how = job.spec.pipeline.local_batch, (self._device, recompute)
        states.clear()  # the entries are executed again, from the first one
        return self._kind(*place, most, *how, job.spec.segment, states.put)

    def _mine(
        self,
        job: JobContext,
        epoch: Epoch,
        node: int,
        start: Callable[[], StageWork],
        deadline: float,
    ) -> Finished | None:
        slices, pipeline, optimizer = job.slices, job.spec.pipeline, job.spec.optimizer
        assert slices is not None and pipeline is not None and self._opened is not None
        shape = slices.code_shape(optimizer.batch_size, optimizer.seq_len)

        def check(kind: Kind, data: bytes, sender: int) -> None:
            unpacked(slices.boundary, kind, data, shape, most_sent(epoch, kind, sender))

        running = Running(
            epoch=epoch,
            miner=node,
            operators=dict(self._operators),
            max_message=max_message_bytes(job),
            check=check,
            # Samples that its sender has under way, and as many that it gave up meanwhile.
            max_waiting=2 * pipeline.local_batch,
        )
        due = len(epoch.due(node))
        facts = {"round": epoch.number, "stage": epoch.stage_of(node)}
        self._context.log.info("stage", due=due, **facts)
        settings = self._context.settings.trainer
        miner = Miner(
            start,
            running,
            self._context.wallet,
            self._where,
            self._opened.post,
            self._entries_of(epoch),
            pipeline.local_batch,
            pipeline.local_batch,
            self._context.log,
            Times(answer=settings.answer_s, linger=settings.linger_s, gather=settings.gather_s),
            store=self._models.store if settings.post_store else None,
        )
        finished = miner.run(deadline, self._context.stop.is_set)
        if finished is not None:
            passes = finished.work.log().backward_passes
            self._context.log.info("epoch", steps=finished.work.steps, passes=passes, **facts)
        return finished

    def _drop_older(self, epoch: Epoch) -> None:
        """Drop the entries of earlier rounds. Those of the same round stay: a second reorg may
        bring an old seed back, and what was signed under it must not be signed again with other
        bits."""
        for old in self._context.artefacts.glob(f"epoch-{epoch.job}-*"):
            if not old.name.startswith(f"epoch-{epoch.job}-{epoch.number}-"):
                old.unlink(missing_ok=True)

    def _is_bound_elsewhere(self, view: View, epoch: Epoch) -> bool:
        """Whether the entries were made in another determinism class. Executed here they would give
        other bits than were signed and sent, which is INVALID; not to commit costs nothing."""
        label = determinism_class(self._device, False)
        bound = class_of_entries(self._entries_of(epoch), label)
        if bound == label:
            return False
        why = f"its letters of this round were made in the class {bound}, and this is {label}"
        self._say_unseated(view, f"{why}: the node commits to nothing in it")
        return True

    def _entries_of(self, epoch: Epoch) -> Path:
        name = f"epoch-{epoch.job}-{epoch.number}-{epoch.seed.hex()[:16]}.entries"
        return self._context.artefacts / name

    def _result(
        self,
        job: JobContext,
        plan: Plan,
        node: int,
        before: State,
        finished: Finished,
        spent_s: float,
        kept: Kept,
        states: States,
    ) -> Work:
        work, log = finished.work, finished.work.log()
        own = change(before, work.state())
        assert plan.epoch is not None and job.spec.pipeline is not None
        owed = self._memories.before(plan.epoch.job, plan, node, kept)
        update = self._outgoing(own, owed)
        payload, after = packed(job, plan, node, update, owed)
        trace = log.to_bytes()
        with finished.inbox.open("rb") as entries:
            inbox = cid_of_file(entries)
        proof = ProofOfComputation(
            node=node,
            task=task_id(plan.epoch.job, plan.step, node).hex(),
            gradient_hash=model_hash(update).hex(),
            trace_root=log.root().hex(),
            trace=cid_of_bytes(trace),
            steps=work.steps,
            compute_time_ms=int(spent_s * 1000),
            determinism_class=determinism_class(self._device, False),
            busy_ms=max(1, int(1000 * finished.busy_s)) if job.spec.measured_paths else None,
            inbox=inbox,
            losses=stated(work.losses),
            memory=job.memory if job.spec.pipeline.declared_memory else None,
            **self._states(job, work, states),
        )
        rest = None if after is None else save_state(after)
        return Work(payload, trace, proof.to_bytes(), log.root(), rest, finished.inbox)

    def _states(self, job: JobContext, work: StageWork, states: States) -> dict[str, Any]:
        """What the proof says of the epoch's states, which lie in files."""
        if not job.spec.segment or not work.steps:
            return {}
        named = states.named(published(work.steps, job.spec.segment))
        weights = states.end(work.state())
        optimizer = model_hash(work.optimizer()).hex()
        return {"states": named, "weights": weights, "optimizer": optimizer}

    # -- the neighbours ------------------------------------------------------------------------

    def _meet(self, epoch: Epoch, node: int, opened: int) -> None:
        """Learn who the epoch's operators are, and where those of the stages beside are."""
        everybody = [miner for stage in epoch.stages for miner in stage]
        self._operators = self._network.operators_at(everybody, opened)
        if self._opened is not None and self._opened.node != node:  # the key serves another one now
            self._opened.close()
            self._opened = None
        if self._opened is None:
            self._opened = _Opened(self._context, self._where, self._book, node)
        self._opened.post.statements.expect(epoch, self._operators)
        around = beside(epoch, node)
        end = time.monotonic() + _ADDRESSES_S
        while time.monotonic() < end and not self._context.stop.is_set():
            if not any(self._unknown(around)):
                return
            self._opened.ask()
            self._context.stop.wait(0.2)
        self._context.log.warning("addresses_missing", nodes=list(self._unknown(around)))

    def post_of(self, epoch: Epoch, node: int, opened: int) -> Post:
        """The node's post, which takes statements of the epoch's miners. It is opened if a restart
        closed it. `opened`: the block in which the round was opened."""
        if self._opened is None:
            self._meet(epoch, node, opened)
        assert self._opened is not None
        everybody = [miner for stage in epoch.stages for miner in stage]
        operators = self._network.operators_at(everybody, opened)
        self._opened.post.statements.expect(epoch, operators)
        return self._opened.post

    def _unknown(self, miners: Iterable[int]) -> Iterable[int]:
        return (miner for miner in miners if self._book.url_of(miner) is None)

    def _has_room(self, job: JobContext, view: View, stage: int) -> bool:
        """Whether the machine can hold a stage. In the first round nobody has declared anything."""
        need = job.stages_need[stage]
        if need <= job.memory:
            return True
        why = f"stage {stage} takes {need} bytes of memory, and there are {job.memory} for it"
        self._say_unseated(view, why)
        return False

    def _say_unseated(
        self, view: View, why: str = "fewer nodes are in the round than the model has stages"
    ) -> None:
        place = view.job_id, view.round_id
        if self._unseated != place:
            self._unseated = place
            self._context.log.warning("no_stage", round=view.round_id, why=why)

    def close(self) -> None:
        """Take no more letters."""
        if self._opened is not None:
            self._opened.close()


class _Opened:
    """The node's post, and its inquiries after other posts."""

    def __init__(self, context: Context, where: Domain, book: AddressBook, node: int) -> None:
        settings = context.settings.trainer
        self.node = node
        self._book, self._peers = book, tuple(settings.post_peers)
        place, listen = (settings.post_host, settings.post_port), settings.post_listen
        self.post = Post(*place, context.log, where, book, listen=listen)
        url = (settings.post_url or self.post.url) if listen else ""
        self._own = Announcement.signed(context.wallet, where, node, url, int(time.time()))
        self._inquiry = Inquiry(book, self._peers, lambda: self._own, every_s=_ASK_S)

    def ask(self) -> None:
        """Look for addresses now."""
        self._book.ask(self._peers, self._own, timeout_s=1.0)

    def close(self) -> None:
        """Stop both."""
        self._inquiry.stop()
        self.post.stop()
