# SPDX-License-Identifier: Apache-2.0
"""Where the score is `clasp`, who makes samples lose more is paid less, and everybody says how much
less by the same published losses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agents.mechanisms import boundary
from agents.pipeline.hand_over import Passage
from agents.pipeline.miner_log import Kind
from agents.pipeline.routes import route
from agents.rounds.outcome import disagreements
from agents.rounds.quality import path_losses, samples_that_count
from agents.storage.embedded import EmbeddedStore
from agents.verify.spot_checks import suspects
from tests.stage.memory.honest_round import proposal_of
from tests.stage.memory.mined_round import MinedRound, make_mined_round

MINERS, SAMPLES = range(2, 11), 45  # three of each stage
HARMFUL = 4  # of the middle stage
CODES = boundary.get("residual")(width=4).codes


def harmful(passage: Passage, message: bytes) -> bytes:
    """Large noise in place of one miner's codes."""
    if (passage.sender, passage.kind) != (HARMFUL, Kind.FORWARD):
        return message
    source = torch.Generator().manual_seed(passage.sample)
    return CODES.pack(300 * torch.randn(CODES.unpack(message, (2, 16, 4)).shape, generator=source))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    store = EmbeddedStore(tmp_path_factory.mktemp("honest") / "store")
    return make_mined_round(store, MINERS, batches_per_round=SAMPLES, score="clasp")


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    store = EmbeddedStore(tmp_path_factory.mktemp("harmed") / "store")
    spec = {"batches_per_round": SAMPLES, "score": "clasp"}
    return make_mined_round(store, MINERS, sent=harmful, **spec)


def test_honest_miners_are_paid_in_full_and_nobody_is_suspected(honest: MinedRound) -> None:
    found = honest.honest()
    lines = honest.compute(found).report.nodes
    assert {line.quality_ppm for line in lines} == {1_000_000}
    assert suspects(honest.inputs(found), honest.store) == {}


def test_a_miner_whose_samples_lose_more_is_paid_less(harmed: MinedRound) -> None:
    lines = {line.node: line for line in harmed.compute(harmed.honest()).report.nodes}
    cut = lines.pop(HARMFUL)
    assert 500_000 < cut.quality_ppm < 900_000
    assert cut.contribution == cut.batches * cut.quality_ppm > 0
    assert {line.quality_ppm for line in lines.values()} == {1_000_000}


def test_it_is_checked_and_so_are_who_says_the_worst_of_it_and_who_was_beside_it(
    harmed: MinedRound,
) -> None:
    found = suspects(harmed.inputs(harmed.honest()), harmed.store)
    harmful, accuser, companion = found
    assert harmful == HARMFUL and harmed.plan.epoch is not None
    first, _, last = harmed.plan.epoch.stages
    assert accuser in last and companion in first
    assert "its samples lose more" in found[HARMFUL][0]
    assert found[accuser] == [f"its losses speak against node {HARMFUL}"]
    assert found[companion] == [f"node {HARMFUL} loses the most beside it"]


def test_they_are_looked_at_before_all_who_are_drawn(harmed: MinedRound) -> None:
    """Everybody is drawn here. The others come by their numbers."""
    found = list(suspects(harmed.inputs(harmed.honest(), sample=len(MINERS)), harmed.store))
    accuser, companion = found[1:3]
    assert found[0] == HARMFUL and harmed.plan.epoch is not None
    first, _, last = harmed.plan.epoch.stages
    assert accuser in last and companion in first
    assert found[3:] == sorted({*MINERS} - {HARMFUL, accuser, companion})


def test_a_job_that_pays_passes_alone_asks_for_no_losses(harmed: MinedRound) -> None:
    spec = harmed.job.spec.model_copy(update={"score": "backward_passes"})
    passes = replace(harmed, job=type(harmed.job)(spec, harmed.store))
    found = passes.honest()
    assert {line.quality_ppm for line in passes.compute(found).report.nodes} == {1_000_000}
    assert suspects(passes.inputs(found), passes.store) == {}


def test_the_options_decide_from_where_pay_falls(harmed: MinedRound) -> None:
    changes = {"score_options": {"threshold": 20.0}}
    spec = harmed.job.spec.model_copy(update=changes)
    lenient = replace(harmed, job=type(harmed.job)(spec, harmed.store))
    lines = lenient.compute(lenient.honest()).report.nodes
    assert {line.quality_ppm for line in lines} == {1_000_000}


def test_a_verifier_computes_what_the_aggregator_proposes(harmed: MinedRound) -> None:
    """Full pay for the harmful one, as a friend would propose it, is refused."""
    own, other = harmed.compute(harmed.honest()), harmed.compute(harmed.honest())
    assert disagreements(own, proposal_of(other), other.report) == []
    at = own.nodes.index(HARMFUL)
    full = own.report.nodes[at].batches * 1_000_000
    generous = (*other.contributions[:at], full, *other.contributions[at + 1 :])
    proposal = replace(proposal_of(other), contributions=generous)
    assert "contributions" in disagreements(own, proposal, other.report)[0]


def test_ways_and_losses_are_those_of_the_samples_that_count(honest: MinedRound) -> None:
    """A miner that did its work and shows nothing takes its samples with it."""
    epoch = honest.plan.epoch
    assert epoch is not None
    gone = epoch.stages[1][0]
    there = honest.honest(without=(gone,))
    drawn = {s: route(epoch.seed, s, epoch.stages) for s in epoch.samples}
    log = path_losses(epoch, there, samples_that_count(epoch, there))
    kept = [sample for sample, way in drawn.items() if gone not in way]
    assert [one.sample for one in log] == kept and 0 < len(kept) < SAMPLES
    for one in log:
        assert one.path == drawn[one.sample]
        assert one.loss == dict(honest.works[one.path[-1]].losses)[one.sample]
