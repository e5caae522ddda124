# SPDX-License-Identifier: Apache-2.0
"""A stage's miners merge its shards, a proposer gathers them over HTTP, and everybody checks.

Three stages of three miners, each with a post of its own; the chain's answers are fixed values.
"""

from __future__ import annotations

import math
import shutil
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
from agents.pipeline.shards import MAX_STATEMENT, Statement, flat
from agents.pipeline.statements import LeftStatements, Statements, fetch, leave_in_store
from agents.protocol.numbers import Violation
from agents.protocol.structs import Reveal
from agents.rounds.gathering import Gathering
from agents.rounds.outcome import Outcome, disagreements
from agents.rounds.proposer import Proposer
from agents.rounds.reader import RoundReader
from agents.rounds.report import ReportError, RoundReport
from agents.rounds.shares import Shares, max_record_bytes, read_statements
from agents.rounds.sharing import Sharing
from agents.storage.canonical import dumps, loads
from agents.storage.cid import Buffer, cid_of_bytes
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
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
    make_mined_round,
)
from tests.stage.memory.pipeline_epoch import quiet_log

NINE = tuple(range(2, 11))
AUDIT_SEED = keccak(text="drawn after the reveals")
WINDOW_S = 100


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
class Crew:
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


@pytest.fixture
def crew(shared: MinedRound) -> Iterator[Crew]:
    facts, view = chain_of(shared, {node: shared.submit(node).reveal for node in NINE})
    # What an earlier test left there.
    shutil.rmtree(shared.store.root / "boxes", ignore_errors=True)
    operators = {node: WALLETS[node].address for node in NINE}
    made: dict[int, Post] = {}
    for node in NINE:
        book = AddressBook(WHERE, operators.get)
        made[node] = Post("127.0.0.1", 0, quiet_log(), WHERE, book)
        made[node].statements.expect(1, 1, operators)
    for node in NINE:
        for other in NINE:
            url = made[other].url
            made[node].book.take(Announcement.signed(WALLETS[other], WHERE, other, url, 1))
    yield Crew(shared, facts, view, made, {})
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


def line_of(crew: Crew, outcome: Outcome, stage: int) -> dict[str, Any]:
    record = next(part for part in outcome.parts if part.startswith(b'{"job"'))
    assert outcome.report.shards == cid_of_bytes(record)
    assert crew.mined.plan.epoch is not None
    assert len(record) <= max_record_bytes(crew.mined.plan.epoch)
    found: dict[str, Any] = loads(record)["stages"][stage]
    return found


def test_all_shards_are_delivered_and_a_verifier_attests(crew: Crew) -> None:
    for node in NINE:
        assert "merged: 2 shards" in (crew.share(node) or "")
    outcome = crew.outcome()
    assert same(outcome.merged, direct(crew.mined)) and not outcome.lies
    line = line_of(crew, outcome, 0)
    assert line["owners"] == line["contributors"] == list(crew.mates(0))
    assert (line["lost"], line["liars"], line["accepted"]) == ([], [], True)
    crew.propose(outcome)
    assert crew.wrong() == []


@pytest.mark.parametrize("killed", [1, 2])
def test_shards_of_owners_that_died_after_their_reveal_keep_their_weights(
    crew: Crew, killed: int
) -> None:
    dead = crew.mates(1)[:killed]
    for node in NINE:
        if node not in dead:
            crew.share(node)
    for node in dead:
        crew.posts[node].stop()
    outcome = crew.outcome()
    lost = line_of(crew, outcome, 1)["lost"]
    assert 3 - len(lost) == valid_shards(3, killed)
    wanted = flat({n: direct(crew.mined)[n] for n in crew.mined.job.stage_shapes(1)})
    moved = flat({n: outcome.merged[n] for n in crew.mined.job.stage_shapes(1)})
    for shard, (first, last) in enumerate(crew.butterfly(1).spans):
        kept = torch.zeros(last - first) if shard in lost else wanted[first:last]
        assert torch.equal(moved[first:last], kept)
    assert all(line.contribution for line in outcome.report.nodes), "the dead are paid for passes"
    crew.propose(outcome)
    assert crew.wrong() == []


