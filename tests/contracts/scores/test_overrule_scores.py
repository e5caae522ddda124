# SPDX-License-Identifier: Apache-2.0
"""overrule_scores: the Coordinator takes stake for a vector that was false, once."""

from __future__ import annotations

from typing import Any

from tests.stage.contracts.events import event
from tests.stage.contracts.scores import ScoreStage
from tests.stage.contracts.system import events_of, refuses

ROW, LIE = [3, 2, 1], [0, 0, 65_535]
FALSE_REPORT = 6
SCALE = [30_000, 20_000, 10_000]


def test_attack__a_false_vector__costs_a_fifth_and_the_consensus_stands(
    stage: ScoreStage, scores: Any
) -> None:
    """Two are honest, the third gives everything to one node: its stake, and nothing else."""
    round_id = stage.to_scored(SCALE, SCALE, LIE)
    liar, registry = stage.verifiers[2], stage.system.registry
    before, trust = registry.bonded(liar.node_id), scores.trust_of(1, liar.node_id)
    owner = stage.system.coordinator.address
    scores.overrule_scores(1, round_id, [liar.node_id], sender=owner)
    lost = before // 5
    assert events_of(scores) == [
        event(
            "ScoresOverruled",
            job_id=1,
            round_id=round_id,
            verifier_id=liar.node_id,
            amount=lost,
        )
    ]
    assert registry.bonded(liar.node_id) == before - lost
    assert registry.offences(liar.node_id, FALSE_REPORT) == 1
    assert scores.trust_of(1, liar.node_id) == trust
    with refuses("scores: nothing to overrule"):
        scores.overrule_scores(1, round_id, [liar.node_id], sender=owner)


def test_overrule__nobody_but_the_owner__and_nothing_that_was_not_revealed(
    stage: ScoreStage, scores: Any
) -> None:
    round_id = stage.to_scored(SCALE, SCALE, None)
    told, silent = stage.verifiers[0].node_id, stage.verifiers[2].node_id
    for who in (stage.verifiers[1].operator, stage.verifiers[0].owner, stage.job.sponsor):
        with refuses("ownable: caller is not the owner"):
            scores.overrule_scores(1, round_id, [told], sender=who)
    owner = stage.system.coordinator.address
    for job, number, verifier in (
        (1, round_id, silent),
        (1, round_id + 1, told),
        (2, 1, told),
        (1, round_id, 99),
    ):
        with refuses("scores: nothing to overrule"):
            scores.overrule_scores(job, number, [verifier], sender=owner)
    with refuses("scores: nothing to overrule"):
        scores.overrule_scores(1, round_id, [told, silent], sender=owner)
    with refuses("scores: nothing to overrule"):
        scores.overrule_scores(1, round_id, [told, told], sender=owner)
    assert stage.system.registry.offences(told, FALSE_REPORT) == 0
