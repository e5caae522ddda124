# SPDX-License-Identifier: Apache-2.0
"""What comes of a stage's shards: the merge, who lied about it, and the record of both.

Three stages of three miners, each with a post of its own; the chain's answers are fixed values.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from agents.pipeline.butterfly import valid_shards
from agents.pipeline.shards import Statement, flat, unflat
from agents.pipeline.statements import Statements, leave_in_store
from agents.protocol.numbers import Violation
from agents.rounds.outcome import disagreements
from agents.rounds.report import ReportError, RoundReport
from agents.rounds.shares import read_record
from agents.storage.canonical import dumps, loads
from agents.storage.cid import Buffer, cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.verify.judging import Judge, result_errors
from agents.verify.spot_checks import malformed
from tests.stage.memory.honest_round import DEVICE, proposal_of
from tests.stage.memory.mined_round import (
    WALLETS,
    WHERE,
)
from tests.stage.memory.sharing_miners import (
    NINE,
    OPERATORS,
    Distant,
    Miners,
    direct,
    epoch_of,
    line_of,
    same,
)


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
