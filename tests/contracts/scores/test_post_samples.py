# SPDX-License-Identifier: Apache-2.0
"""post_samples: the operator of a node that revealed, once, as long as scores may be committed."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.events import event
from tests.stage.contracts.scores import SAMPLES, ScoreStage
from tests.stage.contracts.system import EMPTY, events_of, refuses

ROW = [3, 2, 1]


def post(stage: ScoreStage, round_id: int, place: int = 0, digest: bytes = SAMPLES) -> None:
    player = stage.job.trainers[place]
    stage.scores.post_samples(1, round_id, player.node_id, digest, sender=player.operator)


def test_post_samples__is_kept_and_told(stage: ScoreStage, scores: Any) -> None:
    round_id = stage.job.to_aggregate()
    node = stage.job.ids[0]
    assert scores.samples_of(1, round_id, node) == EMPTY
    post(stage, round_id)
    assert events_of(scores) == [
        event("SamplesPosted", job_id=1, round_id=round_id, node_id=node, digest=SAMPLES)
    ]
    assert scores.samples_of(1, round_id, node) == SAMPLES
    assert scores.samples_of(1, round_id, stage.job.ids[1]) == EMPTY
    assert scores.samples_of(1, round_id + 1, node) == EMPTY


def test_post_samples__only_while_the_round_can_be_scored(stage: ScoreStage) -> None:
    round_id = stage.job.to_reveal()
    with refuses("scores: round not running"):
        post(stage, round_id)
    for other in (round_id - 1, round_id + 1):
        with refuses("scores: round not running"):
            post(stage, other)
    stage.job.reveal_all(round_id, *stage.job.trainers)
    post(stage, round_id)
    stage.job.propose(round_id)
    post(stage, round_id, place=1)
    stage.job.challenge(round_id)
    post(stage, round_id, place=2)


def test_post_samples__until_everybody_committed(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, ROW, *stage.verifiers[:2])
    post(stage, round_id)
    stage.commit(round_id, stage.verifiers[2], ROW)
    with refuses("scores: too late"):
        post(stage, round_id, place=1)


def test_post_samples__until_the_commit_deadline(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    with boa.env.anchor():
        stage.past_commits(round_id)
        with refuses("scores: too late"):
            post(stage, round_id)
    stage.commit(round_id, stage.verifiers[0], ROW)
    stage.past_commits(round_id)
    with refuses("scores: too late"):
        post(stage, round_id)
    stage.past_reveals(round_id)
    stage.close(round_id, [0, 0, 0])
    with refuses("scores: too late"):
        post(stage, round_id)
