# SPDX-License-Identifier: Apache-2.0
"""commit_scores: a verifier of the snapshot, its own operator, once, in time."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event
from tests.stage.contracts.scores import (
    COMMIT_TIME,
    NO_SCORES,
    RECORD,
    REVEAL_S,
    SALT,
    SCORE_COMMIT,
    SCORE_REVEAL,
    Panel,
)
from tests.stage.contracts.system import EMPTY, STAKE, VERIFIER, VOICE, events_of, refuses

ROW = [3, 2, 1]
WORD = b"\x01" * 32


def test_scores_digest__binds_everything(panel: Panel, scores: Any) -> None:
    player = panel.verifiers[0]
    arguments = [1, 1, player.node_id, player.operator, ROW, RECORD, SALT]
    digest = scores.scores_digest(*arguments)
    assert digest == panel.digest(1, player, ROW)
    others: list[Any] = [2, 2, 9, panel.field.stranger, [3, 2, 0], WORD, WORD]
    for index, other in enumerate(others):
        changed = [*arguments[:index], other, *arguments[index + 1 :]]
        assert scores.scores_digest(*changed) != digest
    # Lengths are part of it: no vector is the beginning of another.
    for row in ([], [3], [3, 2], [3, 2, 1, 0]):
        assert scores.scores_digest(*arguments[:4], row, RECORD, SALT) != digest
    with boa.env.anchor():
        boa.env.evm.patch.chain_id += 1
        assert scores.scores_digest(*arguments) != digest


def test_first_commitment__opens_the_scoring(panel: Panel, scores: Any) -> None:
    round_id = panel.field.to_aggregate()
    deadline = boa.env.timestamp + COMMIT_TIME
    assert tuple(panel.state(round_id)) == (SCORE_COMMIT, deadline, 0, 0, 0, 0, 0, False, False)
    player = panel.verifiers[0]
    digest = panel.digest(round_id, player, ROW)
    mine(1, 7)
    panel.send_commitment(round_id, player, digest)
    where = {"job_id": 1, "round_id": round_id}
    assert events_of(scores) == [
        event("ScoringOpened", **where, commit_deadline=deadline),
        event("ScoresCommitted", **where, verifier_id=player.node_id, commitment=digest),
    ]
    assert tuple(panel.state(round_id)) == (
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
    assert scores.score_commitment_of(1, round_id, panel.verifiers[1].node_id) == EMPTY


def test_last_commitment_of_the_snapshot__starts_the_reveal(panel: Panel, scores: Any) -> None:
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, ROW, *panel.verifiers[:2])
    commit_deadline = panel.state(round_id).commit_deadline
    mine(1, 50)
    panel.commit(round_id, panel.verifiers[2], ROW)
    deadline = boa.env.timestamp + REVEAL_S
    assert events_of(scores)[-1] == event(
        "ScoreRevealStarted", job_id=1, round_id=round_id, deadline=deadline
    )
    assert deadline < commit_deadline + REVEAL_S
    assert tuple(panel.state(round_id)) == (
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
def test_commit__time_is_the_same_for_all__whoever_is_first(panel: Panel, first: int) -> None:
    round_id = panel.field.to_aggregate()
    begun = boa.env.timestamp
    mine(1, first)
    panel.commit(round_id, panel.verifiers[0], ROW)
    mine(1, begun + COMMIT_TIME - boa.env.timestamp)
    panel.commit(round_id, panel.verifiers[1], ROW)
    mine(1, 1)
    assert panel.state(round_id).phase == SCORE_REVEAL
    with refuses("scores: too late"):
        panel.commit(round_id, panel.verifiers[2], ROW)


def test_commit__twice__reverts(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    player = panel.verifiers[0]
    panel.commit(round_id, player, ROW)
    for row in (ROW, [0, 0, 0]):
        with refuses("scores: already committed"):
            panel.commit(round_id, player, row)


def test_commit__empty__reverts(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    with refuses("scores: empty commitment"):
        panel.send_commitment(round_id, panel.verifiers[0], EMPTY)


def test_commit__wrong_people__reverts(panel: Panel, scores: Any) -> None:
    round_id = panel.field.to_aggregate()
    target = panel.verifiers[0]
    for sender in (
        target.owner,
        target.payout,
        panel.verifiers[1].operator,
        panel.field.trainers[0].operator,
        panel.field.sponsor,
        scores.owner(),
        panel.field.stranger,
    ):
        with refuses("scores: not operator"):
            scores.commit_scores(1, round_id, target.node_id, WORD, sender=sender)
    for player in (*panel.field.trainers, *panel.field.aggregators):
        with refuses("scores: not a verifier"):
            panel.send_commitment(round_id, player, WORD)


def test_commit__verifier_that_came_after_the_opening__reverts(panel: Panel) -> None:
    """Its weight in the snapshot is zero, whatever it stakes now."""
    round_id = panel.field.to_aggregate()
    late = panel.system.join("late", VERIFIER, 100 * STAKE)
    with refuses("scores: not a verifier"):
        panel.commit(round_id, late, ROW)


def test_commit__stake_added_later__does_not_count(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    player = panel.verifiers[0]
    panel.system.add_stake(player, 9 * STAKE)
    assert panel.score(round_id, [[0, 0, 9], [9, 0, 0], [9, 0, 0]]) == [9, 0, 0]


def test_commit__round_not_running__reverts(panel: Panel) -> None:
    player = panel.verifiers[0]
    round_id = panel.field.to_commit()
    for place in (round_id, 0, round_id + 1, 2**255):
        with refuses("scores: round not running"):
            panel.commit(place, player, ROW)
    panel.field.commit_all(round_id, *panel.field.trainers)
    with refuses("scores: round not running"):
        panel.commit(round_id, player, ROW)


def test_commit__in_every_phase_that_has_payloads(panel: Panel) -> None:
    first, second, third = panel.verifiers
    round_id = panel.field.to_aggregate()
    panel.commit(round_id, first, ROW)
    panel.field.propose(round_id)
    panel.commit(round_id, second, ROW)
    panel.field.challenge(round_id)
    panel.commit(round_id, third, ROW)


def test_commit__after_the_time_is_over__opens_nothing(panel: Panel) -> None:
    """The round goes on, without a scoring."""
    round_id = panel.field.to_aggregate()
    panel.past_commits(round_id)
    assert panel.state(round_id).phase == NO_SCORES
    with refuses("scores: too late"):
        panel.commit(round_id, panel.verifiers[0], ROW)


def test_commit__reveals_not_over__no_time_is_known(panel: Panel) -> None:
    round_id = panel.field.to_reveal()
    assert tuple(panel.state(round_id)) == (NO_SCORES, 0, 0, 0, 0, 0, 0, False, False)
