# SPDX-License-Identifier: Apache-2.0
"""Three stages of three miners that merge shards, each with a post of its own.

The chain's answers are fixed values.
"""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from eth_utils import keccak
from torch import Tensor

from agents.pipeline.addresses import AddressBook
from agents.pipeline.butterfly import Butterfly
from agents.pipeline.epoch import Epoch
from agents.pipeline.letters import Announcement
from agents.pipeline.post import Post
from agents.pipeline.shards import Statement
from agents.protocol.structs import Reveal
from agents.rounds.gathering import Gathering
from agents.rounds.outcome import Outcome
from agents.rounds.reader import RoundReader
from agents.rounds.report import RoundReport
from agents.rounds.shares import Shares, max_record_bytes
from agents.rounds.sharing import Sharing
from agents.storage.canonical import loads
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.training.state import State
from agents.verify.judging import result_errors
from tests.stage.memory.honest_round import DEVICE, SEED, ChainFacts, proposal_of
from tests.stage.memory.mined_round import (
    WALLETS,
    WHERE,
    MinedRound,
)
from tests.stage.memory.pipeline_epoch import quiet_log

NINE = tuple(range(2, 11))
AUDIT_SEED = keccak(text="drawn after the reveals")
WINDOW_S = 100
OPERATORS = {node: WALLETS[node].address for node in NINE}


def epoch_of(mined: MinedRound) -> Epoch:
    assert mined.plan.epoch is not None
    return mined.plan.epoch


class Rounds(dict[int, Any]):
    address = WHERE["verifyingContract"]


class Chain(ChainFacts):
    """What Network would answer."""

    deployment = SimpleNamespace(chain_id=WHERE["chainId"])
    drawn = True

    def seed(self, job_id: int, round_id: int, round_: Any, audit: bool = False) -> bytes | None:
        if audit:
            return AUDIT_SEED if self.drawn else None
        return super().seed(job_id, round_id, round_)

    def operators_at(self, nodes: Sequence[int], block: int) -> dict[int, str]:
        return {node: WALLETS[node].address for node in nodes}


def chain_of(mined: MinedRound, revealed: dict[int, Reveal]) -> tuple[Any, Any]:
    """The chain, and a view of the round with half a minute of its window gone."""
    facts = Chain(mined.published)
    facts.rounds = Rounds()
    facts.revealed = revealed
    view = facts.open(1, SEED, NINE)
    view.job = SimpleNamespace(terms=SimpleNamespace(aggregate_s=WINDOW_S))
    view.now, view.round.deadline = 0, WINDOW_S
    return facts, view


