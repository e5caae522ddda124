# SPDX-License-Identifier: Apache-2.0
"""reveal: opens exactly the sender's own commitment, once; equal content flags, never slashes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import AGGREGATE, EMPTY, REVEAL, Work, events_of, refuses


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


@pytest.mark.parametrize("part", ["input_root", "content", "trace_root", "salt"])
def test_reveal__any_part_changed__reverts(stage: RoundStage, part: str) -> None:
    stage.to_reveal()
    player = stage.trainers[0]
    with refuses("rounds: bad opening"):
        stage.system.reveal(
            1, 1, player, replace(stage.work(player), **{part: keccak(text="other")})
        )


def test_reveal__empty_artefact__reverts(stage: RoundStage) -> None:
    stage.to_commit()
    player = stage.trainers[0]
    for part in ("content", "trace_root"):
        with boa.env.anchor():
            work = replace(Work.of("empty"), **{part: EMPTY})
            for other in stage.trainers:
                stage.system.commit(1, 1, other, work)
            with refuses("rounds: empty artefact"):
                stage.system.reveal(1, 1, player, work)


def test_reveal__of_another_node__reverts(stage: RoundStage) -> None:
    stage.to_reveal()
    owner, thief = stage.trainers[:2]
    with refuses("rounds: bad opening"):
        stage.system.reveal(1, 1, replace(thief, node_id=owner.node_id), stage.work(owner))
    with refuses("rounds: bad opening"):
        stage.system.reveal(1, 1, replace(owner, operator=owner.owner), stage.work(owner))


def test_reveal__twice__reverts(stage: RoundStage) -> None:
    stage.to_reveal()
    player = stage.trainers[0]
    stage.system.reveal(1, 1, player, stage.work(player))
    with refuses("rounds: bad opening"):
        stage.system.reveal(1, 1, player, stage.work(player))


def test_reveal__copied_commitment__cannot_be_opened(stage: RoundStage, rounds: Any) -> None:
    """A thief that copies a commitment from the mempool can open it neither as itself nor as its
    author, although it learns the whole opening."""
    stage.to_commit()
    author, thief, third = stage.trainers
    work = stage.work(author)
    digest = stage.system.commitment(1, 1, author.node_id, author.operator, work)
    rounds.commit(1, 1, thief.node_id, digest, sender=thief.operator)
    stage.system.commit(1, 1, author, work)
    stage.system.commit(1, 1, third, stage.work(third))
    stage.system.reveal(1, 1, author, work)
    with refuses("rounds: bad opening"):
        stage.system.reveal(1, 1, thief, work)


def test_reveal__commitment_of_another_round_or_job__reverts(
    stage: RoundStage, rounds: Any
) -> None:
    """The same commitment used again in the next round, or in another job, can't be opened."""
    player = stage.trainers[0]
    other_job = stage.system.job(stage.sponsor)
    old = stage.work(player, 1)
    digest = stage.system.commitment(1, 1, player.node_id, player.operator, old)
    stage.to_finalized()
    for job_id, round_id in ((1, 2), (other_job, 1)):
        assert stage.system.open(job_id) == round_id
        rounds.commit(job_id, round_id, player.node_id, digest, sender=player.operator)
        stage.system.wait_out(job_id, round_id)
        with refuses("rounds: bad opening"):
            stage.system.reveal(job_id, round_id, player, old)


def test_reveal__moves_an_overdue_commit_phase_itself(stage: RoundStage) -> None:
    stage.to_commit()
    player = stage.trainers[0]
    stage.system.commit(1, 1, player, stage.work(player))
    stage.system.wait_out(1, 1)
    stage.system.reveal(1, 1, player, stage.work(player))
    assert stage.system.phase(1, 1) == AGGREGATE


def test_reveal__before_everybody_committed__reverts(stage: RoundStage) -> None:
    stage.to_commit()
    player = stage.trainers[0]
    stage.system.commit(1, 1, player, stage.work(player))
    with refuses("rounds: not in reveal"):
        stage.system.reveal(1, 1, player, stage.work(player))


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
