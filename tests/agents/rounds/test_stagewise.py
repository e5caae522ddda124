# SPDX-License-Identifier: Apache-2.0
"""Each stage's miners are merged among themselves, and whose passes count follows from the logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.pipeline.credit import PPM
from agents.protocol.numbers import UNCLAIMED
from agents.rounds.mined import Mined
from agents.rounds.outcome import Outcome
from agents.rounds.report import UNAVAILABLE
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State, apply_outer
from tests.stage.memory.mined_round import MINERS, PIPELINE, MinedRound, make_mined_round


@pytest.fixture(scope="module")
def outcome(mined: MinedRound) -> Outcome:
    return mined.compute(mined.honest())


def passes(outcome: Outcome) -> dict[int, int]:
    return {line.node: line.batches for line in outcome.report.nodes}


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def stages(mined: MinedRound) -> tuple[tuple[int, ...], ...]:
    assert mined.plan.epoch is not None
    return mined.plan.epoch.stages


def test_an_honest_round_lowers_the_loss(outcome: Outcome) -> None:
    assert outcome.report.val_loss < outcome.report.val_loss_before - 0.1
    assert all(line.merged and not line.reason for line in outcome.report.nodes)


def test_everybody_is_paid_for_all_that_it_was_drawn_for(
    mined: MinedRound, outcome: Outcome
) -> None:
    assert mined.plan.epoch is not None
    due = {node: len(mined.plan.epoch.due(node)) for node in MINERS}
    assert passes(outcome) == due and min(due.values()) > 0
    assert outcome.paid() == {node: number * 1_000_000 for node, number in due.items()}


def test_a_stage_is_moved_by_the_mean_of_its_own_miners(
    mined: MinedRound, outcome: Outcome
) -> None:
    for one, other in stages(mined):
        changes = mined.works[one].change, mined.works[other].change
        for name in changes[0]:
            mean = (changes[0][name].double() + changes[1][name].double()) / 2
            torch.testing.assert_close(outcome.merged[name], mean.float(), rtol=1e-6, atol=1e-9)
    assert same(outcome.state, apply_outer(mined.before, outcome.merged, 1.0))


def test_by_weighted_mean_a_miner_counts_for_as_many_as_its_passes(tmp_path: Path) -> None:
    uneven = make_mined_round(
        EmbeddedStore(tmp_path / "store"), merge="weighted_mean", batches_per_round=10
    )
    outcome = uneven.compute(uneven.honest())
    done = passes(outcome)
    assert any(done[one] != done[other] for one, other in stages(uneven))
    for one, other in stages(uneven):
        assert done[one] + done[other] == 10
        changes = uneven.works[one].change, uneven.works[other].change
        for name, mine in changes[0].items():
            wanted = (done[one] * mine.double() + done[other] * changes[1][name].double()) / 10
            torch.testing.assert_close(outcome.merged[name], wanted.float(), rtol=1e-6, atol=1e-9)


def test_what_others_did_in_the_place_of_one_that_died_counts(tmp_path: Path) -> None:
    alone = make_mined_round(EmbeddedStore(tmp_path / "store"), died=(2,), batches_per_round=6)
    outcome = alone.compute(alone.honest())
    assert passes(outcome)[8] == 6 and sum(passes(outcome).values()) == 3 * 6


def test_what_others_did_in_the_place_of_one_that_reveals_and_shows_nothing_is_nobodys(
    tmp_path: Path,
) -> None:
    """It never worked. Those who handed its samples to its mate, and the mate, are not paid for
    them; the last stage is not beside the break."""
    alone = make_mined_round(EmbeddedStore(tmp_path / "store"), died=(2,), batches_per_round=6)
    assert alone.plan.epoch is not None
    lost = set(alone.plan.epoch.due(2))
    place = next(place for place, stage in enumerate(stages(alone)) if 2 in stage)
    (mate,) = {*stages(alone)[place]} - {2}
    assert lost and len(lost) < 6
    honest = alone.honest()
    silent = replace(honest[0].reveal, node=2)
    shown = Mined(silent, None, f"{UNAVAILABLE}not found", place)
    outcome = alone.compute(sorted([*honest, shown], key=lambda one: one.reveal.node))
    found = passes(outcome)
    assert found[2] == 0 and found[mate] == 6 - len(lost)
    for at, stage in enumerate(stages(alone)):
        if at != place:
            kept = 6 - len(lost) if at == place - 1 else 6
            assert sum(found[node] for node in stage) == kept
    assert outcome.paid()[UNCLAIMED] == (18 - sum(found.values())) * PPM


def test_a_log_that_a_proposer_calls_late_counts_for_nobody_though_it_is_at_hand(
    mined: MinedRound,
) -> None:
    """As who attests or audits such a result puts it: the payload taken away, the log there."""
    gone = stages(mined)[1][0]
    late = [
        replace(one, gradient=None, reason=UNAVAILABLE) if one.reveal.node == gone else one
        for one in mined.honest()
    ]
    without = [*mined.honest(without=(gone,)), mined.submit(gone, missing="trace")]
    found = mined.compute(late), mined.compute(sorted(without, key=lambda one: one.reveal.node))
    assert passes(found[0]) == passes(found[1]) and passes(found[0])[gone] == 0
    assert found[0].paid() == found[1].paid()


def test_too_few_passes_are_not_merged_and_their_stage_keeps_its_weights(tmp_path: Path) -> None:
    """Five miners: only the one that is alone at its stage has all six passes."""
    few = make_mined_round(
        EmbeddedStore(tmp_path / "store"),
        MINERS[:5],
        batches_per_round=6,
        pipeline={**PIPELINE, "least_passes": 6},
    )
    (single,) = [stage for stage in stages(few) if len(stage) == 1]
    outcome = few.compute(few.honest())
    assert [line.node for line in outcome.report.nodes if line.merged] == [*single]
    reasons = [line.reason for line in outcome.report.nodes if not line.merged]
    assert all("passes count, and 6 are needed" in reason for reason in reasons)
    for name in few.before:
        moved = name in few.works[single[0]].change
        assert torch.equal(outcome.state[name], few.before[name]) != moved
    # A pass that counts is paid, merged or not.
    assert sum(passes(outcome).values()) == 3 * 6


def test_a_stage_without_a_quorum_keeps_its_weights_and_its_miners_are_paid(tmp_path: Path) -> None:
    """One of six miners is away, and a quorum of 0.6 is both miners of a stage."""
    pipeline = {**PIPELINE, "quorum": 0.6}
    store = EmbeddedStore(tmp_path / "store")
    short = make_mined_round(store, died=(2,), batches_per_round=6, pipeline=pipeline)
    (alone,) = {*next(stage for stage in stages(short) if 2 in stage)} - {2}
    outcome = short.compute(short.honest())
    (line,) = [line for line in outcome.report.nodes if not line.merged]
    assert (line.node, line.batches) == (alone, 6) and outcome.paid()[alone] == 6_000_000
    assert "1 of 2 miners of the stage have enough passes, and 2 are needed" in line.reason
    for name in short.before:
        kept = name in short.works[alone].change
        assert torch.equal(outcome.state[name], short.before[name]) == kept


def test_where_a_merge_is_refused_the_other_stage_goes_on(tmp_path: Path) -> None:
    """multi_krum takes three miners, and not two. These are paid for their passes all the same: an
    idle third would take their pay from them."""
    pipeline = {**PIPELINE, "layers": [2, 1]}
    spec = {"batches_per_round": 10, "merge": "multi_krum", "pipeline": pipeline}
    uneven = make_mined_round(EmbeddedStore(tmp_path / "store"), MINERS[:5], **spec)
    two, three = sorted(stages(uneven), key=len)
    outcome = uneven.compute(uneven.honest())
    assert [line.node for line in outcome.report.nodes if line.merged] == [*three]
    assert outcome.paid().keys() == {*three, *two}
    assert sum(outcome.paid()[node] for node in two) == 10 * PPM
    assert sum(outcome.paid()[node] for node in three) == 10 * PPM
    for name in uneven.before:
        moved = name in uneven.works[three[0]].change
        assert torch.equal(outcome.state[name], uneven.before[name]) != moved


def test_a_stage_of_which_nobody_is_there_leaves_the_model_as_it_is(mined: MinedRound) -> None:
    outcome = mined.compute(mined.honest(without=stages(mined)[1]))
    assert set(passes(outcome).values()) == {0} and outcome.paid() == {}
    assert same(outcome.state, mined.before)


def test_a_payload_that_is_not_there_leaves_its_samples_to_nobody(mined: MinedRound) -> None:
    """It did them, but shows nothing, so the first that is there did not do them. Those who handed
    them over, to it and not to that one, are not paid for them either; the last stage is."""
    first, here, _ = stages(mined)
    gone = here[0]
    found: list[Mined] = mined.honest(without=(gone,))
    outcome = mined.compute([*found, mined.submit(gone, missing="trace")])
    assert mined.plan.epoch is not None
    lost = set(mined.plan.epoch.due(gone))
    for node, number in passes(outcome).items():
        due = set(mined.plan.epoch.due(node))
        wanted = due - lost if node in first else due
        assert number == (0 if node == gone else len(wanted))
    assert outcome.paid()[UNCLAIMED] == 2 * len(lost) * PPM
