# SPDX-License-Identifier: Apache-2.0
"""mark_absent and rejoin: three finalized rounds without a commitment, and the way back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event
from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import Player, System, events_of, refuses


@pytest.fixture
def stage(system: System) -> RoundStage:
    return make_rounds(system, rounds=20)


def run(stage: RoundStage, workers: list[Player]) -> int:
    """A whole round in which only `workers` commit."""
    round_id = stage.to_reveal(workers)
    for player in workers:
        stage.system.reveal(1, round_id, player, stage.work(player, round_id))
    ids = [p.node_id for p in workers]
    stage.propose(round_id, nodes=ids, contributions=[1] * len(ids))
    stage.attest(round_id)
    stage.system.results.finalize(1, round_id, ids, [1] * len(ids))
    return round_id


def test_mark_absent__after_three(stage: RoundStage, rounds: Any) -> None:
    gone = stage.trainers[2]
    for _ in range(3):
        with refuses("rounds: not absent"):
            rounds.mark_absent(1, gone.node_id)
        run(stage, stage.trainers[:2])
    rounds.mark_absent(1, gone.node_id, sender=stage.stranger)
    assert events_of(rounds) == [event("NodeAbsent", job_id=1, node_id=gone.node_id, absent=True)]
    assert rounds.is_absent(1, gone.node_id)
    assert not rounds.is_absent(1, stage.ids[0])
    with refuses("rounds: already absent"):
        rounds.mark_absent(1, gone.node_id)
    assert stage.to_commit() == 4
    assert not rounds.is_expected(1, 4, gone.node_id)
    assert rounds.round(1, 4).n_eligible == 2


def test_mark_absent__a_void_round_does_not_count(stage: RoundStage, rounds: Any) -> None:
    for _ in range(3):
        round_id = stage.to_commit()
        stage.system.time_out(1, round_id)
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, stage.ids[0])


def test_mark_absent__a_commitment_in_between__reverts(stage: RoundStage, rounds: Any) -> None:
    run(stage, stage.trainers[:2])
    run(stage, stage.trainers[:2])
    run(stage, stage.trainers)
    run(stage, stage.trainers[:2])
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, stage.ids[2])


def test_mark_absent__never_expected__reverts(stage: RoundStage, rounds: Any) -> None:
    for _ in range(3):
        run(stage, stage.trainers[:2])
    for node_id in (stage.verifiers[0].node_id, 0, 2**256 - 1):
        with refuses("rounds: not absent"):
            rounds.mark_absent(1, node_id)


def test_rejoin__the_operator_and_absences_start_again(stage: RoundStage, rounds: Any) -> None:
    gone = stage.trainers[2]
    for _ in range(3):
        run(stage, stage.trainers[:2])
    rounds.mark_absent(1, gone.node_id)
    for sender in (gone.owner, stage.stranger, stage.sponsor, stage.trainers[0].operator):
        with refuses("rounds: not operator"):
            rounds.rejoin(1, gone.node_id, sender=sender)
    rounds.rejoin(1, gone.node_id, sender=gone.operator)
    assert events_of(rounds) == [event("NodeAbsent", job_id=1, node_id=gone.node_id, absent=False)]
    with refuses("rounds: not absent"):
        rounds.rejoin(1, gone.node_id, sender=gone.operator)
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, gone.node_id)
    round_id = run(stage, stage.trainers[:2])
    assert rounds.is_expected(1, round_id, gone.node_id)
    with refuses("rounds: not absent"):
        rounds.mark_absent(1, gone.node_id)
    mine()
    for _ in range(2):
        run(stage, stage.trainers[:2])
    rounds.mark_absent(1, gone.node_id)
