# SPDX-License-Identifier: Apache-2.0
"""open_round: the snapshot, its weights, the reserve; one round at a time."""

from __future__ import annotations

from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak

from agents.protocol import formulas
from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import (
    COMMIT,
    DAY,
    INVALID,
    REWARD,
    TERMS,
    TRAINER,
    VOICE,
    ZERO,
    ZOO,
    System,
    events_of,
    refuses,
)


def scores(stage: RoundStage) -> list[int]:
    return [stage.system.registry.node(i).benchmark_score for i in stage.ids]


def test_open_round__event_snapshot_and_state(
    stage: RoundStage, rounds: Any, jobs: Any, results: Any
) -> None:
    assert rounds.open_round(1, sender=stage.stranger) == 1
    block, time = boa.env.evm.patch.block_number, boa.env.timestamp
    verifiers = [p.node_id for p in stage.verifiers]
    weights = scores(stage)
    assert all(weight > 1_000 for weight in weights)
    key = keccak(encode(["uint256", "uint256"], [1, 1]))
    assert events_of(rounds) == [
        event("SeedRequested", key=key, target_block=block + 1),
        of_round(
            "RoundOpened",
            prev_model=TERMS["genesis_model"],
            seed_block=block + 1,
            nodes=stage.ids,
            weights=weights,
            verifiers=verifiers,
            stakes=[VOICE] * 3,
            aggregators=[p.node_id for p in stage.aggregators],
        ),
        of_round("PhaseChanged", phase=COMMIT, deadline=time + 600),
    ]
    assert rounds.round(1, 1) == (
        COMMIT,
        time + 600,
        block,
        time,
        3,
        0,
        0,
        0,
        0,
        block + 1,
        bytes(32),
        0,
        bytes(32),
        TERMS["genesis_model"],
        keccak(encode(["uint256[]", "uint256[]"], [stage.ids, weights])),
        3 * VOICE,
        0,
        0,
        bytes(32),
        bytes(32),
        bytes(32),
        bytes(32),
        bytes(32),
        ZERO,
        False,
    )
    for player in stage.trainers:
        assert rounds.is_expected(1, 1, player.node_id)
        assert results.verifier_weight(1, 1, player.node_id) == 0
    for player in stage.verifiers:
        assert not rounds.is_expected(1, 1, player.node_id)
        assert results.verifier_weight(1, 1, player.node_id) == VOICE
    assert stage.system.pool.total_reserved() == REWARD
    assert jobs.job(1).rounds_opened == 1
    assert results.aggregator_on_duty(1, 1) == 0  # before the reveals are over


def test_open_round__overdue_round_without_commits__opens_the_next_once_advanced(
    stage: RoundStage, rounds: Any
) -> None:
    """Only `advance` moves a round on, by anyone; the money of the void one is back by then."""
    stage.to_commit()
    stage.system.wait_out(1, 1)
    with refuses("jobs: round open"):
        rounds.open_round(1)
    rounds.advance(1, 1, sender=stage.stranger)
    assert rounds.open_round(1) == 2
    assert stage.system.pool.total_reserved() == REWARD


def test_open_round__finalized_not_settled__reverts(
    system: System, rounds: Any, results: Any
) -> None:
    stage = make_rounds(system, trainers=66)
    stage.to_finalized()
    assert not rounds.round(1, 1).settled
    with refuses("jobs: round open"):
        rounds.open_round(1)
    results.settle(1, 1, stage.ids, stage.shares)
    assert rounds.open_round(1) == 2


def test_open_round__role_missing__reverts(stage: RoundStage, rounds: Any) -> None:
    """Trainers and aggregators that rest, and verifiers that have left."""
    registry = stage.system.registry
    for team in (stage.trainers, stage.verifiers, stage.aggregators):
        with boa.env.anchor():
            for player in team:
                if team is stage.verifiers:
                    registry.begin_exit(player.node_id, sender=player.owner)
                else:
                    registry.set_active(player.node_id, False, sender=player.owner)
            with refuses("rounds: too few nodes"):
                rounds.open_round(1)


