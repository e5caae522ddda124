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
from tests.stage.contracts.rounds import Field
from tests.stage.contracts.system import AGGREGATE, EMPTY, REVEAL, Work, events_of, refuses


def test_reveal__event_and_state(field: Field, rounds: Any) -> None:
    field.to_reveal()
    player = field.trainers[0]
    work = field.work(player)
    field.system.reveal(1, 1, player, work)
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
    assert not rounds.is_revealed(1, 1, field.trainers[1].node_id)
    assert not rounds.is_flagged(1, 1, player.node_id)
    assert rounds.commitment_of(1, 1, player.node_id) == work.sealed()


def test_reveal__last_committed_opens_aggregate(field: Field, rounds: Any, results: Any) -> None:
    field.to_reveal(field.trainers[:2])
    for player in field.trainers[:2]:
        assert field.system.phase(1, 1) == REVEAL
        field.system.reveal(1, 1, player, field.work(player))
    assert events_of(rounds, results)[-1] == of_round(
        "PhaseChanged", phase=AGGREGATE, deadline=boa.env.timestamp + 400
    )


@pytest.mark.parametrize("part", ["input_root", "content", "trace_root", "salt"])
def test_reveal__any_part_changed__reverts(field: Field, part: str) -> None:
    field.to_reveal()
    player = field.trainers[0]
    with refuses("rounds: bad opening"):
        field.system.reveal(
            1, 1, player, replace(field.work(player), **{part: keccak(text="other")})
        )


def test_reveal__empty_artefact__reverts(field: Field) -> None:
    field.to_commit()
    player = field.trainers[0]
    for part in ("content", "trace_root"):
        with boa.env.anchor():
            work = replace(Work.of("empty"), **{part: EMPTY})
            for other in field.trainers:
                field.system.commit(1, 1, other, work)
            with refuses("rounds: empty artefact"):
                field.system.reveal(1, 1, player, work)


def test_reveal__of_another_node__reverts(field: Field) -> None:
    field.to_reveal()
    owner, thief = field.trainers[:2]
    with refuses("rounds: bad opening"):
        field.system.reveal(1, 1, replace(thief, node_id=owner.node_id), field.work(owner))
    with refuses("rounds: bad opening"):
        field.system.reveal(1, 1, replace(owner, operator=owner.owner), field.work(owner))


def test_reveal__twice__reverts(field: Field) -> None:
    field.to_reveal()
    player = field.trainers[0]
    field.system.reveal(1, 1, player, field.work(player))
    with refuses("rounds: bad opening"):
        field.system.reveal(1, 1, player, field.work(player))


def test_reveal__copied_commitment__cannot_be_opened(field: Field, rounds: Any) -> None:
    """A thief that copies a commitment from the mempool can open it neither as itself nor as its
    author, although it learns the whole opening."""
    field.to_commit()
    author, thief, third = field.trainers
    work = field.work(author)
    digest = field.system.commitment(1, 1, author.node_id, author.operator, work)
    rounds.commit(1, 1, thief.node_id, digest, sender=thief.operator)
    field.system.commit(1, 1, author, work)
    field.system.commit(1, 1, third, field.work(third))
    field.system.reveal(1, 1, author, work)
    with refuses("rounds: bad opening"):
        field.system.reveal(1, 1, thief, work)


def test_reveal__commitment_of_another_round_or_job__reverts(field: Field, rounds: Any) -> None:
    """The same commitment used again in the next round, or in another job, can't be opened."""
    player = field.trainers[0]
    other_job = field.system.job(field.sponsor)
    old = field.work(player, 1)
    digest = field.system.commitment(1, 1, player.node_id, player.operator, old)
    field.to_finalized()
    for job_id, round_id in ((1, 2), (other_job, 1)):
        assert field.system.open(job_id) == round_id
        rounds.commit(job_id, round_id, player.node_id, digest, sender=player.operator)
        field.system.wait_out(job_id, round_id)
        with refuses("rounds: bad opening"):
            field.system.reveal(job_id, round_id, player, old)


def test_reveal__moves_an_overdue_commit_phase_itself(field: Field) -> None:
    field.to_commit()
    player = field.trainers[0]
    field.system.commit(1, 1, player, field.work(player))
    field.system.wait_out(1, 1)
    field.system.reveal(1, 1, player, field.work(player))
    assert field.system.phase(1, 1) == AGGREGATE


def test_reveal__before_everybody_committed__reverts(field: Field) -> None:
    field.to_commit()
    player = field.trainers[0]
    field.system.commit(1, 1, player, field.work(player))
    with refuses("rounds: not in reveal"):
        field.system.reveal(1, 1, player, field.work(player))


def test_reveal__at_the_deadline_and_after(field: Field, rounds: Any) -> None:
    field.to_reveal()
    first, second, _ = field.trainers
    mine(1, rounds.round(1, 1).deadline - boa.env.timestamp)
    field.system.reveal(1, 1, first, field.work(first))
    mine(1, 1)
    with refuses("rounds: not in reveal"):
        field.system.reveal(1, 1, second, field.work(second))


def test_reveal__equal_content__flags_both_and_slashes_nobody(field: Field, rounds: Any) -> None:
    field.to_commit()
    first, second, third = field.trainers
    works = {p.name: Work.of(p.name, content="shared") for p in field.trainers}
    for player in field.trainers:
        field.system.commit(1, 1, player, works[player.name])
    field.system.reveal(1, 1, first, works[first.name])
    assert not rounds.is_flagged(1, 1, first.node_id)
    for later in (second, third):
        field.system.reveal(1, 1, later, works[later.name])
        assert of_round(
            "DuplicateContent",
            content=works[first.name].content,
            first_node=first.node_id,
            second_node=later.node_id,
        ) in events_of(rounds)
        assert rounds.is_flagged(1, 1, first.node_id)
        assert rounds.is_flagged(1, 1, later.node_id)
    assert field.system.registry.total_bounties() == 0