def test_where_too_few_shards_are_delivered_the_stage_keeps_its_weights(crew: Crew) -> None:
    silent = crew.mates(2)
    for node in NINE:
        if node not in silent:
            crew.share(node)
    outcome = crew.outcome()
    shapes = crew.mined.job.stage_shapes(2)
    assert not any(outcome.merged[name].any() for name in shapes)
    assert all(outcome.merged[name].any() for name in crew.mined.job.stage_shapes(0))
    lines = {line.node: line for line in outcome.report.nodes}
    assert all("0 of 3 shards were delivered" in lines[node].reason for node in silent)
    assert all(lines[node].contribution for node in silent)
    crew.propose(outcome)
    assert crew.wrong() == []


def test_a_liar_changes_nothing_and_is_found_by_verifier_and_committee(crew: Crew) -> None:
    liar = crew.mates(0)[1]
    crew.lies[liar] = dict.fromkeys(range(3), 0.5)
    for node in NINE:
        crew.share(node)
    outcome = crew.outcome()
    assert same(outcome.merged, direct(crew.mined)) and outcome.lies.keys() == {liar}
    line = line_of(crew, outcome, 0)
    assert [[one, len(shards)] for one, shards in line["liars"]] == [[liar, 2]]
    assert sum(row.count(False) for row in line["agreement"]) == 4
    crew.propose(outcome)
    assert crew.wrong() == []
    reader = crew.reader()
    submissions = reader.submissions(crew.view)
    found = reader.outcome(crew.view, submissions, reader.proposed(crew.view))
    assert found is not None
    inputs = reader.inputs(crew.view, submissions)
    assert inputs is not None and malformed(inputs) == []
    (finding,) = malformed(replace(inputs, lies=found.lies))
    assert (finding.node, finding.violation) == (liar, Violation.INVALID)
    said = Statement.from_json(loads(finding.evidence)["statement"])
    assert said.signer(WHERE) == WALLETS[liar].address
    judge = Judge(crew.facts, crew.mined.store, DEVICE)
    assert judge.is_innocent(crew.view, liar) is False
    assert judge.is_innocent(crew.view, crew.mates(0)[0]) is True


def test_before_a_result_stands_nobody_is_accused_of_its_shards(crew: Crew) -> None:
    """A committee may be asked about a node's work before there is a proposal."""
    crew.lies[NINE[0]] = dict.fromkeys(range(3), 0.5)
    for node in NINE:
        crew.share(node)
    assert crew.reader().proposed(crew.view) is None
    judge = Judge(crew.facts, crew.mined.store, DEVICE)
    assert judge.is_innocent(crew.view, NINE[0]) is True


def test_a_pair_that_agrees_on_a_lie_in_its_shard_is_found(crew: Crew) -> None:
    one, two, _ = crew.mates(0)
    common = crew.butterfly(0).pairs.index((one, two))
    crew.lies = {one: {common: 0.5}, two: {common: 0.5}}
    for node in NINE:
        crew.share(node)
    outcome = crew.outcome()
    assert outcome.lies.keys() == {one, two}
    assert all(lie["shards"] == [common] for lie in outcome.lies.values())
    assert same(outcome.merged, direct(crew.mined))


def test_who_sees_a_payload_too_late_is_no_liar(crew: Crew) -> None:
    """It merges the others', and says so."""
    late, blind, other = crew.mates(0)
    away = crew.mined.submit(late, missing="payload")
    everything = crew.facts.revealed
    crew.facts.revealed = {**everything, late: away.reveal}
    crew.view.now = WINDOW_S // 2
    assert crew.share(blind)
    crew.facts.revealed = everything
    crew.view.now = 0
    for node in NINE:
        if node != blind:
            crew.share(node)
    outcome = crew.outcome()
    line = line_of(crew, outcome, 0)
    assert (line["elsewhere"], line["liars"], line["lost"]) == ([blind], [], [])
    assert same(outcome.merged, direct(crew.mined)) and other in line["owners"]


