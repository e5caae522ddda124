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
    Panel,
    make_panel,
)
from tests.stage.contracts.system import EMPTY, System, events_of, refuses

ROW = [SCALE - 3, 2, 1]


def committed(panel: Panel, row: Sequence[int] = ROW) -> int:
    """A round in which verifier 0 committed to `row` and others to something, so that all may
    reveal."""
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, row)
    return round_id


def test_reveal__is_told_and_counted(panel: Panel, scores: Any) -> None:
    round_id = committed(panel)
    player = panel.verifiers[0]
    assert scores.record_of(1, round_id, player.node_id) == EMPTY
    panel.reveal(round_id, player, ROW)
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
    state = panel.state(round_id)
    assert (state.phase, state.committed, state.revealed) == (SCORE_REVEAL, 3, 1)


def test_reveal__not_before_the_commit_window_is_over(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    player = panel.verifiers[0]
    with refuses("scores: not in reveal"):
        panel.reveal(round_id, player, ROW)
    panel.commit(round_id, player, ROW)
    mine(1, COMMIT_TIME)
    assert panel.state(round_id).phase == SCORE_COMMIT
    with refuses("scores: not in reveal"):
        panel.reveal(round_id, player, ROW)
    mine(1, 1)
    panel.reveal(round_id, player, ROW)


def test_reveal__at_the_deadline_and_after(panel: Panel) -> None:
    round_id = committed(panel)
    mine(1, REVEAL_S)
    panel.reveal(round_id, panel.verifiers[0], ROW)
    mine(1, 1)
    with refuses("scores: too late"):
        panel.reveal(round_id, panel.verifiers[1], ROW)


def test_reveal__deadline_counts_from_the_commit_deadline(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, ROW, *panel.verifiers[:2])
    mine(1, COMMIT_TIME + REVEAL_S)
    panel.reveal(round_id, panel.verifiers[0], ROW)
    mine(1, 1)
    with refuses("scores: too late"):
        panel.reveal(round_id, panel.verifiers[1], ROW)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([], "scores: wrong length"),
        ([1, 2], "scores: wrong length"),
        ([1, 2, 3, 0], "scores: wrong length"),
        ([SCALE + 1, 0, 0], "scores: score too high"),
        ([0, 0, 2**256 - 1], "scores: score too high"),
        ([SCALE, 1, 0], "scores: sum too high"),
        ([SCALE, SCALE, SCALE], "scores: sum too high"),
    ],
)
def test_reveal__out_of_bounds__reverts(panel: Panel, row: list[int], reason: str) -> None:
    """Whoever committed to such a vector has none."""
    round_id = committed(panel, row)
    with refuses(reason):
        panel.reveal(round_id, panel.verifiers[0], row)


def test_reveal__empty_record__reverts(panel: Panel) -> None:
    """Ratings that nobody can replay are no ratings."""
    round_id = panel.field.to_aggregate()
    for player in panel.verifiers:
        panel.send_commitment(round_id, player, panel.digest(round_id, player, ROW, record=EMPTY))
    with refuses("scores: empty record"):
        panel.reveal(round_id, panel.verifiers[0], ROW, record=EMPTY)


def test_reveal__twice__reverts(panel: Panel) -> None:
    round_id = committed(panel)
    panel.reveal(round_id, panel.verifiers[0], ROW)
    with refuses("scores: already revealed"):
        panel.reveal(round_id, panel.verifiers[0], ROW)


def test_reveal__operator_changed__the_old_key_reveals(panel: Panel) -> None:
    """The commitment binds its sender; changing keys in between helps and hinders nobody."""
    round_id = committed(panel)
    player = panel.verifiers[0]
    key = account("new operator")
    new = str(key.address)
    signed = consent(panel.system.registry, key, player.owner)
    panel.system.registry.set_operator(player.node_id, new, signed, sender=player.owner)
    with refuses("scores: bad opening"):
        panel.reveal(round_id, player, ROW, sender=new)
    panel.reveal(round_id, player, ROW)


@pytest.mark.parametrize("trainers", [15, 16, 17, 33])
def test_reveal__around_a_word_of_storage__every_score_comes_back(
    system: System, trainers: int
) -> None:
    """16 scores share a word, in the vectors and in the consensus."""
    panel = make_panel(system, trainers=trainers)
    row = [(7 * place + 1) % 1_000 for place in range(trainers)]
    row[15 % trainers] = 0
    round_id = panel.to_scored(row, row, row)
    assert panel.scores.shares(1, round_id, panel.field.ids) == row
    assert panel.scores.settlement(1, round_id) == (True, round_id, sum(row))
    backwards = panel.field.ids[::-1]
    assert panel.scores.shares(1, round_id, backwards) == row[::-1]
    assert panel.scores.shares(1, round_id, [10**30, 0]) == [0, 0]
    assert panel.scores.trust_of(1, panel.verifiers[0].node_id) == BPS