@dataclass
class Miners:
    """All miners at their posts, and one proposer."""

    mined: MinedRound
    facts: Any
    view: Any
    posts: dict[int, Post]
    lies: dict[int, dict[int, float]]  # by owner: what it adds to the shard of each partner

    def reader(self, store: EmbeddedStore | None = None) -> RoundReader:
        return RoundReader(self.facts, store or self.mined.store, DEVICE)

    def share(self, owner: int) -> str | None:
        """One miner's part."""
        reader = self.reader()

        def outgoing(node: int, shards: dict[int, Tensor]) -> dict[int, Tensor]:
            add = self.lies.get(node, {})
            return {s: values + add[s] if s in add else values for s, values in shards.items()}

        context: Any = SimpleNamespace(wallet=WALLETS[owner], log=quiet_log())
        place = context, self.facts, self.mined.store, reader.models, reader.plans
        return Sharing(*place, lambda *_: self.posts[owner], outgoing).step(self.view, owner)

    def share_without(self, away: int, *owners: int) -> None:
        """The same of these, while the window goes by and the payload of one is nowhere."""
        everything, hidden = self.facts.revealed, self.mined.submit(away, missing="payload")
        self.facts.revealed = {**everything, away: hidden.reveal}
        self.view.now = WINDOW_S // 2
        for owner in owners:
            assert self.share(owner)
        self.facts.revealed, self.view.now = everything, 0

    def gathering(self, peers: Sequence[str] | None = None) -> Gathering:
        urls = [self.posts[NINE[0]].url] if peers is None else list(peers)
        settings = SimpleNamespace(post_peers=urls)
        context: Any = SimpleNamespace(settings=settings, log=quiet_log())
        return Gathering(context, self.facts, self.reader())

    def said(self) -> tuple[Statement, ...]:
        reader = self.reader()
        found = self.gathering().of(self.view, reader.submissions(self.view))
        assert found is not None
        return found.said

    def outcome(self) -> Outcome:
        """What an honest proposer makes of what it gathered, published."""
        reader = self.reader()
        outcome = reader.outcome(self.view, reader.submissions(self.view), said=self.said())
        assert outcome is not None
        reader.publish(outcome)
        return outcome

    def propose(self, outcome: Outcome, report: RoundReport | None = None) -> None:
        """What stands in the round."""
        self.mined.store.put_bytes((report or outcome.report).to_bytes())
        proposed = proposal_of(replace(outcome, report=report or outcome.report))
        self.facts.proposed = proposed
        self.view.round.result_hash = proposed.result_hash

    def wrong(self) -> list[str] | None:
        """What a verifier finds wrong with it."""
        return result_errors(self.reader(), self.view, patient=False)

    def stage_of(self, node: int) -> int:
        assert self.mined.plan.epoch is not None
        stage = self.mined.plan.epoch.stage_of(node)
        assert stage is not None
        return stage

    def butterfly(self, stage: int) -> Butterfly:
        epoch = self.mined.plan.epoch
        assert epoch is not None
        length = sum(math.prod(shape) for shape in self.mined.job.stage_shapes(stage).values())
        found = Shares(AUDIT_SEED, frozenset(NINE)).butterfly(epoch, stage, length)
        assert found is not None
        return found

    def mates(self, stage: int) -> tuple[int, ...]:
        assert self.mined.plan.epoch is not None
        return self.mined.plan.epoch.stages[stage]


def at_their_posts(shared: MinedRound) -> Iterator[Miners]:
    facts, view = chain_of(shared, {node: shared.submit(node).reveal for node in NINE})
    # What an earlier test left there.
    shutil.rmtree(shared.store.root / "boxes", ignore_errors=True)
    operators = {node: WALLETS[node].address for node in NINE}
    made: dict[int, Post] = {}
    for node in NINE:
        book = AddressBook(WHERE, operators.get)
        made[node] = Post("127.0.0.1", 0, quiet_log(), WHERE, book)
        made[node].statements.expect(epoch_of(shared), operators)
    for node in NINE:
        for other in NINE:
            url = made[other].url
            made[node].book.take(Announcement.signed(WALLETS[other], WHERE, other, url, 1))
    yield Miners(shared, facts, view, made, {})
    for post in made.values():
        post.stop()


class Distant(EmbeddedStore):
    """Searches a second for what some digests name and finds nothing; what others name it
    brings only when `brought` is set."""

    mute: frozenset[bytes] = frozenset()
    slow: frozenset[bytes] = frozenset()
    brought = threading.Event()

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        if digest in self.mute:
            time.sleep(1.0)
            raise NotFound("nobody has it")
        if digest in self.slow:
            assert self.brought.wait(60.0)
        return super().get_digest(digest, max_bytes)


def far_from(miners: Miners, node: int) -> tuple[Distant, Sharing]:
    reader, store = miners.reader(), Distant(miners.mined.store.root)
    context: Any = SimpleNamespace(wallet=WALLETS[node], log=quiet_log())
    place = context, miners.facts, store, reader.models, reader.plans
    return store, Sharing(*place, lambda *_: miners.posts[node])


def direct(mined: MinedRound) -> State:
    """The merge of each stage without shards."""
    whole: State = {}
    assert mined.plan.epoch is not None
    for miners in mined.plan.epoch.stages:
        whole |= mined.job.merge([mined.works[node].change for node in miners])
    return whole


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def line_of(miners: Miners, outcome: Outcome, stage: int) -> dict[str, Any]:
    record = next(part for part in outcome.parts if part.startswith(b'{"job"'))
    assert outcome.report.shards == cid_of_bytes(record)
    assert miners.mined.plan.epoch is not None
    assert len(record) <= max_record_bytes(miners.mined.plan.epoch)
    found: dict[str, Any] = loads(record)["stages"][stage]
    return found
