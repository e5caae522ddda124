# SPDX-License-Identifier: Apache-2.0
"""A trainer's part in the butterfly of its stage: it merges the shards that it owns, and says so.

Rule: once the audit seed is known, the node fetches all logs, and of its own stage's payloads what
lies in its shards (`agents.rounds.pieces`). It merges its shards, publishes them, and signs a
statement, which lies at its post and in a box of the store. A node without a post leaves it at
others', too. It waits for what is missing for a part of the window, for what is still coming longer
but less long than a proposer waits for it; what it then merged it says. All are looked for side by
side, since a distant store searches a minute for what nobody serves (`agents.runtime.slow_calls`).
Nobody loses anything by a statement that comes late or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from agents.jobs.job import JobContext
from agents.jobs.model_files import stage_of
from agents.mechanisms.merge import MergeRefused
from agents.pipeline.butterfly import Butterfly
from agents.pipeline.epoch import Epoch
from agents.pipeline.letters import domain
from agents.pipeline.post import Post
from agents.pipeline.relays import relays
from agents.pipeline.shards import Statement, merge_shards
from agents.pipeline.statements import leave, leave_in_store
from agents.protocol.network import Network
from agents.protocol.numbers import Phase
from agents.protocol.structs import Reveal
from agents.protocol.view import View
from agents.rounds.mined import Mined, fetch_log
from agents.rounds.models import Models
from agents.rounds.pieces import Pieces, fetch_pieces
from agents.rounds.plan import Plan, Plans
from agents.rounds.quality import samples_that_count
from agents.rounds.report import UNAVAILABLE
from agents.rounds.shares import Shares
from agents.rounds.stagewise import contributors_of
from agents.runtime.context import Context
from agents.runtime.faults import crashpoint
from agents.runtime.slow_calls import SlowCalls
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError
from agents.training.state import model_hash

_PATIENCE = 0.25  # of the window: how long a missing artefact is waited for
_LONGEST = 0.4  # the same, for one that is still coming: a proposer waits for half of it
_WAIT_S = 10.0  # for one artefact in one step
_COMING = f"{UNAVAILABLE}it is still coming"

_Found = tuple[Mined, Pieces | None]  # of a miner; pieces of the owner's own stage alone

# (owner, what it merged by shard) -> what it says that it merged.
Outgoing = Callable[[int, dict[int, Tensor]], dict[int, Tensor]]


def _as_it_is(owner: int, shards: dict[int, Tensor]) -> dict[int, Tensor]:
    return shards


class Sharing:
    """The shards of one trainer node.

    `post_of`: its post, by epoch, node and the block in which the round was opened. `outgoing`:
    what it publishes in place of its merges; an honest trainer the merges.
    """

    def __init__(
        self,
        context: Context,
        network: Network,
        store: ContentStore,
        models: Models,
        plans: Plans,
        post_of: Callable[[Epoch, int, int], Post],
        outgoing: Outgoing = _as_it_is,
    ) -> None:
        self._context, self._network, self._store = context, network, store
        self._models, self._plans = models, plans
        self._post_of, self._outgoing = post_of, outgoing
        self._where = domain(network.deployment.chain_id, network.rounds.address)
        self._done: tuple[int, int, bytes] | None = None
        self._read: dict[Reveal, Mined] = {}  # of the round below
        self._pieces: dict[Reveal, Pieces] = {}
        self._coming = SlowCalls[Reveal, _Found](_WAIT_S, "pieces")
        self._read_in: tuple[int, int, bytes] | None = None

    def step(self, view: View, node: int) -> str | None:
        """Merge and state, once a round; returns what was done."""
        if view.phase != Phase.AGGREGATE or not self._models.spec(view.job_id).butterfly:
            return None
        audit_seed = self._network.seed(view.job_id, view.round_id, view.round, audit=True)
        plan = self._plans.of(view)
        if audit_seed is None or plan is None or plan.epoch is None:
            return None
        place = view.job_id, view.round_id, audit_seed
        stage = plan.epoch.stage_of(node)
        if self._done == place or stage is None:
            return None
        reveals = self._network.reveals(view.job_id, view.round_id, view.round.opened_block)
        shares = Shares(audit_seed, frozenset(reveals))
        job = self._models.job(view.job_id)
        length = sum(math.prod(shape) for shape in job.stage_shapes(stage).values())
        butterfly = shares.butterfly(plan.epoch, stage, length)
        if butterfly is None or node not in butterfly.miners:
            self._done = place
            return None
        if self._read_in != place:
            self._read, self._pieces, self._read_in = {}, {}, place
            self._coming.forget()
        mined = self._look(view, job, plan, butterfly, node, reveals)
        if any(one.unavailable for one in mined) and self._elapsed(view) < _PATIENCE:
            return None
        if any(one.reason == _COMING for one in mined) and self._elapsed(view) < _LONGEST:
            return None
        did = self._state(job, plan.epoch, node, butterfly, mined, view.round.opened_block)
        self._done, self._read, self._pieces = place, {}, {}
        self._coming.forget()
        return did

    def _look(
        self,
        view: View,
        job: JobContext,
        plan: Plan,
        butterfly: Butterfly,
        owner: int,
        reveals: Mapping[int, Reveal],
    ) -> list[Mined]:
        """The logs of all, and what the owner needs of its stage's payloads."""
        epoch = plan.epoch
        assert epoch is not None
        stage = epoch.stage_of(owner)
        assert stage is not None
        before = self._models.at(view.job_id, view.round.prev_model, stage)
        start = model_hash(stage_of(job, before, stage))
        spans = [butterfly.spans[shard] for shard in butterfly.owned(owner)]

        def fetch(reveal: Reveal, kept: Pieces | None) -> _Found:
            if epoch.stage_of(reveal.node) != stage:
                return fetch_log(reveal, job, self._store, epoch), None
            pieces = kept or fetch_pieces(reveal, job, self._store, plan, stage, spans)
            if pieces.row is None:  # nobody's passes count by a log without a payload
                return Mined(reveal, None, pieces.reason, stage), None
            return fetch_log(reveal, job, self._store, epoch, start), pieces

        due = [r for _, r in sorted(reveals.items()) if r not in self._read]
        fresh = [reveal for reveal in due if reveal not in self._coming]
        self._coming.run({r: partial(fetch, r, self._pieces.get(r)) for r in fresh})
        found = dict(self._read)
        for reveal in due:
            if not self._coming.ended(reveal):
                at = epoch.stage_of(reveal.node)
                found[reveal] = Mined(reveal, None, _COMING, -1 if at is None else at)
                continue
            found[reveal], pieces = self._coming.take(reveal)
            if pieces is not None:
                self._pieces[reveal] = pieces
        # What is there need not be fetched again while others' is waited for.
        self._read = {reveal: one for reveal, one in found.items() if not one.unavailable}
        return [found[reveal] for _, reveal in sorted(reveals.items())]

    def _state(
        self,
        job: JobContext,
        epoch: Epoch,
        node: int,
        butterfly: Butterfly,
        mined: list[Mined],
        opened: int,
    ) -> str | None:
        stage = epoch.stage_of(node)
        assert stage is not None
        passes = {n: len(done) for n, done in samples_that_count(epoch, mined).items()}
        contributors = contributors_of(job, epoch, stage, passes)
        pieces = {reveal.node: one for reveal, one in self._pieces.items()}
        rows = [row for one in contributors if (row := pieces[one].row) is not None]
        if not rows or len(rows) != len(contributors):
            return None
        try:
            merged = merge_shards(butterfly, node, rows, job.merge)
        except MergeRefused as error:  # it sees too few of the stage's payloads
            self._context.log.warning("no_shards_merged", round=epoch.number, why=str(error))
            return None
        made = self._outgoing(node, merged)
        content = b"".join(made[shard].numpy().astype("<f4").tobytes() for shard in sorted(made))
        cid = self._store.put_bytes(content)
        self._store.pin(cid)
        crashpoint("trainer-before-shards")
        said = Statement(
            *(epoch.job, epoch.number, node, butterfly.seed, contributors, digest_of(cid)),
            tuple(butterfly.digest(shard, made[shard]) for shard in sorted(made)),
        ).by(self._context.wallet, self._where)
        post = self._post_of(epoch, node, opened)
        post.statements.put(said)
        try:
            leave_in_store(self._store, self._where, epoch, said)
        except StoreError as error:
            self._context.log.debug("statement_not_in_the_store", why=str(error)[:200])
        if not post.url:
            urls = (post.book.url_of(one) for one in relays(epoch, node, post.book.url_of))
            for url in urls:
                if url:
                    leave(url, said)
        self._context.log.info(
            "shards",
            round=epoch.number,
            stage=stage,
            of=len(butterfly.pairs),
            owned=len(made),
            contributors=len(contributors),
            downloaded=sum(one.fetched for mate, one in pieces.items() if mate != node),
            uploaded=len(content),
        )
        return f"merged: {len(made)} shards of round {epoch.number}"

    def _elapsed(self, view: View) -> float:
        return 1 - max(0, view.round.deadline - view.now) / view.job.terms.aggregate_s
