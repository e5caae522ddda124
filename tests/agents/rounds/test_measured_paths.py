# SPDX-License-Identifier: Apache-2.0
"""Rounds whose paths are drawn by what the rounds before showed, the same for everybody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.audit.chain.votes import Tally
from agents.audit.sources.findings import Part
from agents.audit.work.comparing import compare_result
from agents.jobs.job import SpecError
from agents.pipeline.epoch import Epoch
from agents.pipeline.pace import FULL, START
from agents.rounds.models import Models
from agents.rounds.outcome import compute, disagreements
from agents.rounds.plan import Plan, Plans
from agents.rounds.proof import ProofOfComputation
from agents.rounds.report import ReportError, RoundReport
from agents.storage.canonical import dumps, loads
from agents.training.spec import demo_spec
from agents.training.state import PayloadError
from tests.stage.memory.honest_round import DEVICE, JOB, proposal_of
from tests.stage.memory.mined_round import MinedRound
from tests.stage.memory.mined_run import Run, run

MEASURED: dict[str, Any] = {"paths": "measured", "sharing": {"full_every": 4}}
NODES = (2, 3, 4, 5, 6, 7, 8, 9, 10)  # three a stage
SLOW = 2


def at_a_third(mined: MinedRound, node: int) -> int:
    """What a miner states that takes 10 ms a sample's forward; the slow one takes 30."""
    work = len(mined.works[node].log.events)
    return 10 * work * (3 if node == SLOW else 1)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("four")
    return run(folder, (NODES,) * 4, busy=at_a_third, pipeline=MEASURED, batches_per_round=18)


def epoch_of(plan: Plan) -> Epoch:
    assert plan.epoch is not None
    return plan.epoch


def due(mined: MinedRound, node: int) -> int:
    return len(epoch_of(mined.plan).due(node))


def test_the_first_round_is_drawn_alike_and_later_ones_by_what_was_measured(four: Run) -> None:
    begun, *later = (epoch_of(mined.plan) for mined in four.rounds)
    assert dict(begun.weights) == dict.fromkeys(NODES, START)
    alike = replace(begun, weights=())
    assert all(alike.route(s) == begun.route(s) for s in alike.samples)
    for before, epoch in zip(four.outcomes, later, strict=False):
        assert list(epoch.weights) == before.report.weights
        alike = replace(epoch, weights=())
        assert any(alike.route(s) != epoch.route(s) for s in alike.samples)
    last, stage = dict(later[-1].weights), later[-1].stage_of(SLOW)
    mates = [n for n in NODES if n != SLOW and later[-1].stage_of(n) == stage]
    assert last[SLOW] < 0.65 * min(last[n] for n in mates)
    assert sum(due(mined, SLOW) for mined in four.rounds[1:]) < sum(
        min(due(mined, n) for n in mates) for mined in four.rounds[1:]
    )


def test_all_passes_count_and_are_paid_and_everybody_derives_the_same(four: Run) -> None:
    plans = Plans(four.facts, Models(four.facts, four.rounds[0].store))
    for number, (mined, outcome) in enumerate(zip(four.rounds, four.outcomes, strict=True), 1):
        found = plans.past(JOB, number)
        assert found.epoch == mined.plan.epoch and found.manifest == mined.plan.manifest
        assert found.weights == mined.plan.weights
        lines = {line.node: line for line in outcome.report.nodes}
        assert {n: line.batches for n, line in lines.items()} == {n: due(mined, n) for n in NODES}
        assert set(outcome.paid()) == {n for n in NODES if due(mined, n)}


@pytest.mark.parametrize("step", range(4))
def test_a_verifier_finds_each_miner_right(four: Run, step: int) -> None:
    assert all(four.check(step, node).right for node in NODES)


def test_a_proposer_that_favours_a_friend_in_the_weights_is_refused(four: Run) -> None:
    """Control: the honest proposal has nothing wrong."""
    mine = four.outcomes[1]
    weights = [(n, FULL if n == SLOW else w) for n, w in mine.report.weights or ()]
    claimed = mine.report.model_copy(update={"weights": weights})
    honest = proposal_of(mine)
    assert disagreements(mine, honest, mine.report) == []
    assert disagreements(mine, honest, claimed) == ["the report differs from the recomputed one"]


