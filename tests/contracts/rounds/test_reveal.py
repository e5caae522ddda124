# SPDX-License-Identifier: Apache-2.0
"""reveal: opens exactly the sender's own commitment, once; equal content flags, never slashes."""

from __future__ import annotations

from typing import Any

import boa
from eth_utils import keccak

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import AGGREGATE, REVEAL, Work, events_of, refuses


def test_reveal__event_and_state(stage: RoundStage, rounds: Any) -> None:
    stage.to_reveal()
    player = stage.trainers[0]
    work = stage.work(player)
    stage.system.reveal(1, 1, player, work)
    assert events_of(rounds) == [
        of_round(
            "Revealed",
            node_id=player.node_id,
            input_root=work.input_root,
            content=work.content,
            trace_root=work.trace_root,
            proof=keccak(text="proof"),
        )
    ]
    assert rounds.round(1, 1).n_revealed == 1
    assert rounds.is_revealed(1, 1, player.node_id)
    assert not rounds.is_revealed(1, 1, stage.trainers[1].node_id)
    assert not rounds.is_flagged(1, 1, player.node_id)
    assert rounds.commitment_of(1, 1, player.node_id) == work.sealed()


def test_reveal__last_committed_opens_aggregate(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    stage.to_reveal(stage.trainers[:2])
    for player in stage.trainers[:2]:
        assert stage.system.phase(1, 1) == REVEAL
        stage.system.reveal(1, 1, player, stage.work(player))
    assert events_of(rounds, results)[-1] == of_round(
        "PhaseChanged", phase=AGGREGATE, deadline=boa.env.timestamp + 400
    )


def test_reveal__moves_an_overdue_commit_phase_itself(stage: RoundStage) -> None:
    stage.to_commit()
    player = stage.trainers[0]
    stage.system.commit(1, 1, player, stage.work(player))
    stage.system.wait_out(1, 1)
    stage.system.reveal(1, 1, player, stage.work(player))
    assert stage.system.phase(1, 1) == AGGREGATE


def test_reveal__at_the_deadline_and_after(stage: RoundStage, rounds: Any) -> None:
    stage.to_reveal()
    first, second, _ = stage.trainers
    mine(1, rounds.round(1, 1).deadline - boa.env.timestamp)
    stage.system.reveal(1, 1, first, stage.work(first))
    mine(1, 1)
    with refuses("rounds: not in reveal"):
        stage.system.reveal(1, 1, second, stage.work(second))


def test_reveal__equal_content__flags_both_and_slashes_nobody(
    stage: RoundStage, rounds: Any
) -> None:
    stage.to_commit()
    first, second, third = stage.trainers
    works = {p.name: Work.of(p.name, content="shared") for p in stage.trainers}
    for player in stage.trainers:
        stage.system.commit(1, 1, player, works[player.name])
    stage.system.reveal(1, 1, first, works[first.name])
    assert not rounds.is_flagged(1, 1, first.node_id)
    for later in (second, third):
        stage.system.reveal(1, 1, later, works[later.name])
        assert of_round(
            "DuplicateContent",
            content=works[first.name].content,
            first_node=first.node_id,
            second_node=later.node_id,
        ) in events_of(rounds)
        assert rounds.is_flagged(1, 1, first.node_id)
        assert rounds.is_flagged(1, 1, later.node_id)
    assert stage.system.registry.total_bounties() == 0
