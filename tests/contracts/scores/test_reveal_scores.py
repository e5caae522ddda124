# SPDX-License-Identifier: Apache-2.0
"""reveal_scores: what was committed to, within the bounds, in time, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.scores import (
    BPS,
    COMMIT_TIME,
    RECORD,
    REVEAL_S,
    SCALE,
    SCORE_COMMIT,
    SCORE_REVEAL,
    ScoreStage,
    make_scores,
)
from tests.stage.contracts.system import EMPTY, System, events_of, refuses

ROW = [SCALE - 3, 2, 1]


def committed(stage: ScoreStage, row: Sequence[int] = ROW) -> int:
    """A round in which verifier 0 committed to `row` and others to something, so that all may
    reveal."""
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, row)
    return round_id


def test_reveal__is_told_and_counted(stage: ScoreStage, scores: Any) -> None:
    round_id = committed(stage)
    player = stage.verifiers[0]
    assert scores.record_of(1, round_id, player.node_id) == EMPTY
    stage.reveal(round_id, player, ROW)
    assert events_of(scores) == [
        event(
            "ScoresRevealed",
            job_id=1,
            round_id=round_id,
            verifier_id=player.node_id,
            scores=ROW,
            record=RECORD,
        )
    ]
    assert scores.record_of(1, round_id, player.node_id) == RECORD
    state = stage.state(round_id)
    assert (state.phase, state.committed, state.revealed) == (SCORE_REVEAL, 3, 1)


def test_reveal__not_before_the_commit_window_is_over(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    player = stage.verifiers[0]
    with refuses("scores: not in reveal"):
        stage.reveal(round_id, player, ROW)
    stage.commit(round_id, player, ROW)
    mine(1, COMMIT_TIME)
    assert stage.state(round_id).phase == SCORE_COMMIT
    with refuses("scores: not in reveal"):
        stage.reveal(round_id, player, ROW)
    mine(1, 1)
    stage.reveal(round_id, player, ROW)


def test_reveal__at_the_deadline_and_after(stage: ScoreStage) -> None:
    round_id = committed(stage)
    mine(1, REVEAL_S)
    stage.reveal(round_id, stage.verifiers[0], ROW)
    mine(1, 1)
    with refuses("scores: too late"):
        stage.reveal(round_id, stage.verifiers[1], ROW)


def test_reveal__deadline_counts_from_the_commit_deadline(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, ROW, *stage.verifiers[:2])
    mine(1, COMMIT_TIME + REVEAL_S)
    stage.reveal(round_id, stage.verifiers[0], ROW)
    mine(1, 1)
    with refuses("scores: too late"):
        stage.reveal(round_id, stage.verifiers[1], ROW)


def test_reveal__operator_changed__the_old_key_reveals(stage: ScoreStage) -> None:
    """The commitment binds its sender; changing keys in between helps and hinders nobody."""
    round_id = committed(stage)
    player = stage.verifiers[0]
    key = account("new operator")
    new = str(key.address)
    signed = consent(stage.system.registry, key, player.owner)
    stage.system.registry.set_operator(player.node_id, new, signed, sender=player.owner)
    with refuses("scores: bad opening"):
        stage.reveal(round_id, player, ROW, sender=new)
    stage.reveal(round_id, player, ROW)


@pytest.mark.parametrize("trainers", [15, 16, 17, 33])
def test_reveal__around_a_word_of_storage__every_score_comes_back(
    system: System, trainers: int
) -> None:
    """16 scores share a word, in the vectors and in the consensus."""
    stage = make_scores(system, trainers=trainers)
    row = [(7 * place + 1) % 1_000 for place in range(trainers)]
    row[15 % trainers] = 0
    round_id = stage.to_scored(row, row, row)
    assert stage.scores.shares(1, round_id, stage.job.ids) == row
    assert stage.scores.settlement(1, round_id) == (True, round_id, sum(row))
    backwards = stage.job.ids[::-1]
    assert stage.scores.shares(1, round_id, backwards) == row[::-1]
    assert stage.scores.shares(1, round_id, [10**30, 0]) == [0, 0]
    assert stage.scores.trust_of(1, stage.verifiers[0].node_id) == BPS
