# SPDX-License-Identifier: Apache-2.0
"""Results are kept only as long as nothing that they were computed from has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.rounds.reader import Results
from agents.storage.cid import cid_from_digest, cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign, input_root
from agents.training.state import model_hash
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    WEIGHTS,
    ChainFacts,
    Desk,
    make_desk,
)


@pytest.fixture
def results(desk: Desk, facts: ChainFacts) -> Results:
    models = Models(facts, desk.store)
    return Results(facts, desk.store, models, Plans(facts, models), DEVICE)


def test_reveals_lead_to_one_outcome(desk: Desk, facts: ChainFacts, results: Results) -> None:
    view = facts.open(1, SEED)
    facts.revealed = {node: desk.reveal(node) for node in NODES}
    submissions = results.submissions(view)
    assert [s.reveal.node for s in submissions] == list(NODES)
    outcome = results.outcome(view, submissions)
    assert outcome.report.accepted() == set(NODES)
    assert results.outcome(view, results.submissions(view)) is outcome


def test_there_is_no_outcome_before_the_seed(facts: ChainFacts, results: Results) -> None:
    view = facts.open(1, b"")
    assert results.outcome(view, results.submissions(view)) is None


def test_a_payload_that_appears_later_changes_the_outcome(
    desk: Desk, facts: ChainFacts, tmp_path: Path
) -> None:
    own = replace(desk, store=EmbeddedStore(tmp_path / "store"))
    for cid in (desk.published.spec_cid, desk.published.checkpoint_cid, desk.job.spec.data):
        own.store.put_bytes(desk.store.get(cid, 1 << 24))
    for shard in desk.job.data.dataset.shards:
        own.store.put_bytes(desk.store.get(shard.cid, 1 << 24))
    models = Models(facts, own.store)
    results = Results(facts, own.store, models, Plans(facts, models), DEVICE)
    view = facts.open(1, SEED)
    late = desk.reveal(5)  # in the other store only
    facts.revealed = {node: late if node == 5 else own.reveal(node) for node in NODES}
    first = results.submissions(view)
    assert [s.unavailable for s in first] == [False, True, False, False]
    without = results.outcome(view, first)
    own.store.put_bytes(desk.store.get(cid_from_digest(late.content), 1 << 20))
    complete = results.outcome(view, results.submissions(view))
    assert complete.report.accepted() == set(NODES)
    assert without.report.accepted() == set(NODES) - {5}


def test_another_bad_payload_after_a_reorg_is_another_report(
    desk: Desk, facts: ChainFacts, results: Results
) -> None:
    view = facts.open(1, SEED)
    facts.revealed = {node: desk.reveal(node) for node in NODES} | {5: desk.reveal(5, b"junk")}
    first = results.outcome(view, results.submissions(view))
    facts.revealed[5] = desk.reveal(5, b"other junk")
    second = results.outcome(view, results.submissions(view))
    assert first.model == second.model
    assert first.report.nodes[1].content != second.report.nodes[1].content


def test_what_is_published_is_what_the_report_names(
    desk: Desk, facts: ChainFacts, results: Results
) -> None:
    view = facts.open(1, SEED)
    facts.revealed = {node: desk.reveal(node) for node in NODES}
    outcome = results.outcome(view, results.submissions(view))
    results.publish(outcome)
    report = outcome.report.to_bytes()
    assert desk.store.get(outcome.report.update, 1 << 20) == outcome.update
    assert desk.store.get(cid_of_bytes(report), 1 << 20) == report


def test_a_reveal_that_comes_again_in_the_next_round_is_decoded_again(tmp_path: Path) -> None:
    """Or those who were there in the first round and those who were not would disagree."""
    store = EmbeddedStore(tmp_path)
    desk = make_desk(store, codec="semantic", codec_options={"dimension": 256}, merge="mean")
    facts = ChainFacts(desk.published)
    models = Models(facts, store)

    def fresh() -> Results:
        return Results(facts, store, models, Plans(facts, models), DEVICE)

    facts.revealed = {node: desk.reveal(node) for node in NODES}
    veteran = fresh()
    first = veteran.submissions(facts.open(1, SEED))
    view = facts.open(2, b"\x22" * 32)
    again, newcomers = veteran.submissions(view), fresh().submissions(view)
    for old, new, other in zip(again, newcomers, first, strict=True):
        assert old.gradient is not None and new.gradient is not None and other.gradient is not None
        assert model_hash(old.gradient) == model_hash(new.gradient) != model_hash(other.gradient)


def test_a_task_under_another_manifest_is_decoded_again(tmp_path: Path) -> None:
    """A reorg may change the seed and with it what the same bytes say."""
    store = EmbeddedStore(tmp_path)
    desk = make_desk(store, codec="semantic", codec_options={"dimension": 256}, merge="mean")
    facts = ChainFacts(desk.published)
    models = Models(facts, store)
    results = Results(facts, store, models, Plans(facts, models), DEVICE)
    facts.revealed = {node: desk.reveal(node) for node in NODES}
    first = results.submissions(facts.open(1, SEED))
    view = facts.open(1, b"\x22" * 32)
    manifest = assign(b"\x22" * 32, NODES, WEIGHTS, desk.job.spec)
    facts.revealed = {
        node: replace(reveal, input_root=input_root(manifest, node, model_hash(desk.before)))
        for node, reveal in facts.revealed.items()
    }
    for one, other in zip(first, results.submissions(view), strict=True):
        assert one.gradient is not None and other.gradient is not None
        assert model_hash(one.gradient) != model_hash(other.gradient)
