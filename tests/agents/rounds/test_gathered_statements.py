# SPDX-License-Identifier: Apache-2.0
"""A proposer gathers the statements of shards' owners over HTTP and from the store.

Three stages of three miners, each with a post of its own; the chain's answers are fixed values.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agents.pipeline.epoch import Epoch
from agents.pipeline.presence import box_of
from agents.pipeline.shards import Statement
from agents.pipeline.statements import LeftStatements, Statements, leave_in_store
from agents.rounds.proposer import Proposer
from agents.storage.content_store import ContentStore
from tests.stage.memory.mined_round import (
    WALLETS,
    WHERE,
)
from tests.stage.memory.pipeline_epoch import quiet_log
from tests.stage.memory.sharing_miners import (
    AUDIT_SEED,
    NINE,
    OPERATORS,
    Miners,
    epoch_of,
)


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
