# SPDX-License-Identifier: Apache-2.0
"""Results of rounds whose nodes train as they like: whom earlier scores chose is merged, all are
scored, and no single payload can wreck the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.numbers import Violation
from agents.rounds.carried import Carried
from agents.rounds.codec_memory import Memories
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome, compute, disagreements
from agents.rounds.plan import Plans
from agents.rounds.reader import RoundReader
from agents.rounds.report import RoundReport
from agents.rounds.submissions import Submission, fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import input_root
from agents.training.state import apply_outer, model_hash
from agents.verify.judging import Judge
from agents.verify.spot_checks import malformed
from tests.agents.verify.test_copies import JOBS
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    ROUND,
    SEED,
    ChainFacts,
    HonestRound,
    make_honest_round,
    proposal_of,
    scaled,
)
from tests.stage.memory.payloads import same_bits

EQUAL = 1_000_000


@pytest.fixture(scope="module", params=JOBS)
def free(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    return gauntlet_round(tmp_path_factory.mktemp("free"), request.param)


def gauntlet_round(folder: Any, kind: str, **changes: Any) -> HonestRound:
    pair = {"score": "gauntlet", "verify": "gauntlet"}
    return make_honest_round(EmbeddedStore(folder / "store"), **{**JOBS[kind], **pair, **changes})


def result(
    tiny: HonestRound, submissions: list[Submission], standing: Mapping[int, int] | None = None
) -> Outcome:
    place = (JOB, ROUND, tiny.plan, tiny.before)
    return compute(tiny.job, *place, submissions, DEVICE, standing=standing)


def with_cheats(tiny: HonestRound, *nodes: int, factor: float) -> list[Submission]:
    return [
        tiny.submit(n, scaled(tiny.works[n].gradient, factor)) if n in nodes else tiny.submit(n)
        for n in NODES
    ]


def test_before_any_scores_everyone_is_merged(free: HonestRound) -> None:
    outcome = result(free, free.honest())
    assert outcome.report.accepted() == outcome.report.merged() == set(NODES)
    assert [line.reason for line in outcome.report.nodes] == [""] * 4
    assert outcome.contributions == (EQUAL,) * 4
    assert RoundReport.from_bytes(outcome.report.to_bytes()) == outcome.report


def test_whom_the_last_scores_chose_are_merged_and_all_are_scored(free: HonestRound) -> None:
    outcome = result(free, free.honest(), {3: 40_000, 8: 20_000, 77: 5_535})
    assert outcome.report.merged() == {3, 8}
    assert outcome.report.accepted() == set(NODES)
    assert dict(zip(outcome.nodes, outcome.contributions, strict=True)) == dict.fromkeys(
        NODES, EQUAL
    )
    gradients = {s.reveal.node: s.gradient for s in free.honest()}
    assert same_bits(outcome.merged, free.job.merge([gradients[3], gradients[8]], None))
    reasons = {line.node: line.reason for line in outcome.report.nodes}
    assert reasons[3] == reasons[8] == ""
    assert "not among the best" in reasons[5] and "not among the best" in reasons[9]


def test_at_most_the_top_are_merged(tmp_path: Any) -> None:
    tiny = gauntlet_round(tmp_path, "sparse", score_options={"top": 1})
    assert result(tiny, tiny.honest(), {5: 9, 9: 9, 8: 3}).report.merged() == {5}


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_an_implausible_norm_is_left_out_but_scored(free: HonestRound, factor: float) -> None:
    outcome = result(free, with_cheats(free, 5, factor=factor))
    assert outcome.report.merged() == set(NODES) - {5}
    (line,) = [line for line in outcome.report.nodes if line.node == 5]
    assert line.accepted and line.contribution == EQUAL and "implausible" in line.reason
    others = [s for s in free.honest() if s.reveal.node != 5]
    assert outcome.model == result(free, others).model


def test_newcomers_cannot_move_the_norm_that_is_plausible(free: HonestRound) -> None:
    """Three of four nodes agree on a huge norm; they aren't who the norm is taken from."""
    submissions = with_cheats(free, 5, 8, 9, factor=1e6)
    assert result(free, submissions, {3: 100}).report.merged() == {3}


