# SPDX-License-Identifier: Apache-2.0
"""propose_result: the aggregator on duty, then any node of the snapshot; only revealed work."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import MODEL, REPORT, UPDATE, RoundStage
from tests.stage.contracts.system import (
    AGGREGATE,
    CHALLENGE,
    INVALID,
    Player,
    contributions_hash,
    events_of,
    refuses,
)


def duty(stage: RoundStage) -> Player:
    return stage.system.on_duty(1, 1)


def off_duty(stage: RoundStage) -> Player:
    return next(p for p in stage.aggregators if p != duty(stage))


def expected_hash(attempt: int, nodes: list[int], contributions: list[int]) -> bytes:
    return keccak(
        encode(
            ["uint256"] * 3 + ["bytes32"] * 4,
            [1, 1, attempt, MODEL, UPDATE, REPORT, contributions_hash(nodes, contributions)],
        )
    )


def test_propose_result__event_and_state(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_aggregate()
    player = duty(stage)
    shares = [5, 0, 7]
    results.propose_result(
        1, 1, player.node_id, MODEL, UPDATE, REPORT, stage.ids, shares, sender=player.operator
    )
    result = expected_hash(1, stage.ids, shares)
    assert events_of(results) == [
        of_round(
            "ResultProposed",
            proposer=player.node_id,
            model=MODEL,
            update=UPDATE,
            report=REPORT,
            result_hash=result,
            nodes=stage.ids,
            contributions=shares,
        ),
        of_round("PhaseChanged", phase=CHALLENGE, deadline=boa.env.timestamp + 300),
    ]
    state = rounds.round(1, 1)
    assert state.phase == CHALLENGE
    assert state.deadline == boa.env.timestamp + 300
    assert (state.proposer, state.result_hash) == (player.node_id, result)
    assert (state.model, state.update, state.report) == (MODEL, UPDATE, REPORT)
    assert state.contributions_hash == contributions_hash(stage.ids, shares)
    assert (state.attested_stake, state.settled) == (0, False)


def test_propose_result__what_is_nobodys__is_told_and_bound(
    stage: RoundStage, results: Any
) -> None:
    """Node 0 has not revealed, and needs not."""
    stage.to_aggregate()
    nodes, shares = [0, *stage.ids], [9, 1, 2, 3]
    result = stage.propose(1, None, nodes, shares)
    told = events_of(results)[0][1]
    assert (told["nodes"], told["contributions"]) == (nodes, shares)
    assert result == told["result_hash"] == expected_hash(1, nodes, shares)


def test_propose_result__not_on_duty__reverts(stage: RoundStage) -> None:
    stage.to_aggregate()
    for player in (off_duty(stage), stage.trainers[0], stage.verifiers[0]):
        with refuses("results: not on duty"):
            stage.propose(1, player)
    boa.env.evm.patch.timestamp = stage.system.rounds.round(1, 1).deadline
    with refuses("results: not on duty"):
        stage.propose(1, off_duty(stage))
    stage.propose(1)


@pytest.mark.parametrize("group", ["aggregators", "verifiers", "trainers"])
def test_propose_result__fallback__any_node_of_the_snapshot(stage: RoundStage, group: str) -> None:
    stage.to_aggregate()
    stage.system.wait_out(1, 1)
    stage.propose(1, getattr(stage, group)[-1])
    assert stage.system.phase(1, 1) == CHALLENGE


def test_propose_result__after_an_upheld_challenge(
    stage: RoundStage, owner: str, results: Any
) -> None:
    """The proposer is barred, invalid nodes keep their part (they may be cleared), another attempt
    has another hash."""
    stage.to_aggregate()
    player, other = duty(stage), off_duty(stage)
    first = stage.propose(1)
    bad = stage.trainers[2]
    stage.report(1, bad, INVALID, *stage.verifiers[:2])
    stage.challenge(1)
    results.resolve_challenge(1, 1, first, True, sender=owner)
    assert stage.system.phase(1, 1) == AGGREGATE
    with refuses("results: barred"):
        stage.propose(1, player, stage.ids[:2], [1, 2])
    second = stage.propose(1, other)
    assert second == expected_hash(2, stage.ids, stage.shares)
    assert second != expected_hash(1, stage.ids, stage.shares)


@pytest.mark.parametrize("group", ["aggregators", "verifiers"])
def test_propose_result__trainers_one_after_the_other__hold_a_round_once(
    stage: RoundStage, owner: str, results: Any, group: str
) -> None:
    """Each wrong result takes the committee's delay, of a day, and a fifth of a trainer's stake."""
    stage.to_aggregate()
    stage.system.wait_out(1, 1)
    wrong = stage.propose(1, stage.trainers[0], model=b"\7" * 32)
    stage.challenge(1)
    results.resolve_challenge(1, 1, wrong, True, sender=owner)
    assert stage.system.phase(1, 1) == AGGREGATE
    for trainer in stage.trainers[1:]:
        with refuses("results: not in snapshot"):
            stage.propose(1, trainer, model=b"\7" * 32)
    right = stage.propose(1, getattr(stage, group)[-1])
    assert right == expected_hash(2, stage.ids, stage.shares)