@pytest.mark.parametrize("claimed", ["raised", "left out"])
def test_an_audit_names_weights_that_are_not_those_of_the_round(four: Run, claimed: str) -> None:
    """Also where a majority attested a report that has none. Control: the honest one."""
    mine = four.outcomes[1]
    weights = [(n, FULL) for n, _ in mine.report.weights or ()] if claimed == "raised" else None
    reports = (mine.report, mine.report.model_copy(update={"weights": weights}))
    found = []
    for report in reports:
        part = Part(2)
        compare_result(part, Tally(proposal_of(mine), {}, frozenset(), frozenset()), report, mine)
        found.append([str(one) for one in part.differences])
    assert found[0] == [] and len(found[1]) == 1 and "report: weights" in found[1][0]


def test_who_shows_nothing_is_drawn_less_and_one_that_is_not_there_is_remembered(
    tmp_path: Path,
) -> None:
    present = (NODES, [n for n in NODES if n != 3], NODES)
    made = run(tmp_path, present, busy=at_a_third, pipeline=MEASURED, batches_per_round=9)
    first, second = (dict(one.report.weights or ()) for one in made.outcomes[:2])
    assert first[3] > START and START < second[3] < first[3]
    assert dict(epoch_of(made.rounds[2].plan).weights)[3] == second[3]
    # The same round, to which it came and showed nothing.
    mined = made.rounds[0]
    found = [one for one in mined.honest() if one.reveal.node != 3]
    outcome = compute(mined.job, JOB, 1, mined.plan, mined.before, found, DEVICE)
    assert dict(outcome.report.weights or ())[3] == 3 * START // 4


def test_jobs_that_draw_all_alike_have_none_of_it(tmp_path: Path) -> None:
    alike = {"sharing": {"full_every": 1}}
    made = run(tmp_path, (NODES,), busy=at_a_third, pipeline=alike, batches_per_round=6)
    assert epoch_of(made.rounds[0].plan).weights == () and made.rounds[0].plan.weights == {}
    assert made.outcomes[0].report.weights is None
    assert b"weights" not in made.outcomes[0].report.to_bytes()
    assert b"paths" not in made.rounds[0].job.spec.to_bytes()


def test_the_spec_knows_two_ways_to_draw() -> None:
    block = {"layers": [1, 1]}
    plain = demo_spec("b" + "a" * 58, mode="pipeline", pipeline=block)
    named = demo_spec("b" + "a" * 58, mode="pipeline", pipeline={**block, "paths": "equal"})
    assert plain.to_bytes() == named.to_bytes() and not plain.measured_paths
    with pytest.raises(SpecError, match="paths"):
        demo_spec("b" + "a" * 58, mode="pipeline", pipeline={**block, "paths": "fastest"})


@pytest.mark.parametrize("told", [0, -1, 2**53, 1.5, "7", True])
def test_a_proof_states_whole_milliseconds(four: Run, told: object) -> None:
    proof = four.rounds[0].submit(SLOW, busy_ms=1).proof
    assert proof is not None and proof.busy_ms == 1
    fields = {**loads(proof.to_bytes()), "busy_ms": told}
    with pytest.raises(PayloadError, match="busy_ms"):
        ProofOfComputation.from_bytes(dumps(fields), 64)


@pytest.mark.parametrize("weights", [[[2, 0]], [[2, FULL + 1]], [[0, FULL]], [[2]], "all"])
def test_a_report_with_other_weights_can_not_be_used(four: Run, weights: object) -> None:
    fields = {**loads(four.outcomes[0].report.to_bytes()), "weights": weights}
    with pytest.raises(ReportError, match="weights"):
        RoundReport.from_bytes(dumps(fields))


def test_whoever_does_the_rounds_again_gets_the_same_reports_to_the_byte(
    tmp_path: Path, four: Run
) -> None:
    again = run(tmp_path, (NODES,) * 4, busy=at_a_third, pipeline=MEASURED, batches_per_round=18)
    assert [one.report.to_bytes() for one in again.outcomes] == [
        one.report.to_bytes() for one in four.outcomes
    ]