def test_open_round__verifiers_at_rest__are_in_the_snapshot(
    stage: RoundStage, results: Any
) -> None:
    for player in stage.verifiers:
        stage.system.registry.set_active(player.node_id, False, sender=player.owner)
    stage.to_commit()
    assert results.result(1, 1).verifier_stake == 3 * VOICE


def test_open_round__paused__reverts_and_running_rounds_go_on(
    stage: RoundStage, rounds: Any, owner: str
) -> None:
    stage.to_challenge()
    rounds.set_paused(1, sender=owner)
    stage.attest(1)
    stage.finalize()
    with refuses("pausing: paused"):
        rounds.open_round(1)


def test_open_round__more_trainers_than_seats__all_are_candidates_and_nobody_is_seated(
    system: System, rounds: Any
) -> None:
    stage = make_rounds(system, trainers=5, max_nodes=2)
    rounds.open_round(1)
    opened = dict(events_of(rounds))["RoundOpened"]
    assert (opened["nodes"], opened["weights"]) == (stage.ids, scores(stage))
    state = rounds.round(1, 1)
    assert (state.phase, state.n_eligible) == (COMMIT, 0)
    assert state.snapshot_hash == formulas.snapshot_hash(stage.ids, scores(stage))
    assert not any(rounds.is_expected(1, 1, i) for i in stage.ids)


def test_open_round__weight_falls_with_missed_and_invalid_rounds(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    steady, lazy, bad = stage.trainers
    full = scores(stage)
    round_id = stage.to_reveal([steady, bad])
    for player in (steady, bad):
        stage.system.reveal(1, round_id, player, stage.work(player, round_id))
    stage.propose(round_id, nodes=[steady.node_id], contributions=[1])
    report = stage.report(round_id, bad, INVALID, *stage.verifiers[:2])
    stage.attest(round_id)
    results.finalize(1, 1, [steady.node_id], [1])
    mine(1, TERMS["appeal_s"] + 1)
    stage.system.reports.execute(report)
    mine(1, 7 * DAY)  # that it is suspended for
    rounds.open_round(1)
    opened = dict(events_of(rounds))["RoundOpened"]
    assert dict(zip(opened["nodes"], opened["weights"], strict=True)) == {
        steady.node_id: full[0],
        lazy.node_id: full[1] * 5_000 // 10_000,
        bad.node_id: full[2] * 5_000 // 10_000,
    }


def test_open_round__only_the_last_eight_rounds_count(system: System, rounds: Any) -> None:
    stage = make_rounds(system, rounds=20)
    steady, _, _ = stage.trainers
    full = scores(stage)
    weights = []
    for count in range(10):
        round_id = rounds.open_round(1)
        opened = dict(events_of(rounds))["RoundOpened"]
        weights.append(opened["weights"][opened["nodes"].index(steady.node_id)])
        if count == 0:  # the only round in which everybody works
            mine_and_run(stage, round_id)
        else:
            system.time_out(1, round_id)
    reliability = [10_000 * 2 // (2 + missed) for missed in range(8)] + [10_000 // 9]
    assert weights[1:] == [full[0] * r // 10_000 for r in reliability]


def mine_and_run(stage: RoundStage, round_id: int) -> None:
    mine(2)
    stage.commit_all(round_id, *stage.trainers)
    stage.reveal_all(round_id, *stage.trainers)
    stage.propose(round_id)
    stage.attest(round_id)
    stage.finalize()


def test_open_round__trainers_without_benchmark_stay_out(stage: RoundStage, rounds: Any) -> None:
    raw = stage.system.join("raw", TRAINER, 100 * ZOO)
    stage.to_commit()
    assert not rounds.is_expected(1, 1, raw.node_id)
