# SPDX-License-Identifier: Apache-2.0
"""The result of a round: what it must be, and that no part of it can be changed unnoticed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents.jobs.job import JobContext
from agents.pipeline.pace import FULL
from agents.protocol.numbers import UNCLAIMED
from agents.protocol.structs import Proposal
from agents.rounds.outcome import LOSS_TOLERANCE, WORST_LOSS, Outcome, _gain, disagreements
from agents.rounds.plan import Plan
from agents.rounds.report import MAX_GAIN_PPM, NodeLine, RoundReport
from agents.rounds.submissions import Submission, fetch
from agents.storage.cid import cid_of_bytes
from agents.training.state import load_state, model_hash
from agents.training.update import read_update
from tests.stage.memory.honest_round import NODES, HonestRound, proposal_of, scaled

OTHER = "ab" * 32
OTHER_CID = cid_of_bytes(b"something else")


@pytest.fixture(scope="module")
def outcome(tiny: HonestRound) -> Outcome:
    return tiny.compute(tiny.honest())


def flat(state: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([state[name].numpy().ravel() for name in sorted(state)])


def test_merge_update_and_scores_are_those_of_a_second_implementation(
    tiny: HonestRound, outcome: Outcome
) -> None:
    rows = np.stack([flat(tiny.works[node].gradient) for node in NODES])
    ordered = np.sort(rows, axis=0)
    middle = (ordered[1] + ordered[2]) * np.float32(0.5)
    np.testing.assert_array_equal(flat(outcome.merged), middle)
    rate = np.float32(tiny.job.spec.optimizer.outer_lr)
    np.testing.assert_array_equal(flat(outcome.state), flat(tiny.before) - middle * rate)

    signs = np.sign(rows).astype(int)
    wanted = []
    for index, node in enumerate(NODES):
        others = np.sign(signs.sum(axis=0) - signs[index])
        agreement = others * signs[index]
        agree, disagree = int((agreement > 0).sum()), int((agreement < 0).sum())
        quality = max(0, agree - disagree) * 1_000_000 // (agree + disagree)
        batches = tiny.plan.manifest.of(node).batches
        wanted.append((node, batches, quality, quality * batches))
    lines = outcome.report.nodes
    found = [(line.node, line.batches, line.quality_ppm, line.contribution) for line in lines]
    assert found == wanted
    assert [batches for _, batches, _, _ in wanted] == [2, 2, 2, 6]
    assert list(zip(outcome.nodes, outcome.contributions, strict=True)) == [
        (node, share) for node, _, _, share in wanted if share
    ]


def test_the_artefacts_are_what_the_report_names(tiny: HonestRound, outcome: Outcome) -> None:
    report = outcome.report
    assert report.update == cid_of_bytes(outcome.update)
    update = read_update(outcome.update, tiny.job.shapes)
    assert model_hash(update) == model_hash(outcome.merged)
    assert outcome.model == model_hash(outcome.state) != model_hash(tiny.before)
    assert report.prev_model == model_hash(tiny.before).hex()
    assert report.val_loss < report.val_loss_before
    assert RoundReport.from_bytes(report.to_bytes()) == report


def test_the_result_has_the_same_bytes_a_second_time(tiny: HonestRound, outcome: Outcome) -> None:
    again = tiny.compute(tiny.honest())
    assert again.report.to_bytes() == outcome.report.to_bytes()
    assert again.update == outcome.update


@pytest.mark.parametrize(("step", "due"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_checkpoint_is_due_every_third_round_and_in_the_last(
    tiny: HonestRound, step: int, due: bool
) -> None:
    outcome = tiny.compute(tiny.honest(), Plan(tiny.plan.manifest, step, (), 0))
    assert (outcome.checkpoint is not None) is due
    if due:
        state = load_state(outcome.checkpoint, tiny.job.shapes)
        assert model_hash(state) == outcome.model
        assert outcome.report.checkpoint == cid_of_bytes(outcome.checkpoint)


def test_an_unreadable_payload_is_left_out_and_named(tiny: HonestRound) -> None:
    bad = fetch(tiny.reveal(5, b"not a payload"), tiny.job, tiny.store)
    honest = [tiny.submit(node) for node in NODES if node != 5]
    outcome = tiny.compute([honest[0], bad, *honest[1:]])
    alone = tiny.compute(honest)
    assert outcome.model == alone.model
    assert outcome.nodes == (UNCLAIMED, *alone.nodes)
    line = outcome.report.nodes[1]
    assert (line.node, line.accepted, line.quality_ppm, line.contribution) == (5, False, 0, 0)
    assert line.reason.startswith("bad payload: ")
    assert outcome.report.accepted() == {3, 8, 9}


def test_a_round_without_a_readable_payload_leaves_the_model_alone(tiny: HonestRound) -> None:
    bad = [fetch(tiny.reveal(node, b"junk"), tiny.job, tiny.store) for node in NODES]
    outcome = tiny.compute(bad)
    assert outcome.model == model_hash(tiny.before)
    assert (outcome.nodes, outcome.contributions) == ((), ())


def test_contributions_follow_from_signs_alone(tiny: HonestRound, outcome: Outcome) -> None:
    loud = tiny.submit(9, scaled(tiny.works[9].gradient, 2.0))
    found = tiny.compute([*tiny.honest()[:3], loud])
    assert found.contributions == outcome.contributions
    assert found.model != outcome.model  # the middle two of four values do move


def test_an_honest_result_has_no_fault(outcome: Outcome) -> None:
    assert disagreements(outcome, proposal_of(outcome), outcome.report) == []


@pytest.mark.parametrize(
    "change",
    [
        {"model": b"\2" * 32},
        {"update": b"\2" * 32},
        {"nodes": (3, 5, 8, 10)},
        {"contributions": (1, 2, 3, 4)},
        {"nodes": (), "contributions": ()},
    ],
)
def test_every_field_of_the_proposal_is_compared(outcome: Outcome, change: dict[str, Any]) -> None:
    wrong = disagreements(outcome, replace(proposal_of(outcome), **change), outcome.report)
    assert len(wrong) == 1


def test_a_part_for_nobody_is_wrong_where_all_work_is_shared(outcome: Outcome) -> None:
    """A proposer that would have the treasury paid, where no model is split."""
    true = proposal_of(outcome)
    burnt = replace(true, nodes=(UNCLAIMED, *true.nodes), contributions=(1, *true.contributions))
    (wrong,) = disagreements(outcome, burnt, outcome.report)
    assert wrong == "the contributions on chain are not those that the scoring rule gives"


def without(outcome: Outcome, *nodes: int) -> Proposal:
    paid = outcome.paid(nodes)
    change = {"nodes": tuple(paid), "contributions": tuple(paid.values())}
    return replace(proposal_of(outcome), **change)


def test_nodes_found_invalid_may_be_named_or_left_out(outcome: Outcome) -> None:
    """Reports may be confirmed before a second proposal, or between a proposal and its check."""
    for proposal in (proposal_of(outcome), without(outcome, 5)):
        assert disagreements(outcome, proposal, outcome.report, invalid={5}) == []


def test_honest_nodes_may_not_be_left_out(outcome: Outcome) -> None:
    assert disagreements(outcome, without(outcome, 5), outcome.report)
    assert disagreements(outcome, without(outcome, 5, 8), outcome.report, invalid={5})


REPORT_CHANGES: dict[str, Any] = {
    "version": 2,
    "job": 2,
    "round": 2,
    "step": 1,
    "prev_model": OTHER,
    "model": OTHER,
    "update": OTHER_CID,
    "checkpoint": OTHER_CID,
    "codec": "sparse",
    "merge": "mean",
    "score": "alignment",
    "carry_in": [(0, 1)],
    "cursor_in": 12,
    "nodes": [],
    "val_loss_before": 0.5,
    "val_loss": 0.5,
    "shards": OTHER_CID,
    "weights": [(1, FULL)],
}
LINE_CHANGES: dict[str, Any] = {
    "node": 77,
    "content": OTHER,
    "accepted": False,
    "merged": False,
    "batches": 99,
    "quality_ppm": 1,
    "gain_ppm": 7,
    "contribution": 10**30,
    "memory": 1 << 30,
}


def test_the_tables_of_changes_name_every_field() -> None:
    assert REPORT_CHANGES.keys() == RoundReport.model_fields.keys()
    assert LINE_CHANGES.keys() == NodeLine.model_fields.keys() - {"reason"}


@pytest.mark.parametrize("name", REPORT_CHANGES)
def test_every_field_of_the_report_is_compared(outcome: Outcome, name: str) -> None:
    forged = outcome.report.model_copy(update={name: REPORT_CHANGES[name]})
    assert disagreements(outcome, proposal_of(outcome), forged)


@pytest.mark.parametrize("name", LINE_CHANGES)
def test_every_field_of_a_nodes_line_is_compared(outcome: Outcome, name: str) -> None:
    lines = list(outcome.report.nodes)
    lines[2] = lines[2].model_copy(update={name: LINE_CHANGES[name]})
    forged = outcome.report.model_copy(update={"nodes": lines})
    assert disagreements(outcome, proposal_of(outcome), forged)


def test_the_reason_for_a_refusal_is_free_text(outcome: Outcome) -> None:
    lines = list(outcome.report.nodes)
    lines[0] = lines[0].model_copy(update={"reason": "in my own words"})
    worded = outcome.report.model_copy(update={"nodes": lines})
    assert disagreements(outcome, proposal_of(outcome), worded) == []


@pytest.mark.parametrize("name", ["val_loss", "val_loss_before"])
@pytest.mark.parametrize(("factor", "fine"), [(0.5, True), (-0.5, True), (2.0, False), (-2, False)])
def test_losses_may_differ_by_rounding_only(
    outcome: Outcome, name: str, factor: float, fine: bool
) -> None:
    value = getattr(outcome.report, name) * (1 + factor * LOSS_TOLERANCE)
    other = outcome.report.model_copy(update={name: value})
    assert (disagreements(outcome, proposal_of(outcome), other) == []) is fine


def test_submissions_decide_the_result_not_their_order_of_arrival(tiny: HonestRound) -> None:
    first: list[Submission] = [tiny.submit(node) for node in reversed(NODES)]
    ordered = sorted(first, key=lambda s: s.reveal.node)
    assert tiny.compute(ordered).model == tiny.compute(tiny.honest()).model


def test_a_ruined_model_gets_a_report_like_any_other(tiny: HonestRound) -> None:
    """One node's huge update under the mean makes the loss NaN; whoever audits needs the report. It
    is read without a bound here, as in a job that has none."""
    job = JobContext(tiny.job.spec.model_copy(update={"merge": "mean"}), tiny.store)
    huge = {
        name: torch.full(shape, 1e19) * (-1.0) ** torch.arange(math.prod(shape)).reshape(shape)
        for name, shape in job.shapes.items()
    }
    payload = job.codec.encode(huge, None, b"")
    spoilt = fetch(tiny.reveal(NODES[0], payload), job, tiny.store)
    submissions = [spoilt, *(tiny.submit(node) for node in NODES[1:])]
    found = replace(tiny, job=job).compute(submissions)
    assert found.report.val_loss == WORST_LOSS > found.report.val_loss_before
    assert RoundReport.from_bytes(found.report.to_bytes()) == found.report
    assert disagreements(found, proposal_of(found), found.report) == []


@pytest.mark.parametrize(
    ("before", "after", "gain"),
    [(2.0, 1.0, 500_000), (2.0, WORST_LOSS, -MAX_GAIN_PPM), (0.0, 0.0, 0), (0.0, 1.0, 0)],
)
def test_a_gain_is_always_a_number(before: float, after: float, gain: int) -> None:
    assert _gain(before, after) == gain
