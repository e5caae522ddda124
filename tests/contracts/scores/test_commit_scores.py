# SPDX-License-Identifier: Apache-2.0
"""commit_scores: a verifier of the snapshot, its own operator, once, in time."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import hash_of, mine
from tests.stage.contracts.events import event
from tests.stage.contracts.scores import (
    COMMIT_TIME,
    NO_SCORES,
    RECORD,
    REVEAL_S,
    SALT,
    SCORE_COMMIT,
    SCORE_REVEAL,
    ScoreStage,
)
from tests.stage.contracts.system import EMPTY, STAKE, VOICE, events_of, refuses

ROW = [3, 2, 1]
WORD = b"\x01" * 32


def test_scores_digest__binds_everything(stage: ScoreStage, scores: Any) -> None:
    player = stage.verifiers[0]
    arguments = [1, 1, player.node_id, player.operator, ROW, RECORD, SALT]
    digest = scores.scores_digest(*arguments)
    assert digest == stage.digest(1, player, ROW)
    others: list[Any] = [2, 2, 9, stage.job.stranger, [3, 2, 0], WORD, WORD]
    for index, other in enumerate(others):
        changed = [*arguments[:index], other, *arguments[index + 1 :]]
        assert scores.scores_digest(*changed) != digest
    # Lengths are part of it: no vector is the beginning of another.
    for row in ([], [3], [3, 2], [3, 2, 1, 0]):
        assert scores.scores_digest(*arguments[:4], row, RECORD, SALT) != digest
    with boa.env.anchor():
        boa.env.evm.patch.chain_id += 1
        assert scores.scores_digest(*arguments) != digest


def test_first_commitment__opens_the_scoring(stage: ScoreStage, scores: Any) -> None:
    round_id = stage.job.to_aggregate()
    deadline = boa.env.timestamp + COMMIT_TIME
    assert tuple(stage.state(round_id)) == (SCORE_COMMIT, deadline, 0, 0, 0, 0, 0, False, False)
    player = stage.verifiers[0]
    digest = stage.digest(round_id, player, ROW)
    mine(1, 7)
    stage.send_commitment(round_id, player, digest)
    where = {"job_id": 1, "round_id": round_id}
    assert events_of(scores) == [
        event("ScoringOpened", **where, commit_deadline=deadline),
        event("ScoresCommitted", **where, verifier_id=player.node_id, commitment=digest),
    ]
    assert tuple(stage.state(round_id)) == (
        SCORE_COMMIT,
        deadline,
        deadline + REVEAL_S,
        1,
        0,
        2 * VOICE,
        0,
        False,
        False,
    )
    assert scores.score_commitment_of(1, round_id, player.node_id) == digest
    assert scores.score_commitment_of(1, round_id, stage.verifiers[1].node_id) == EMPTY


def test_last_commitment_of_the_snapshot__starts_the_reveal(stage: ScoreStage, scores: Any) -> None:
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, ROW, *stage.verifiers[:2])
    commit_deadline = stage.state(round_id).commit_deadline
    mine(1, 50)
    stage.commit(round_id, stage.verifiers[2], ROW)
    deadline = boa.env.timestamp + REVEAL_S
    assert events_of(scores)[-1] == event(
        "ScoreRevealStarted", job_id=1, round_id=round_id, deadline=deadline
    )
    assert deadline < commit_deadline + REVEAL_S
    assert tuple(stage.state(round_id)) == (
        SCORE_REVEAL,
        commit_deadline,
        deadline,
        3,
        0,
        0,
        0,
        False,
        False,
    )


@pytest.mark.parametrize("first", [0, COMMIT_TIME // 2, COMMIT_TIME])
def test_commit__time_is_the_same_for_all__whoever_is_first(stage: ScoreStage, first: int) -> None:
    round_id = stage.job.to_aggregate()
    begun = boa.env.timestamp
    mine(1, first)
    stage.commit(round_id, stage.verifiers[0], ROW)
    mine(1, begun + COMMIT_TIME - boa.env.timestamp)
    stage.commit(round_id, stage.verifiers[1], ROW)
    mine(1, 1)
    assert stage.state(round_id).phase == SCORE_REVEAL
    with refuses("scores: too late"):
        stage.commit(round_id, stage.verifiers[2], ROW)


def test_commit__stake_added_later__does_not_count(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    player = stage.verifiers[0]
    stage.system.add_stake(player, 9 * STAKE)
    assert stage.score(round_id, [[0, 0, 9], [9, 0, 0], [9, 0, 0]]) == [9, 0, 0]


def test_commit__in_every_phase_that_has_payloads(stage: ScoreStage) -> None:
    first, second, third = stage.verifiers
    round_id = stage.job.to_aggregate()
    stage.commit(round_id, first, ROW)
    stage.job.propose(round_id)
    stage.commit(round_id, second, ROW)
    stage.job.challenge(round_id)
    stage.commit(round_id, third, ROW)


def test_commit__after_the_time_is_over__opens_nothing(stage: ScoreStage) -> None:
    """The round goes on, without a scoring."""
    round_id = stage.job.to_aggregate()
    stage.past_commits(round_id)
    assert stage.state(round_id).phase == NO_SCORES
    with refuses("scores: too late"):
        stage.commit(round_id, stage.verifiers[0], ROW)


def test_commit__reveals_not_over__no_time_is_known(stage: ScoreStage) -> None:
    round_id = stage.job.to_reveal()
    assert tuple(stage.state(round_id)) == (NO_SCORES, 0, 0, 0, 0, 0, 0, False, False)


def test_commit_on__the_chain_that_was_seen__is_a_commitment(
    stage: ScoreStage, scores: Any
) -> None:
    """Another hash, a block to come and one too old are refused; then it may still commit, once,
    and nobody may in its place."""
    round_id = stage.job.to_aggregate()
    mine(3, 3)
    player, other = stage.verifiers[:2]
    place = (1, round_id, player.node_id, stage.digest(round_id, player, ROW))
    now = boa.env.evm.patch.block_number
    seen = now - 2
    for block, known in (
        (seen, b"\x02" * 32),
        (now, EMPTY),
        (now + 1, EMPTY),
        (2**256 - 1, EMPTY),
        (max(0, now - 257), hash_of(seen)),
    ):
        with refuses("scores: another chain"):
            scores.commit_scores_on(*place, block, known, sender=player.operator)
    with refuses("scores: not operator"):
        scores.commit_scores_on(*place, seen, hash_of(seen), sender=other.operator)
    scores.commit_scores_on(*place, seen, hash_of(seen), sender=player.operator)
    where = {"job_id": 1, "round_id": round_id}
    said = event("ScoresCommitted", **where, verifier_id=player.node_id, commitment=place[3])
    assert events_of(scores)[-1] == said
    with refuses("scores: already committed"):
        scores.commit_scores_on(*place, seen, hash_of(seen), sender=player.operator)
