# SPDX-License-Identifier: Apache-2.0
"""A proposer gathers what the owners of shards stated, from their posts.

Rule: it asks the posts of the round's miners, and those that its settings name, for statements, and
looks into the epoch's box of the store. Of each owner it takes one that is signed, of this round,
and whose file of merged shards lies in the store and has the digests that it states. It waits for
owners until half of its window is over. Files are looked for side by side, since a distant store
searches a minute for each that nobody serves, and one that was missing is looked for again after a
pause as long as its search. One that comes slowly is not waited for (`agents.runtime.slow_calls`).
An owner that signs many statements without a file has four looked for at a time, those first that
were looked for least, and one only where there are many owners: the rest of the window is for the
others.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from agents.jobs.job import JobContext
from agents.pipeline.addresses import AddressBook
from agents.pipeline.epoch import Epoch
from agents.pipeline.letters import domain
from agents.pipeline.shards import Statement
from agents.pipeline.statements import LeftStatements, fetch
from agents.protocol.network import Network
from agents.protocol.view import View
from agents.rounds.quality import samples_that_count
from agents.rounds.reader import RoundReader
from agents.rounds.shares import Shares
from agents.rounds.stagewise import contributors_of
from agents.rounds.submissions import Submission
from agents.runtime.context import Context
from agents.runtime.slow_calls import WIDTH, SlowCalls
from agents.storage.errors import StoreError, StoreUnavailable

_PAUSE_S = 1.0  # between two rounds of questions
_WIDTH = 8  # posts that are asked at once
_WAIT_S = 10.0  # for one file; it is looked at again in the next step
_FILES = 4  # of one owner that are looked for after one round of questions; a post keeps as many


@dataclass
class _Found:
    """What was gathered for one round."""

    place: tuple[int, int, bytes]
    asked_at: float = 0.0
    good: dict[int, Statement] = field(default_factory=dict)
    tries: Counter[Statement] = field(default_factory=Counter)
    again_at: dict[Statement, float] = field(default_factory=dict)
    files: SlowCalls[Statement, bool] = field(default_factory=lambda: SlowCalls(_WAIT_S, "shards"))
    left: LeftStatements | None = None


@dataclass(frozen=True)
class Gathered:
    """`said`: good statements, by owner ascending. `complete`: nobody else is waited for. `blind`:
    nobody can be asked, so a proposal would leave out what others delivered."""

    said: tuple[Statement, ...]
    complete: bool
    blind: bool = False


class Gathering:
    """The statements of rounds, for one proposer. `clock`: seconds."""

    def __init__(
        self,
        context: Context,
        network: Network,
        reader: RoundReader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._context, self._network, self._reader = context, network, reader
        self._peers = tuple(context.settings.post_peers)
        self._where = domain(network.deployment.chain_id, network.rounds.address)
        self._operators: Mapping[int, str] = {}
        self._book = AddressBook(self._where, lambda node: self._operators.get(node))
        self._found: _Found | None = None
        self._blind_in = (0, 0)

    def of(self, view: View, submissions: Sequence[Submission]) -> Gathered | None:
        """What there is; None where a seed is not known yet, or in a job without a butterfly."""
        job, plan = self._reader.models.job(view.job_id), self._reader.plans.of(view)
        if not job.spec.butterfly or plan is None or plan.epoch is None:
            return None
        seed = self._network.seed(view.job_id, view.round_id, view.round, audit=True)
        if seed is None:
            return None
        if not self._peers:
            self._say_blind(view)
            return Gathered((), complete=False, blind=True)
        place = view.job_id, view.round_id, seed
        if self._found is None or self._found.place != place:
            if self._found is not None:
                self._found.files.forget()
            self._found = _Found(place)
        shares = Shares(seed, frozenset(s.reveal.node for s in submissions))
        due = self._due(job, plan.epoch, shares, submissions)
        missing = due - self._found.good.keys()
        now = self._clock()
        if missing and now - self._found.asked_at >= _PAUSE_S:
            self._found.asked_at = now
            opened = view.round.opened_block
            self._operators = self._network.operators_at(sorted(shares.revealed), opened)
            said = self._ask(plan.epoch, missing) + self._look(plan.epoch, self._found)
            self._take(job, plan.epoch, shares, said)
        good = self._found.good
        return Gathered(tuple(good[one] for one in sorted(good)), due <= good.keys())

    def _say_blind(self, view: View) -> None:
        if self._blind_in != (view.job_id, view.round_id):
            self._blind_in = view.job_id, view.round_id
            why = "the setting post_peers is empty, so no owner of shards can be asked"
            self._context.log.warning("cannot_propose", round=view.round_id, why=why)

    def _due(
        self, job: JobContext, epoch: Epoch, shares: Shares, submissions: Sequence[Submission]
    ) -> set[int]:
        """The owners that have something to state: those of stages that are merged."""
        passes = {node: len(done) for node, done in samples_that_count(epoch, submissions).items()}
        return {
            owner
            for stage in range(epoch.last + 1)
            if contributors_of(job, epoch, stage, passes)
            for owner in shares.owners(epoch, stage)
        }

    def _ask(self, epoch: Epoch, missing: Iterable[int]) -> list[Statement]:
        """What the posts of the missing, and those of the settings, give."""
        if any(self._book.url_of(owner) is None for owner in missing):
            self._book.look(self._peers)
        urls = {*self._peers, *(self._book.url_of(owner) or "" for owner in missing)} - {""}
        with ThreadPoolExecutor(_WIDTH) as pool:
            asked = pool.map(lambda url: fetch(url, epoch), sorted(urls))
            return [one for found in asked for one in found]

    def _look(self, epoch: Epoch, found: _Found) -> list[Statement]:
        """What lies in the epoch's box of the store."""
        if found.left is None:
            place = self._reader.store, self._where, epoch, self._operators
            found.left = LeftStatements(*place, self._context.log)
        return found.left.look()

    def _take(
        self, job: JobContext, epoch: Epoch, shares: Shares, said: Iterable[Statement]
    ) -> None:
        assert self._found is not None
        good, tries = self._found.good, self._found.tries
        again_at = self._found.again_at
        signed: dict[int, list[Statement]] = defaultdict(list)
        for one in dict.fromkeys(said):
            if one.owner in good:
                continue
            if shares.sound(epoch, [one], self._operators, self._where).statements:
                signed[one.owner].append(one)
        due = self._to_look_for(signed)
        tries.update(due)

        def look(one: Statement) -> bool:
            began = self._clock()
            there = self._has_file(job, epoch, shares, one)
            now = self._clock()
            again_at[one] = now + max(now - began, _PAUSE_S)
            return there

        files = self._found.files
        files.run({one: partial(look, one) for one in due})
        for one, there in files.take_ended().items():
            if there:
                good.setdefault(one.owner, one)

    def _to_look_for(self, signed: Mapping[int, Sequence[Statement]]) -> list[Statement]:
        """The statements whose files are looked for now: of each owner one, then their second."""
        assert self._found is not None
        now, again_at, tries = self._clock(), self._found.again_at, self._found.tries
        coming = self._found.files
        rows: list[tuple[int, Statement]] = []
        for found in signed.values():
            rested = [one for one in found if now >= again_at.get(one, 0.0)]
            may = [one for one in rested if one not in coming]
            rows += enumerate(sorted(may, key=tries.__getitem__)[:_FILES])
        rows.sort(key=lambda row: row[0])
        return [one for _, one in rows[: max(WIDTH, len(signed))]]

    def _has_file(self, job: JobContext, epoch: Epoch, shares: Shares, said: Statement) -> bool:
        """Whether the merged shards lie in the store, with the digests that are stated."""
        stage = epoch.stage_of(said.owner)
        assert stage is not None
        length = sum(math.prod(shape) for shape in job.stage_shapes(stage).values())
        butterfly = shares.butterfly(epoch, stage, length)
        assert butterfly is not None
        owned = butterfly.owned(said.owner)
        sizes = [butterfly.sizes[shard] for shard in owned]
        try:
            raw = self._reader.store.get_digest(said.content, 4 * sum(sizes))
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._context.log.debug("no_shards", of_node=said.owner, why=str(error))
            return False
        if len(raw) != 4 * sum(sizes) or len(said.digests) != len(owned):
            return False
        values = torch.from_numpy(np.frombuffer(raw, "<f4").copy()).split(sizes)
        found = (butterfly.digest(s, one) for s, one in zip(owned, values, strict=True))
        return all(one == other for one, other in zip(found, said.digests, strict=True))