@pytest.fixture(scope="module", params=JOBS)
def loose(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    """A job that takes nearly any norm for plausible."""
    options = {"score_options": {"norm_ratio": 1000.0}}
    return gauntlet_round(tmp_path_factory.mktemp("loose"), request.param, **options)


@pytest.mark.parametrize("factor", [1e6, -1e6, 900.0, -900.0])
def test_one_bad_first_submission_cannot_wreck_the_model(loose: HonestRound, factor: float) -> None:
    """Nobody is scored yet, so it may be merged: at 900 the norm is let through on purpose."""
    tiny = loose
    honest, attacked = (
        result(tiny, tiny.honest()),
        result(tiny, with_cheats(tiny, 5, factor=factor)),
    )
    assert (5 in attacked.report.merged()) is (abs(factor) < 1000)
    rate = tiny.job.spec.outer_lr_at(0)
    ordinary = max(float(t.abs().max()) for t in honest.merged.values()) * rate
    for name, tensor in attacked.state.items():
        assert float((tensor - tiny.before[name]).abs().max()) <= 4 * ordinary
    assert attacked.report.val_loss < attacked.report.val_loss_before + 0.05


def test_a_merge_that_refuses_scores_everybody_all_the_same(tmp_path: Any) -> None:
    tiny = gauntlet_round(tmp_path, "sparse", merge="multi_krum")
    outcome = result(tiny, tiny.honest(), {3: 5})
    assert outcome.report.merged() == set() and outcome.report.accepted() == set(NODES)
    assert outcome.model == model_hash(tiny.before)
    assert outcome.contributions == (EQUAL,) * 4
    assert all("not merged: " in line.reason for line in outcome.report.nodes)


def test_the_outer_rate_follows_its_schedule(tmp_path: Any) -> None:
    tiny = gauntlet_round(tmp_path, "demo", rounds=5)
    late = replace(tiny, plan=replace(tiny.plan, step=4))
    first, last = result(tiny, tiny.honest()), result(late, tiny.honest())
    assert same_bits(first.merged, last.merged)
    assert same_bits(first.state, apply_outer(tiny.before, first.merged, 0.002))
    assert same_bits(last.state, apply_outer(tiny.before, first.merged, 0.002 * (1.0 - 0.9 * 1.0)))
    assert first.model != last.model


# -- from the chain --------------------------------------------------------------------------------


class Scored:
    """Shares by (job, round): what the chain would say; remembers what it was asked."""

    def __init__(self, shares: Mapping[int, int]) -> None:
        self.shares = shares
        self.asked: set[tuple[int, int]] = set()

    def __call__(self, job_id: int, before_round: int) -> Mapping[int, int]:
        self.asked.add((job_id, before_round))
        return self.shares


def reader_of(tiny: HonestRound, facts: ChainFacts, scored: Scored) -> RoundReader:
    return RoundReader(facts, tiny.store, DEVICE, standings=scored)


def test_readers_ask_for_the_scores_of_earlier_rounds(free: HonestRound) -> None:
    facts, scored = ChainFacts(free.published), Scored({3: 7})
    view = facts.open(ROUND, SEED)
    facts.revealed = {node: free.reveal(node) for node in NODES}
    reader = reader_of(free, facts, scored)
    submissions = reader.submissions(view)
    outcome = reader.outcome(view, submissions)
    assert outcome.report.merged() == {3} and scored.asked == {(JOB, ROUND)}
    scored.shares = {8: 7}  # a reorg
    assert reader.outcome(view, submissions).report.merged() == {8}


def test_other_jobs_never_ask_for_scores(tiny: HonestRound, facts: ChainFacts) -> None:
    view, scored = facts.open(ROUND, SEED), Scored({3: 7})
    facts.revealed = {node: tiny.reveal(node) for node in NODES}
    reader = reader_of(tiny, facts, scored)
    outcome = reader.outcome(view, reader.submissions(view))
    assert outcome.report.merged() == outcome.report.accepted() == set(NODES)
    assert not scored.asked


def test_a_result_by_other_scores_is_wrong(free: HonestRound) -> None:
    right, wrong = (result(free, free.honest(), {node: 7}) for node in (3, 8))
    assert disagreements(right, proposal_of(right), right.report) == []
    assert disagreements(right, proposal_of(wrong), wrong.report)


def test_batches_of_a_good_payload_are_done_though_it_was_not_merged(free: HonestRound) -> None:
    """Else its node would show the same work again. Those of a bad one are handed out again."""
    facts = ChainFacts(free.published)
    facts.open(1, SEED)
    bad = fetch(free.reveal(5, b"junk"), free.job, free.store, free.plan.manifest.seed)
    sent = [bad if one.reveal.node == 5 else one for one in free.honest()]
    facts.record(1, result(free, sent, {3: 7}), free.store)
    plan = Plans(facts, Models(facts, free.store)).of(facts.open(2, b"\x22" * 32))
    again = free.plan.manifest.of(5)
    assert plan.carry_in == again.ranges
    assert plan.cursor_in == free.plan.manifest.cursor
    fresh = sum(one.batches for one in plan.manifest.assignments) - again.batches
    assert plan.manifest.cursor == plan.cursor_in + fresh


def test_the_rule_for_choosing_is_the_scores_own(free: HonestRound) -> None:
    assert isinstance(free.job.score, Gauntlet)
    standing = {3: 1, 5: 2, 9: 2}
    merged = result(free, free.honest(), standing).report.merged()
    assert merged == set(free.job.score.select(NODES, standing)) == {3, 5, 9}


def test_who_was_not_merged_remembers_what_it_sent_all_the_same(free: HonestRound) -> None:
    facts = ChainFacts(free.published)
    facts.open(1, SEED)
    facts.record(1, result(free, free.honest(), {3: 7}), free.store)
    models = Models(facts, free.store)
    plans = Plans(facts, models)
    plan = plans.of(facts.open(2, b"\x22" * 32))
    assert plan is not None
    memories = Memories(facts, free.store, models, plans, DEVICE)
    own = {name: torch.ones(shape) for name, shape in free.job.shapes.items()}
    for node in (3, 5):
        assert memories.before(JOB, plan, node, lambda *place: Carried(own)) is own


# -- appeals ---------------------------------------------------------------------------------------


def test_a_committee_member_finds_who_is_innocent(free: HonestRound) -> None:
    """By where the payload comes from; there is no work to be right or wrong."""
    facts = ChainFacts(free.published)
    view = facts.open(ROUND, SEED)
    facts.revealed = {node: free.reveal(node) for node in NODES}
    codec, seed = free.job.codec, free.plan.codec_seed(free.job.codec, 5)
    copy = codec.encode(scaled(free.works[3].gradient, 1.7), None, seed)
    facts.revealed[5] = free.reveal(5, copy)
    facts.revealed[9] = free.reveal(9, b"junk")
    judge = Judge(facts, free.store, DEVICE)
    assert {node: judge.is_innocent(view, node) for node in NODES} == {
        3: True,
        5: False,
        8: True,
        9: False,
    }


@pytest.mark.parametrize("kind", ["another's", "zero", "another model's"])
def test_a_payload_of_another_input_is_not_merged_and_not_paid(
    free: HonestRound, kind: str
) -> None:
    """What a node committed to is the digest of its own assignment, whatever the payload holds."""
    facts = ChainFacts(free.published)
    reader = reader_of(free, facts, Scored({}))
    view = facts.open(ROUND, SEED)
    facts.revealed = {node: free.reveal(node) for node in NODES}
    manifest = free.plan.manifest
    root = {
        "another's": input_root(manifest, 8, model_hash(free.before)),
        "zero": bytes(32),
        "another model's": input_root(manifest, 5, bytes(32)),
    }[kind]
    facts.revealed[5] = replace(facts.revealed[5], input_root=root)
    submissions = reader.submissions(view)
    outcome = reader.outcome(view, submissions)
    assert outcome.report.accepted() == outcome.report.merged() == set(NODES) - {5}
    assert 5 not in outcome.nodes
    (finding,) = malformed(free.inputs(submissions))
    assert (finding.node, finding.violation) == (5, Violation.INVALID)
    assert "wrong input" in finding.reason
