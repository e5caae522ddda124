# SPDX-License-Identifier: Apache-2.0
"""A stage's miners merge its shards, a proposer gathers them over HTTP, and everybody checks.

Three stages of three miners, each with a post of its own; the chain's answers are fixed values.
"""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from eth_utils import keccak
from torch import Tensor

from agents.jobs.job import SpecError
from agents.pipeline.addresses import AddressBook
from agents.pipeline.butterfly import Butterfly, valid_shards
from agents.pipeline.epoch import Epoch
from agents.pipeline.letters import Announcement
from agents.pipeline.post import Post
from agents.pipeline.presence import box_of
from agents.pipeline.shards import MAX_STATEMENT, Statement, flat, unflat
from agents.pipeline.statements import LeftStatements, Statements, fetch, leave_in_store
from agents.protocol.numbers import Violation
from agents.protocol.structs import Reveal
from agents.rounds import sharing as sharing_file
from agents.rounds.gathering import Gathering
from agents.rounds.outcome import Outcome, disagreements
from agents.rounds.proposer import Proposer
from agents.rounds.reader import RoundReader
from agents.rounds.report import ReportError, RoundReport
from agents.rounds.shares import Shares, max_record_bytes, read_record
from agents.rounds.sharing import Sharing
from agents.storage.canonical import dumps, loads
from agents.storage.cid import Buffer, cid_of_bytes
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.training.spec import demo_spec
from agents.training.state import State
from agents.verify.judging import Judge, result_errors
from agents.verify.spot_checks import malformed
from tests.stage.memory.honest_round import DEVICE, SEED, ChainFacts, proposal_of
from tests.stage.memory.mined_round import (
    PIPELINE,
    WALLETS,
    WHERE,
    MinedRound,
    make_mined_job,
    make_mined_round,
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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    pipeline = {**PIPELINE, "all_reduce": "butterfly", "least_valid": 0.5}
    store = EmbeddedStore(tmp_path_factory.mktemp("shared") / "store")
    return make_mined_round(store, NINE, batches_per_round=18, pipeline=pipeline)


@pytest.fixture(scope="module")
def trimming(shared: MinedRound) -> MinedRound:
    """The same work, in a job whose merge is the trimmed mean."""
    fields = {"batches_per_round": 18, "merge": "trimmed_mean"}
    pipeline = shared.job.spec.pipeline
    assert pipeline is not None
    tiny, plan = make_mined_job(
        shared.store, NINE, pipeline=pipeline.model_dump(exclude_unset=True), **fields
    )
    return MinedRound(shared.store, tiny.published, tiny.job, tiny.before, plan, shared.works)


@pytest.fixture
def trimmers(trimming: MinedRound) -> Iterator[Miners]:
    yield from at_their_posts(trimming)


@pytest.fixture
def miners(shared: MinedRound) -> Iterator[Miners]:
    yield from at_their_posts(shared)


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


def test_all_shards_are_delivered_and_a_verifier_attests(miners: Miners) -> None:
    for node in NINE:
        assert "merged: 2 shards" in (miners.share(node) or "")
    outcome = miners.outcome()
    assert same(outcome.merged, direct(miners.mined)) and not outcome.lies
    line = line_of(miners, outcome, 0)
    assert line["owners"] == line["contributors"] == list(miners.mates(0))
    assert (line["lost"], line["liars"], line["accepted"]) == ([], [], True)
    miners.propose(outcome)
    assert miners.wrong() == []


@pytest.mark.parametrize("killed", [1, 2])
def test_shards_of_owners_that_died_after_their_reveal_keep_their_weights(
    miners: Miners, killed: int
) -> None:
    dead = miners.mates(1)[:killed]
    for node in NINE:
        if node not in dead:
            miners.share(node)
    for node in dead:
        miners.posts[node].stop()
    outcome = miners.outcome()
    lost = line_of(miners, outcome, 1)["lost"]
    assert 3 - len(lost) == valid_shards(3, killed)
    wanted = flat({n: direct(miners.mined)[n] for n in miners.mined.job.stage_shapes(1)})
    moved = flat({n: outcome.merged[n] for n in miners.mined.job.stage_shapes(1)})
    for shard, (first, last) in enumerate(miners.butterfly(1).spans):
        kept = torch.zeros(last - first) if shard in lost else wanted[first:last]
        assert torch.equal(moved[first:last], kept)
    assert all(line.contribution for line in outcome.report.nodes), "the dead are paid for passes"
    miners.propose(outcome)
    assert miners.wrong() == []


def test_where_too_few_shards_are_delivered_the_stage_keeps_its_weights(miners: Miners) -> None:
    silent = miners.mates(2)
    for node in NINE:
        if node not in silent:
            miners.share(node)
    outcome = miners.outcome()
    shapes = miners.mined.job.stage_shapes(2)
    assert not any(outcome.merged[name].any() for name in shapes)
    assert all(outcome.merged[name].any() for name in miners.mined.job.stage_shapes(0))
    lines = {line.node: line for line in outcome.report.nodes}
    assert all("0 of 3 shards were delivered" in lines[node].reason for node in silent)
    assert all(lines[node].contribution for node in silent)
    miners.propose(outcome)
    assert miners.wrong() == []


def test_a_liar_changes_nothing_and_is_found_by_verifier_and_committee(miners: Miners) -> None:
    liar = miners.mates(0)[1]
    miners.lies[liar] = dict.fromkeys(range(3), 0.5)
    for node in NINE:
        miners.share(node)
    outcome = miners.outcome()
    assert same(outcome.merged, direct(miners.mined)) and outcome.lies.keys() == {liar}
    line = line_of(miners, outcome, 0)
    assert [[one, len(shards)] for one, shards in line["liars"]] == [[liar, 2]]
    assert sum(row.count(False) for row in line["agreement"]) == 4
    miners.propose(outcome)
    assert miners.wrong() == []
    reader = miners.reader()
    submissions = reader.submissions(miners.view)
    found = reader.outcome(miners.view, submissions, reader.proposed(miners.view, submissions))
    assert found is not None
    inputs = reader.inputs(miners.view, submissions)
    assert inputs is not None and malformed(inputs) == []
    (finding,) = malformed(replace(inputs, lies=found.lies))
    assert (finding.node, finding.violation) == (liar, Violation.INVALID)
    said = Statement.from_json(loads(finding.evidence)["statement"])
    assert said.signer(WHERE) == WALLETS[liar].address
    judge = Judge(miners.facts, miners.mined.store, DEVICE)
    assert judge.is_innocent(miners.view, liar) is False
    assert judge.is_innocent(miners.view, miners.mates(0)[0]) is True


def test_before_a_result_stands_nobody_is_accused_of_its_shards(miners: Miners) -> None:
    """A committee may be asked about a node's work before there is a proposal."""
    miners.lies[NINE[0]] = dict.fromkeys(range(3), 0.5)
    for node in NINE:
        miners.share(node)
    reader = miners.reader()
    assert reader.proposed(miners.view, reader.submissions(miners.view)) is None
    judge = Judge(miners.facts, miners.mined.store, DEVICE)
    assert judge.is_innocent(miners.view, NINE[0]) is True


def test_a_pair_that_agrees_on_a_lie_in_its_shard_is_found(miners: Miners) -> None:
    one, two, _ = miners.mates(0)
    common = miners.butterfly(0).pairs.index((one, two))
    miners.lies = {one: {common: 0.5}, two: {common: 0.5}}
    for node in NINE:
        miners.share(node)
    outcome = miners.outcome()
    assert outcome.lies.keys() == {one, two}
    assert all(lie["shards"] == [common] for lie in outcome.lies.values())
    assert same(outcome.merged, direct(miners.mined))


def test_who_sees_a_payload_too_late_is_no_liar(miners: Miners) -> None:
    """It merges the others', and says so."""
    late, blind, other = miners.mates(0)
    miners.share_without(late, blind)
    for node in NINE:
        if node != blind:
            miners.share(node)
    outcome = miners.outcome()
    line = line_of(miners, outcome, 0)
    assert (line["elsewhere"], line["liars"], line["lost"]) == ([blind], [], [])
    assert same(outcome.merged, direct(miners.mined)) and other in line["owners"]


def test_a_miner_that_shows_its_payload_to_proposers_alone_freezes_nothing(miners: Miners) -> None:
    """Attack: no mate has it, so each of them states the merge of fewer than the result has, and
    the miner itself states none. It has its pay, and its stage moves as if all had seen it."""
    hidden_from_mates(miners)


def test_nor_does_it_where_two_payloads_are_left_to_trim(trimmers: Miners) -> None:
    """The trimmed mean refused fewer than three: no mate stated anything, the stage stood still."""
    assert len(trimmers.mates(0)) == 3 and trimmers.mined.job.spec.merge == "trimmed_mean"
    hidden_from_mates(trimmers)


def hidden_from_mates(miners: Miners) -> None:
    cheat, *mates = miners.mates(0)
    miners.share_without(cheat, *mates)
    for node in NINE:
        if node not in miners.mates(0):
            miners.share(node)
    outcome = miners.outcome()
    line = line_of(miners, outcome, 0)
    assert line["contributors"] == [cheat, *mates] and line["elsewhere"] == mates
    assert (line["lost"], line["liars"], line["unjudged"]) == ([], [], [])
    assert same(outcome.merged, direct(miners.mined))
    miners.propose(outcome)
    assert miners.wrong() == []


def test_who_lies_about_a_merge_of_fewer_is_found(miners: Miners) -> None:
    liar, away, _ = miners.mates(0)
    common = miners.butterfly(0).pairs.index((liar, away))
    miners.lies[liar] = {common: 0.5}
    miners.share_without(away, liar)
    for node in NINE:
        if node != liar:
            miners.share(node)
    outcome = miners.outcome()
    line = line_of(miners, outcome, 0)
    assert (line["elsewhere"], line["liars"]) == ([liar], [[liar, [common]]])
    assert outcome.lies.keys() == {liar}
    miners.propose(outcome)
    assert miners.wrong() == []


def test_a_payload_that_is_spoilt_where_few_look_is_left_out_and_freezes_nothing(
    miners: Miners,
) -> None:
    """Its miner is not paid; the stage moves by the others' merge, and verifiers agree."""
    cheat, *others = miners.mates(0)
    butterfly = miners.butterfly(0)
    shard = butterfly.pairs.index((others[0], others[1]))
    whole = flat(miners.mined.works[cheat].change)
    whole[butterfly.spans[shard][0]] = torch.nan
    spoilt = dict(unflat(whole, miners.mined.job.stage_shapes(0)))
    reveal = miners.mined.submit(cheat, payload=miners.mined.encode(spoilt)).reveal
    miners.facts.revealed = {**miners.facts.revealed, cheat: reveal}
    for node in NINE:
        assert miners.share(node)
    said = {one.owner: one.contributors for one in miners.said()}
    assert said[cheat] == miners.mates(0), "it alone does not look there"
    assert said[others[0]] == said[others[1]] == tuple(others)
    outcome = miners.outcome()
    line = line_of(miners, outcome, 0)
    assert (line["contributors"], line["unjudged"]) == (others, [])
    assert (line["lost"], line["liars"], line["accepted"]) == ([], [], True)
    rule = miners.mined.job.merge
    wanted = rule([miners.mined.works[node].change for node in others])
    assert same({name: outcome.merged[name] for name in wanted}, dict(wanted))
    lines = {line.node: line for line in outcome.report.nodes}
    assert not lines[cheat].accepted and not lines[cheat].contribution
    miners.propose(outcome)
    assert miners.wrong() == []


def test_a_liar_is_convicted_though_its_friend_spoils_a_payload_that_it_names(
    miners: Miners,
) -> None:
    """Attack: with the friend's piece its digests are of no merge that anybody publishes. Verifier
    and committee read the piece, and agree with the proposer to the bit of its record."""
    friend, liar, other = miners.mates(0)
    butterfly = miners.butterfly(0)
    hidden = butterfly.pairs.index((friend, other))
    whole = flat(miners.mined.works[friend].change)
    whole[butterfly.spans[hidden][0]] = torch.nan
    spoilt = dict(unflat(whole, miners.mined.job.stage_shapes(0)))
    reveal = miners.mined.submit(friend, payload=miners.mined.encode(spoilt)).reveal
    miners.facts.revealed = {**miners.facts.revealed, friend: reveal}
    common = butterfly.pairs.index((friend, liar))
    miners.lies[liar] = {common: 0.5}
    for node in NINE:
        miners.share(node)
    outcome = miners.outcome()
    assert {one.owner: one.contributors for one in miners.said()}[liar] == miners.mates(0)
    line = line_of(miners, outcome, 0)
    assert (line["unjudged"], line["liars"]) == ([], [[liar, [common]]])
    assert outcome.lies.keys() == {liar}
    rule = miners.mined.job.merge
    wanted = rule([miners.mined.works[node].change for node in (liar, other)])
    assert same({name: outcome.merged[name] for name in wanted}, dict(wanted))
    miners.propose(outcome)
    assert miners.wrong() == []
    judge = Judge(miners.facts, miners.mined.store, DEVICE)
    assert judge.is_innocent(miners.view, liar) is False
    assert judge.is_innocent(miners.view, other) is True
    # A proposer that calls the lie unjudged is not attested by whoever had the payload in time.
    record = loads(next(part for part in outcome.parts if part.startswith(b'{"job"')))
    record["stages"][0] |= {"unjudged": [[liar, [common]]], "liars": []}
    cid = miners.mined.store.put_bytes(dumps(record))
    miners.propose(outcome, outcome.report.model_copy(update={"shards": cid}))
    assert miners.wrong() is None


def test_a_liar_is_convicted_though_its_friend_publishes_when_the_result_stands(
    miners: Miners,
) -> None:
    """Who is looked at follows from the result. A lie about a shard is no matter of that."""
    friend, liar, _ = miners.mates(0)
    miners.lies[liar] = dict.fromkeys(range(3), 0.5)
    for node in NINE:
        miners.share(node)
    said, poor = miners.said(), Distant(miners.mined.store.root)
    poor.mute = frozenset({miners.facts.revealed[friend].content})
    reader = miners.reader(poor)
    outcome = reader.outcome(miners.view, reader.submissions(miners.view), said=said)
    assert outcome is not None and not outcome.lies
    assert dict(line_of(miners, outcome, 0)["unjudged"])[liar]
    miners.reader().publish(outcome)
    miners.propose(outcome)
    reader = miners.reader()
    everything = reader.submissions(miners.view)
    counted = reader.counted(miners.view, everything)
    assert [s.reveal.node for s in counted if s.gradient is None] == [friend]
    report = reader.proposed(miners.view, counted)
    found = reader.outcome(miners.view, counted, report)
    assert found is not None and report is not None and not found.lies
    assert reader.lies(miners.view, everything, found, report).keys() == {liar}
    judge = Judge(miners.facts, miners.mined.store, DEVICE)
    assert judge.is_innocent(miners.view, liar) is False


def test_a_miner_waits_for_the_seed_and_for_payloads(miners: Miners) -> None:
    node = NINE[0]
    miners.facts.drawn = False
    assert (
        miners.share(node) is None and fetch(miners.posts[node].url, epoch_of(miners.mined)) == []
    )
    miners.facts.drawn = True
    mate = next(m for m in miners.mates(miners.stage_of(node)) if m != node)
    away = miners.mined.submit(mate, missing="payload")
    miners.facts.revealed = {**miners.facts.revealed, mate: away.reveal}
    assert (
        miners.share(node) is None and fetch(miners.posts[node].url, epoch_of(miners.mined)) == []
    )
    miners.view.now = WINDOW_S // 2
    assert miners.share(node)


def test_a_miner_fetches_no_payload_of_another_stage(miners: Miners) -> None:
    node = NINE[0]
    reader, asked, put = miners.reader(), dict[bytes, int](), list[int]()

    class Watched(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            raw = super().get_digest(digest, max_bytes)
            asked[digest] = len(raw)
            return raw

        def put_bytes(self, data: Buffer) -> str:
            put.append(len(bytes(data)))
            return super().put_bytes(data)

    context: Any = SimpleNamespace(wallet=WALLETS[node], log=quiet_log())
    store = Watched(miners.mined.store.root)
    place = context, miners.facts, store, reader.models, reader.plans
    assert Sharing(*place, lambda *_: miners.posts[node]).step(miners.view, node)
    mates = miners.mates(miners.stage_of(node))
    contents = {reveal.content: one for one, reveal in miners.facts.revealed.items()}
    assert {contents[digest] for digest in asked if digest in contents} == set(mates)
    # W for each miner of the stage, and 2W/n for the shards that it owns.
    payload = len(miners.mined.shown(node).payload)
    assert sum(size for digest, size in asked.items() if digest in contents) == 3 * payload
    butterfly = miners.butterfly(miners.stage_of(node))
    shards, statement = put
    assert shards == 4 * sum(butterfly.sizes[shard] for shard in butterfly.owned(node))
    assert statement <= MAX_STATEMENT


def test_what_was_fetched_is_kept_while_a_payload_is_waited_for(miners: Miners) -> None:
    node = NINE[0]
    mate = next(m for m in miners.mates(miners.stage_of(node)) if m != node)
    away = miners.mined.submit(mate, missing="payload").reveal
    miners.facts.revealed = {**miners.facts.revealed, mate: away}
    reader, asked = miners.reader(), list[bytes]()

    class Watched(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            asked.append(digest)
            return super().get_digest(digest, max_bytes)

    context: Any = SimpleNamespace(wallet=WALLETS[node], log=quiet_log())
    place = context, miners.facts, Watched(miners.mined.store.root), reader.models, reader.plans
    sharing = Sharing(*place, lambda *_: miners.posts[node])
    assert sharing.step(miners.view, node) is None
    asked.clear()
    assert sharing.step(miners.view, node) is None
    assert set(asked) == {away.content}
    miners.view.now = WINDOW_S // 2
    assert sharing.step(miners.view, node)


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


def beside_a_slow_mate(miners: Miners, node: int) -> tuple[int, Distant, Sharing]:
    """A mate of the node's stage whose payload takes until `brought`, the store, and the node's
    own part."""
    mate = next(m for m in miners.mates(miners.stage_of(node)) if m != node)
    store, sharing = far_from(miners, node)
    store.slow = frozenset({miners.facts.revealed[mate].content})
    store.brought = threading.Event()
    return mate, store, sharing


def test_miners_that_publish_nothing_do_not_make_the_owners_of_shards_late(miners: Miners) -> None:
    """Attack: the searches for six of nine, one after the other, were over when the proposer waited
    no more. So no honest owner delivered anything, and every stage kept its weights."""
    node = NINE[0]
    store, sharing = far_from(miners, node)
    mute = [m for stage in range(3) for m in miners.mates(stage)[1:] if m != node]
    told = [miners.facts.revealed[one] for one in mute]
    store.mute = frozenset(r.content for r in told) | frozenset(r.proof for r in told)
    began = time.monotonic()
    assert sharing.step(miners.view, node) is None
    assert time.monotonic() - began < 5.0
    miners.view.now = WINDOW_S // 2
    assert sharing.step(miners.view, node)


def test_a_mate_that_serves_its_payload_slowly_does_not_make_an_owner_late(
    miners: Miners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for beside the loop, longer than one that serves nothing, and then left out."""
    monkeypatch.setattr(sharing_file, "_WAIT_S", 0.3)
    node = NINE[0]
    mate, store, sharing = beside_a_slow_mate(miners, node)
    try:
        for now in (0, 30):
            miners.view.now = now
            began = time.monotonic()
            assert sharing.step(miners.view, node) is None
            assert time.monotonic() - began < 20.0
        miners.view.now = 45
        assert sharing.step(miners.view, node)
        (said,) = fetch(miners.posts[node].url, epoch_of(miners.mined))
        assert mate not in said.contributors and node in said.contributors
    finally:
        store.brought.set()


def test_what_comes_slowly_is_merged_once_it_is_there(
    miners: Miners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing_file, "_WAIT_S", 0.3)
    node = NINE[0]
    mate, store, sharing = beside_a_slow_mate(miners, node)
    assert sharing.step(miners.view, node) is None
    store.brought.set()
    end, did = time.monotonic() + 30.0, None
    while did is None and time.monotonic() < end:
        did = sharing.step(miners.view, node)
    (said,) = fetch(miners.posts[node].url, epoch_of(miners.mined))
    assert did and mate in said.contributors


def test_a_miner_without_a_post_leaves_its_statement_at_others(miners: Miners) -> None:
    closed = NINE[3]
    own = Post("127.0.0.1", 0, quiet_log(), WHERE, miners.posts[closed].book, listen=False)
    own.statements.expect(epoch_of(miners.mined), OPERATORS)
    miners.posts[closed].stop()
    miners.posts[closed] = own
    for node in NINE:
        miners.share(node)
    assert {one.owner for one in miners.said()} == set(NINE)


def test_an_owner_that_names_hundreds_of_strangers_does_not_make_an_honest_result_unreadable(
    miners: Miners,
) -> None:
    """Attack: a record has room for the miners of a stage. With the names of 500 strangers in one
    statement it was longer than anybody reads. So the proposer's right result was found wrong."""
    for node in NINE:
        miners.share(node)
    owner = miners.mates(0)[1]
    (good,) = [one for one in miners.said() if one.owner == owner]
    strangers = range(2**64 - 512 + len(good.contributors), 2**64)
    many = replace(good, contributors=(*good.contributors, *strangers))
    for post in miners.posts.values():
        post.statements = Statements(WHERE)
        post.statements.expect(epoch_of(miners.mined), OPERATORS)
    shutil.rmtree(miners.mined.store.root / "boxes")
    for node in NINE:
        if node != owner:
            miners.share(node)
    signed = many.by(WALLETS[owner], WHERE)
    assert not miners.posts[owner].statements.put(signed), "an honest post"
    leave_in_store(miners.mined.store, WHERE, epoch_of(miners.mined), signed)
    outcome = miners.outcome()
    line = line_of(miners, outcome, 0)
    assert (line["lost"], line["accepted"]) == ([], True), "its partners delivered its shards"
    miners.propose(outcome)
    assert miners.wrong() == []


# -- a proposer -----------------------------------------------------------------------------------


def left_by_all(miners: Miners) -> tuple[ContentStore, Epoch, bytes, LeftStatements]:
    """All share and nobody can be reached: store, epoch, the statements' box, and its reader."""
    for node in NINE:
        miners.share(node)
        miners.posts[node].stop()
    store, epoch = miners.mined.store, miners.mined.plan.epoch
    assert epoch is not None
    left = LeftStatements(store, WHERE, epoch, OPERATORS, quiet_log())
    return store, epoch, box_of("shards", WHERE, epoch), left


def test_statements_of_owners_that_nobody_reaches_are_in_the_store(miners: Miners) -> None:
    """A stranger's and rubbish lie there too, and are not believed."""
    store, epoch, box, left = left_by_all(miners)
    honest = left.look()
    (good,) = [said for said in honest if said.owner == NINE[0]]
    forged = replace(good, content=bytes(32)).by(WALLETS[NINE[1]], WHERE)
    leave_in_store(store, WHERE, epoch, forged)
    store.leave(box, store.put_bytes(b"[" * 1000))
    assert miners.said() == tuple(sorted(honest, key=lambda said: said.owner))
    assert len(honest) == len(store.left(box, 99)) == len(NINE), "rubbish is taken out"


def test_an_owner_that_leaves_many_statements_in_the_store_hides_nobody(miners: Miners) -> None:
    """Four of its own are kept, the rest make room: in a box of 1,500, where 1,024 are read at one
    look."""
    store, epoch, box, left = left_by_all(miners)
    honest = left.look()
    (good,) = [said for said in honest if said.owner == NINE[0]]
    for number in range(20):
        many = replace(good, content=number.to_bytes(32, "big")).by(WALLETS[NINE[0]], WHERE)
        leave_in_store(store, WHERE, epoch, many)
    for number in range(1_500):
        store.leave(box, store.put_bytes(b"rubbish %d" % number))
    again = LeftStatements(store, WHERE, epoch, OPERATORS, quiet_log())
    end = time.monotonic() + 60.0
    while len(store.left(box, 1_024)) > len(NINE) + 3 and time.monotonic() < end:
        again.look()
    found = again.look()
    assert {said.owner for said in found} == set(NINE)
    assert sum(said.owner == NINE[0] for said in found) == 4


def test_a_proposer_waits_for_the_owners_of_stages_that_are_merged(miners: Miners) -> None:
    reader = miners.reader()
    submissions = reader.submissions(miners.view)
    for node in NINE[:-1]:
        miners.share(node)
    found = miners.gathering().of(miners.view, submissions)
    assert found is not None and not found.complete and len(found.said) == 8
    miners.share(NINE[-1])
    found = miners.gathering().of(miners.view, submissions)
    assert found is not None and found.complete and len(found.said) == 9


def test_a_proposer_that_can_ask_nobody_does_not_propose(miners: Miners) -> None:
    for node in NINE:
        miners.share(node)
    found = miners.gathering([]).of(miners.view, miners.reader().submissions(miners.view))
    assert found is not None and found.blind and not found.complete


def test_a_proposer_stores_the_audit_seed_before_a_result_rests_on_it(miners: Miners) -> None:
    """The chain forgets a seed that nobody stores, and an appeal may come much later."""
    facts, view, calls = miners.facts, miners.view, list[str]()
    facts.on_duty, facts.results = lambda *_: NINE[0], "results"
    facts.acting_operator = lambda _: "0xa"
    view.overdue, view.round.audit_seed = False, bytes(32)
    sender: Any = SimpleNamespace(
        address="0xa",
        ensure=lambda done, contract, name, *args: calls.append(name),
        send=lambda contract, name, *args: calls.append(name),
    )
    proposer = Proposer(facts, miners.reader(), sender, 0.0, miners.gathering())
    assert proposer.step(view, NINE[0]) is None, "it waits for the owners"
    for node in NINE:
        miners.share(node)
    proposer = Proposer(facts, miners.reader(), sender, 0.0, miners.gathering())
    assert "captured" in (proposer.step(view, NINE[0]) or "")
    view.round.audit_seed = AUDIT_SEED
    assert "proposed" in (proposer.step(view, NINE[0]) or "")
    assert calls == ["capture_audit_seed", "propose_result"]


def test_a_statement_without_its_file_is_not_gathered_and_pushes_out_no_good_one(
    miners: Miners,
) -> None:
    for node in NINE:
        miners.share(node)
    poor = NINE[4]
    (good,) = [one for one in miners.said() if one.owner == poor]
    contents = b"\7" * 32, miners.facts.revealed[poor].content
    bad = [replace(good, content=content).by(WALLETS[poor], WHERE) for content in contents]
    for one in bad:
        assert miners.posts[poor].statements.put(one)
    assert good in miners.said()
    miners.posts[poor].statements = Statements(WHERE)
    miners.posts[poor].statements.expect(epoch_of(miners.mined), OPERATORS)
    shutil.rmtree(miners.mined.store.root / "boxes")  # the good one lies there too
    assert miners.mined.plan.epoch is not None
    for one in bad:
        assert miners.posts[poor].statements.put(one)
        leave_in_store(miners.mined.store, WHERE, miners.mined.plan.epoch, one)
    assert {one.owner for one in miners.said()} == set(NINE) - {poor}


def test_an_owner_that_signs_many_statements_without_a_file_has_four_looked_for_at_a_time(
    miners: Miners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would use up the proposer's window: a store that lacks a file may say so late. One that
    has a file all the same is found when its turn comes."""
    for node in NINE:
        miners.share(node)
    poor, all_of_them = NINE[4], miners.said()
    (good,) = [one for one in all_of_them if one.owner == poor]
    bad = [replace(good, content=bytes([n]) * 32).by(WALLETS[poor], WHERE) for n in range(1, 7)]
    gathering, looked = miners.gathering(), list[bytes]()
    gathering._clock = lambda: 1_000.0  # no pause after a miss is over
    honest = gathering._has_file

    def counted(job: Any, epoch: Any, shares: Any, one: Statement) -> bool:
        if one.owner == poor:
            looked.append(one.content)
        return honest(job, epoch, shares, one)

    monkeypatch.setattr(gathering, "_has_file", counted)
    monkeypatch.setattr(gathering, "_ask", lambda *_: [*bad, *all_of_them])
    submissions = miners.reader().submissions(miners.view)
    first = gathering.of(miners.view, submissions)
    assert first is not None and {one.owner for one in first.said} == set(NINE) - {poor}
    assert sorted(looked) == [one.content for one in bad[:4]]
    assert gathering._found is not None
    gathering._found.asked_at = 0.0
    second = gathering.of(miners.view, submissions)
    assert second is not None and second.complete and good in second.said
    assert sorted(looked[4:]) == sorted([bad[4].content, bad[5].content, good.content])


def test_forged_statements_in_a_record_make_the_result_wrong(miners: Miners) -> None:
    """A proposer can't put words into an owner's mouth."""
    for node in NINE:
        miners.share(node)
    outcome, victim = miners.outcome(), miners.mates(0)[0]
    record = next(part for part in outcome.parts if part.startswith(b'{"job"'))
    fields = loads(record)
    for one in fields["stages"][0]["statements"]:
        if one["owner"] == victim:
            one["digests"][0] = "11" * 32
    lie = miners.mined.store.put_bytes(dumps(fields))
    miners.propose(outcome, outcome.report.model_copy(update={"shards": lie}))
    assert miners.wrong()
    reader = miners.reader()
    submissions = reader.submissions(miners.view)
    proposed = reader.proposed(miners.view, submissions)
    found = reader.outcome(miners.view, submissions, proposed)
    assert found is not None and not found.lies


@pytest.mark.parametrize("shards", [None, "missing", "nonsense"])
def test_a_report_without_its_record_is_wrong(miners: Miners, shards: str | None) -> None:
    for node in NINE:
        miners.share(node)
    outcome = miners.outcome()
    cid = None
    if shards == "missing":
        cid = cid_of_bytes(b"never published")
    elif shards == "nonsense":
        cid = miners.mined.store.put_bytes(b"nonsense")
    miners.propose(outcome, outcome.report.model_copy(update={"shards": cid}))
    assert miners.wrong()
    if shards == "missing":
        assert result_errors(miners.reader(), miners.view, patient=True) is None


def test_text_that_is_taken_down_makes_no_result_wrong(
    miners: Miners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sponsor serves its job's text to nodes and to no member, and challenges a true result. Its
    loss can't be measured without the text, which was taken for a record of shards that nobody can
    have: the proposer lost its bond and a part of its stake."""
    for node in NINE:
        miners.share(node)
    outcome = miners.outcome()
    miners.propose(outcome)
    text = {shard.cid for shard in miners.mined.job.data.dataset.shards}
    had = EmbeddedStore.get

    def served(self: EmbeddedStore, cid: str, limit: int) -> Buffer:
        if cid in text:
            raise NotFound("taken down")
        return had(self, cid, limit)

    monkeypatch.setattr(EmbeddedStore, "get", served)
    with pytest.raises(NotFound, match="taken down"):
        miners.wrong()
    monkeypatch.undo()
    assert miners.wrong() == []


def test_a_record_that_can_not_be_read_says_so() -> None:
    for raw in (b"", b"[]", b'{"stages":[{"statements":[{}]}]}', b'{"stages":3}'):
        with pytest.raises(ReportError):
            read_record(raw)


def test_disagreements_name_nothing_in_an_honest_report(miners: Miners) -> None:
    for node in NINE:
        miners.share(node)
    outcome = miners.outcome()
    assert disagreements(outcome, proposal_of(outcome), outcome.report) == []
    again = RoundReport.from_bytes(outcome.report.to_bytes())
    assert again == outcome.report and again.shards


# -- the job ---------------------------------------------------------------------------------------


def test_jobs_without_a_butterfly_keep_their_bytes(mined: MinedRound) -> None:
    raw = mined.job.spec.to_bytes()
    assert b"all_reduce" not in raw and b"least_valid" not in raw
    assert b"shards" not in mined.compute(mined.honest()).report.to_bytes()


def test_a_rule_that_looks_at_whole_updates_is_refused(tmp_path: Path) -> None:
    pipeline = {**PIPELINE, "all_reduce": "butterfly"}
    with pytest.raises(SpecError, match="merges shards"):
        make_mined_round(EmbeddedStore(tmp_path), pipeline=pipeline, merge="multi_krum")


@pytest.mark.parametrize("odd", [{"all_reduce": "ring"}, {"least_valid": 0.5}])
def test_options_that_make_no_sense_are_refused(odd: dict[str, Any]) -> None:
    block = {"layers": [1, 1], **odd}
    with pytest.raises(SpecError, match="all_reduce"):
        demo_spec("b" + "a" * 58, mode="pipeline", pipeline=block)
