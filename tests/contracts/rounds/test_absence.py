# SPDX-License-Identifier: Apache-2.0
"""mark_absent and rejoin: three finalized rounds without a commitment, and the way back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event
from tests.stage.contracts.rounds import Field, make_field
from tests.stage.contracts.system import Player, System, events_of, refuses


@pytest.fixture
def field(system: System) -> Field:
    return make_field(system, rounds=20)


def run(field: Field, workers: list[Player]) -> int:
    """A whole round in which only `workers` commit."""
    round_id = field.to_reveal(workers)
    for player in workers:
        field.system.reveal(1, round_id, player, field.work(player, round_id))
    ids = [p.node_id for p in workers]
    field.propose(round_id, nodes=ids, contributions=[1] * len(ids))
    field.attest(round_id)
    field.system.results.finalize(1, round_id, ids, [1] * len(ids))
    return round_id


def test_mark_absent__after_three(field: Field, rounds: Any) -> None:
    gone = field.trainers[2]
    for _ in range(3):
        with refuses("rounds: not absent"):
            rounds.mark_absent(1, gone.node_id)
        run(field, field.trainers[:2])
    rounds.mark_absent(1, gone.node_id, sender=field.stranger)
    assert events_of(rounds) == [event("NodeAbsent", job_id=1, node_id=gone.node_id, absent=True)]
    assert rounds.is_absent(1, gone.node_id)
    assert not rounds.is_absent(1, field.ids[0])
    with refuses("rounds: already absent"):
        rounds.mark_absent(1, gone.node_id)
    assert field.to_commit() == 4
    assert not rounds.is_expected(1, 4, gone.node_id)
    assert rounds.round(1, 4).n_eligible == 2


def test_mark_absent__a_void_round_does_not_count(field: Field, rounds: Any) -> None:
    for _ in range(3):
        round_id = field.to_commit()
        field.system.time_out(1, round_id)
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, field.ids[0])


def test_mark_absent__a_commitment_in_between__reverts(field: Field, rounds: Any) -> None:
    run(field, field.trainers[:2])
    run(field, field.trainers[:2])
    run(field, field.trainers)
    run(field, field.trainers[:2])
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, field.ids[2])


def test_mark_absent__never_expected__reverts(field: Field, rounds: Any) -> None:
    for _ in range(3):
        run(field, field.trainers[:2])
    for node_id in (field.verifiers[0].node_id, 0, 2**256 - 1):
        with refuses("rounds: not absent"):
            rounds.mark_absent(1, node_id)


def test_rejoin__the_operator_and_absences_start_again(field: Field, rounds: Any) -> None:
    gone = field.trainers[2]
    for _ in range(3):
        run(field, field.trainers[:2])
    rounds.mark_absent(1, gone.node_id)
    for sender in (gone.owner, field.stranger, field.sponsor, field.trainers[0].operator):
        with refuses("rounds: not operator"):
            rounds.rejoin(1, gone.node_id, sender=sender)
    rounds.rejoin(1, gone.node_id, sender=gone.operator)
    assert events_of(rounds) == [event("NodeAbsent", job_id=1, node_id=gone.node_id, absent=False)]
    with refuses("rounds: not absent"):
        rounds.rejoin(1, gone.node_id, sender=gone.operator)
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, gone.node_id)
    round_id = run(field, field.trainers[:2])
    assert rounds.is_expected(1, round_id, gone.node_id)
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, gone.node_id)
    mine()
    for _ in range(2):
        run(field, field.trainers[:2])
    rounds.mark_absent(1, gone.node_id)
