# SPDX-License-Identifier: Apache-2.0
"""post_samples: the operator of a node that revealed, once, as long as scores may be committed."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.events import event
from tests.stage.contracts.scores import SAMPLES, Panel
from tests.stage.contracts.system import EMPTY, events_of, refuses

ROW = [3, 2, 1]


def post(panel: Panel, round_id: int, place: int = 0, digest: bytes = SAMPLES) -> None:
    player = panel.field.trainers[place]
    panel.scores.post_samples(1, round_id, player.node_id, digest, sender=player.operator)


def test_post_samples__is_kept_and_told(panel: Panel, scores: Any) -> None:
    round_id = panel.field.to_aggregate()
    node = panel.field.ids[0]
    assert scores.samples_of(1, round_id, node) == EMPTY
    post(panel, round_id)
    assert events_of(scores) == [
        event("SamplesPosted", job_id=1, round_id=round_id, node_id=node, digest=SAMPLES)
    ]
    assert scores.samples_of(1, round_id, node) == SAMPLES
    assert scores.samples_of(1, round_id, panel.field.ids[1]) == EMPTY
    assert scores.samples_of(1, round_id + 1, node) == EMPTY


def test_post_samples__twice__reverts(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    post(panel, round_id)
    for digest in (SAMPLES, b"\x02" * 32):
        with refuses("scores: already posted"):
            post(panel, round_id, digest=digest)


def test_post_samples__empty__reverts(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    with refuses("scores: empty digest"):
        post(panel, round_id, digest=EMPTY)


def test_post_samples__not_the_operator__reverts(panel: Panel, scores: Any) -> None:
    """Wrong samples in another's name would make it look out of step."""
    round_id = panel.field.to_aggregate()
    player = panel.field.trainers[0]
    for sender in (
        player.owner,
        player.payout,
        panel.field.trainers[1].operator,
        panel.verifiers[0].operator,
        panel.field.stranger,
    ):
        with refuses("scores: not operator"):
            scores.post_samples(1, round_id, player.node_id, SAMPLES, sender=sender)
    with refuses("scores: not operator"):
        scores.post_samples(1, round_id, 99, SAMPLES, sender=player.operator)


def test_post_samples__node_that_did_not_reveal__reverts(panel: Panel, scores: Any) -> None:
    round_id = panel.field.to_aggregate(panel.field.trainers[:2])
    post(panel, round_id)
    with refuses("scores: not revealed"):
        post(panel, round_id, place=2)
    verifier = panel.verifiers[0]
    with refuses("scores: not revealed"):
        scores.post_samples(1, round_id, verifier.node_id, SAMPLES, sender=verifier.operator)


def test_post_samples__only_while_the_round_can_be_scored(panel: Panel) -> None:
    round_id = panel.field.to_reveal()
    with refuses("scores: round not running"):
        post(panel, round_id)
    for other in (round_id - 1, round_id + 1):
        with refuses("scores: round not running"):
            post(panel, other)
    panel.field.reveal_all(round_id, *panel.field.trainers)
    post(panel, round_id)
    panel.field.propose(round_id)
    post(panel, round_id, place=1)
    panel.field.challenge(round_id)
    post(panel, round_id, place=2)


def test_post_samples__finalized__reverts(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    panel.finish(round_id)
    with refuses("scores: round not running"):
        post(panel, round_id)


def test_post_samples__until_everybody_committed(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, ROW, *panel.verifiers[:2])
    post(panel, round_id)
    panel.commit(round_id, panel.verifiers[2], ROW)
    with refuses("scores: too late"):
        post(panel, round_id, place=1)


def test_post_samples__until_the_commit_deadline(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    with boa.env.anchor():
        panel.past_commits(round_id)
        with refuses("scores: too late"):
            post(panel, round_id)
    panel.commit(round_id, panel.verifiers[0], ROW)
    panel.past_commits(round_id)
    with refuses("scores: too late"):
        post(panel, round_id)
    panel.past_reveals(round_id)
    panel.close(round_id, [0, 0, 0])
    with refuses("scores: too late"):
        post(panel, round_id)