def test_a_miner_waits_for_the_seed_and_for_payloads(crew: Crew) -> None:
    node = NINE[0]
    crew.facts.drawn = False
    assert crew.share(node) is None and fetch(crew.posts[node].url, 1, 1, 9) == []
    crew.facts.drawn = True
    mate = next(m for m in crew.mates(crew.stage_of(node)) if m != node)
    away = crew.mined.submit(mate, missing="payload")
    crew.facts.revealed = {**crew.facts.revealed, mate: away.reveal}
    assert crew.share(node) is None and fetch(crew.posts[node].url, 1, 1, 9) == []
    crew.view.now = WINDOW_S // 2
    assert crew.share(node)


def test_a_miner_fetches_no_payload_of_another_stage(crew: Crew) -> None:
    node = NINE[0]
    reader, asked, put = crew.reader(), dict[bytes, int](), list[int]()

    class Watched(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            raw = super().get_digest(digest, max_bytes)
            asked[digest] = len(raw)
            return raw

        def put_bytes(self, data: Buffer) -> str:
            put.append(len(bytes(data)))
            return super().put_bytes(data)

    context: Any = SimpleNamespace(wallet=WALLETS[node], log=quiet_log())
    store = Watched(crew.mined.store.root)
    place = context, crew.facts, store, reader.models, reader.plans
    assert Sharing(*place, lambda *_: crew.posts[node]).step(crew.view, node)
    mates = crew.mates(crew.stage_of(node))
    contents = {reveal.content: one for one, reveal in crew.facts.revealed.items()}
    assert {contents[digest] for digest in asked if digest in contents} == set(mates)
    # W for each miner of the stage, and 2W/n for the shards that it owns.
    payload = len(crew.mined.shown(node).payload)
    assert sum(size for digest, size in asked.items() if digest in contents) == 3 * payload
    butterfly = crew.butterfly(crew.stage_of(node))
    shards, statement = put
    assert shards == 4 * sum(butterfly.sizes[shard] for shard in butterfly.owned(node))
    assert statement <= MAX_STATEMENT


def test_what_was_fetched_is_kept_while_a_payload_is_waited_for(crew: Crew) -> None:
    node = NINE[0]
    mate = next(m for m in crew.mates(crew.stage_of(node)) if m != node)
    away = crew.mined.submit(mate, missing="payload").reveal
    crew.facts.revealed = {**crew.facts.revealed, mate: away}
    reader, asked = crew.reader(), list[bytes]()

    class Watched(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            asked.append(digest)
            return super().get_digest(digest, max_bytes)

    context: Any = SimpleNamespace(wallet=WALLETS[node], log=quiet_log())
    place = context, crew.facts, Watched(crew.mined.store.root), reader.models, reader.plans
    sharing = Sharing(*place, lambda *_: crew.posts[node])
    assert sharing.step(crew.view, node) is None
    asked.clear()
    assert sharing.step(crew.view, node) is None
    assert set(asked) == {away.content}
    crew.view.now = WINDOW_S // 2
    assert sharing.step(crew.view, node)


def test_a_miner_without_a_post_leaves_its_statement_at_others(crew: Crew) -> None:
    closed = NINE[3]
    own = Post("127.0.0.1", 0, quiet_log(), WHERE, crew.posts[closed].book, listen=False)
    own.statements.expect(1, 1, {node: WALLETS[node].address for node in NINE})
    crew.posts[closed].stop()
    crew.posts[closed] = own
    for node in NINE:
        crew.share(node)
    assert {one.owner for one in crew.said()} == set(NINE)


# -- a proposer -----------------------------------------------------------------------------------


OPERATORS = {node: WALLETS[node].address for node in NINE}


def left_by_all(crew: Crew) -> tuple[ContentStore, Epoch, bytes, LeftStatements]:
    """All share and nobody can be reached: store, epoch, the statements' box, and its reader."""
    for node in NINE:
        crew.share(node)
        crew.posts[node].stop()
    store, epoch = crew.mined.store, crew.mined.plan.epoch
    assert epoch is not None
    left = LeftStatements(store, WHERE, epoch, OPERATORS, quiet_log())
    return store, epoch, box_of("shards", WHERE, epoch), left


def test_statements_of_owners_that_nobody_reaches_are_in_the_store(crew: Crew) -> None:
    """A stranger's and rubbish lie there too, and are not believed."""
    store, epoch, box, left = left_by_all(crew)
    honest = left.look()
    (good,) = [said for said in honest if said.owner == NINE[0]]
    forged = replace(good, content=bytes(32)).by(WALLETS[NINE[1]], WHERE)
    leave_in_store(store, WHERE, epoch, forged)
    store.leave(box, store.put_bytes(b"[" * 1000))
    assert crew.said() == tuple(sorted(honest, key=lambda said: said.owner))
    assert len(honest) == len(store.left(box, 99)) == len(NINE), "rubbish is taken out"


def test_an_owner_that_leaves_many_statements_in_the_store_hides_nobody(crew: Crew) -> None:
    """Four of its own are kept, the rest make room: in a box of 1,500, where 1,024 are read at one
    look."""
    store, epoch, box, left = left_by_all(crew)
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


def test_a_proposer_waits_for_the_owners_of_stages_that_are_merged(crew: Crew) -> None:
    reader = crew.reader()
    submissions = reader.submissions(crew.view)
    for node in NINE[:-1]:
        crew.share(node)
    found = crew.gathering().of(crew.view, submissions)
    assert found is not None and not found.complete and len(found.said) == 8
    crew.share(NINE[-1])
    found = crew.gathering().of(crew.view, submissions)
    assert found is not None and found.complete and len(found.said) == 9


def test_a_proposer_that_can_ask_nobody_does_not_propose(crew: Crew) -> None:
    for node in NINE:
        crew.share(node)
    found = crew.gathering([]).of(crew.view, crew.reader().submissions(crew.view))
    assert found is not None and found.blind and not found.complete


def test_a_proposer_stores_the_audit_seed_before_a_result_rests_on_it(crew: Crew) -> None:
    """The chain forgets a seed that nobody stores, and an appeal may come much later."""
    facts, view, calls = crew.facts, crew.view, list[str]()
    facts.on_duty, facts.results = lambda *_: NINE[0], "results"
    view.overdue, view.round.audit_seed = False, bytes(32)
    sender: Any = SimpleNamespace(
        ensure=lambda done, contract, name, *args: calls.append(name),
        send=lambda contract, name, *args: calls.append(name),
    )
    proposer = Proposer(facts, crew.reader(), sender, 0.0, crew.gathering())
    assert proposer.step(view, NINE[0]) is None, "it waits for the owners"
    for node in NINE:
        crew.share(node)
    proposer = Proposer(facts, crew.reader(), sender, 0.0, crew.gathering())
    assert "captured" in (proposer.step(view, NINE[0]) or "")
    view.round.audit_seed = AUDIT_SEED
    assert "proposed" in (proposer.step(view, NINE[0]) or "")
    assert calls == ["capture_audit_seed", "propose_result"]


def test_a_statement_without_its_file_is_not_gathered_and_pushes_out_no_good_one(
    crew: Crew,
) -> None:
    for node in NINE:
        crew.share(node)
    poor = NINE[4]
    (good,) = [one for one in crew.said() if one.owner == poor]
    contents = b"\7" * 32, crew.facts.revealed[poor].content
    bad = [replace(good, content=content).by(WALLETS[poor], WHERE) for content in contents]
    for one in bad:
        assert crew.posts[poor].statements.put(one)
    assert good in crew.said()
    crew.posts[poor].statements = Statements(WHERE)
    crew.posts[poor].statements.expect(1, 1, {node: WALLETS[node].address for node in NINE})
    shutil.rmtree(crew.mined.store.root / "boxes")  # the good one lies there too
    assert crew.mined.plan.epoch is not None
    for one in bad:
        assert crew.posts[poor].statements.put(one)
        leave_in_store(crew.mined.store, WHERE, crew.mined.plan.epoch, one)
    assert {one.owner for one in crew.said()} == set(NINE) - {poor}


def test_an_owner_that_signs_many_statements_without_a_file_has_four_looked_for_at_a_time(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would use up the proposer's window: a store that lacks a file may say so late. One that
    has a file all the same is found when its turn comes."""
    for node in NINE:
        crew.share(node)
    poor, all_of_them = NINE[4], crew.said()
    (good,) = [one for one in all_of_them if one.owner == poor]
    bad = [replace(good, content=bytes([n]) * 32).by(WALLETS[poor], WHERE) for n in range(1, 7)]
    gathering, looked = crew.gathering(), list[bytes]()
    honest = gathering._has_file

    def counted(job: Any, epoch: Any, shares: Any, one: Statement) -> bool:
        if one.owner == poor:
            looked.append(one.content)
        return honest(job, epoch, shares, one)

    monkeypatch.setattr(gathering, "_has_file", counted)
    monkeypatch.setattr(gathering, "_ask", lambda *_: [*bad, *all_of_them])
    submissions = crew.reader().submissions(crew.view)
    first = gathering.of(crew.view, submissions)
    assert first is not None and {one.owner for one in first.said} == set(NINE) - {poor}
    assert looked == [one.content for one in bad[:4]]
    assert gathering._found is not None
    gathering._found.asked_at = 0.0
    second = gathering.of(crew.view, submissions)
    assert second is not None and second.complete and good in second.said
    assert looked[4:] == [bad[4].content, bad[5].content, good.content]


def test_forged_statements_in_a_record_make_the_result_wrong(crew: Crew) -> None:
    """A proposer can't put words into an owner's mouth."""
    for node in NINE:
        crew.share(node)
    outcome, victim = crew.outcome(), crew.mates(0)[0]
    record = next(part for part in outcome.parts if part.startswith(b'{"job"'))
    fields = loads(record)
    for one in fields["stages"][0]["statements"]:
        if one["owner"] == victim:
            one["digests"][0] = "11" * 32
    lie = crew.mined.store.put_bytes(dumps(fields))
    crew.propose(outcome, outcome.report.model_copy(update={"shards": lie}))
    assert crew.wrong()
    reader = crew.reader()
    found = reader.outcome(crew.view, reader.submissions(crew.view), reader.proposed(crew.view))
    assert found is not None and not found.lies


@pytest.mark.parametrize("shards", [None, "missing", "nonsense"])
def test_a_report_without_its_record_is_wrong(crew: Crew, shards: str | None) -> None:
    for node in NINE:
        crew.share(node)
    outcome = crew.outcome()
    cid = None
    if shards == "missing":
        cid = cid_of_bytes(b"never published")
    elif shards == "nonsense":
        cid = crew.mined.store.put_bytes(b"nonsense")
    crew.propose(outcome, outcome.report.model_copy(update={"shards": cid}))
    assert crew.wrong()
    if shards == "missing":
        assert result_errors(crew.reader(), crew.view, patient=True) is None


def test_a_record_that_can_not_be_read_says_so() -> None:
    for raw in (b"", b"[]", b'{"stages":[{"statements":[{}]}]}', b'{"stages":3}'):
        with pytest.raises(ReportError):
            read_statements(raw)


def test_disagreements_name_nothing_in_an_honest_report(crew: Crew) -> None:
    for node in NINE:
        crew.share(node)
    outcome = crew.outcome()
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
