# SPDX-License-Identifier: Apache-2.0
"""propose_result: the aggregator on duty, then any node of the snapshot; only revealed work."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts import system as stage
from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import MODEL, REPORT, UPDATE, Field
from tests.stage.contracts.system import EMPTY, Player, contributions_hash, events_of, refuses


def duty(field: Field) -> Player:
    return field.system.on_duty(1, 1)


def off_duty(field: Field) -> Player:
    return next(p for p in field.aggregators if p != duty(field))


def expected_hash(attempt: int, nodes: list[int], contributions: list[int]) -> bytes:
    return keccak(
        encode(
            ["uint256"] * 3 + ["bytes32"] * 4,
            [1, 1, attempt, MODEL, UPDATE, REPORT, contributions_hash(nodes, contributions)],
        )
    )


def test_propose_result__event_and_state(field: Field, rounds: Any, results: Any) -> None:
    field.to_aggregate()
    player = duty(field)
    shares = [5, 0, 7]
    results.propose_result(
        1, 1, player.node_id, MODEL, UPDATE, REPORT, field.ids, shares, sender=player.operator
    )
    result = expected_hash(1, field.ids, shares)
    assert events_of(results) == [
        of_round(
            "ResultProposed",
            proposer=player.node_id,
            model=MODEL,
            update=UPDATE,
            report=REPORT,
            result_hash=result,
            nodes=field.ids,
            contributions=shares,
        ),
        of_round("PhaseChanged", phase=stage.CHALLENGE, deadline=boa.env.timestamp + 300),
    ]
    state = rounds.round(1, 1)
    assert state.phase == stage.CHALLENGE
    assert state.deadline == boa.env.timestamp + 300
    assert (state.proposer, state.result_hash) == (player.node_id, result)
    assert (state.model, state.update, state.report) == (MODEL, UPDATE, REPORT)
    assert state.contributions_hash == contributions_hash(field.ids, shares)
    assert (state.attested_stake, state.settled) == (0, False)


def test_propose_result__not_on_duty__reverts(field: Field) -> None:
    field.to_aggregate()
    for player in (off_duty(field), field.trainers[0], field.verifiers[0]):
        with refuses("results: not on duty"):
            field.propose(1, player)
    boa.env.evm.patch.timestamp = field.system.rounds.round(1, 1).deadline
    with refuses("results: not on duty"):
        field.propose(1, off_duty(field))
    field.propose(1)


@pytest.mark.parametrize("group", ["aggregators", "verifiers", "trainers"])
def test_propose_result__fallback__any_node_of_the_snapshot(field: Field, group: str) -> None:
    field.to_aggregate()
    field.system.wait_out(1, 1)
    field.propose(1, getattr(field, group)[-1])
    assert field.system.phase(1, 1) == stage.CHALLENGE


def test_propose_result__fallback__others__reverts(field: Field) -> None:
    field.to_aggregate()
    late = field.system.join("late", stage.AGGREGATOR)
    field.system.wait_out(1, 1)
    with refuses("results: not in snapshot"):
        field.propose(1, late)


def test_propose_result__not_the_operator__reverts(field: Field, results: Any) -> None:
    field.to_aggregate()
    player = duty(field)
    for sender in (player.owner, player.payout, off_duty(field).operator, field.stranger):
        with refuses("results: not operator"):
            results.propose_result(
                1, 1, player.node_id, MODEL, UPDATE, REPORT, [], [], sender=sender
            )
    with refuses("results: not operator"):
        results.propose_result(1, 1, 0, MODEL, UPDATE, REPORT, [], [], sender=field.stranger)


def test_propose_result__wrong_phase__reverts(field: Field) -> None:
    player = field.aggregators[0]
    for way in (field.to_commit, field.to_reveal, field.to_challenge, field.to_disputed):
        with boa.env.anchor():
            way()
            with refuses("results: not in aggregate"):
                field.propose(1, player)


def test_propose_result__after_the_fallback_window__reverts(field: Field, results: Any) -> None:
    field.to_aggregate()
    field.system.time_out(1, 1)
    field.system.wait_out(1, 1)
    with refuses("results: not in aggregate"):
        field.propose(1, field.aggregators[0])


def test_propose_result__bad_arrays__reverts(field: Field) -> None:
    field.to_aggregate(field.trainers[:2])
    first, second, hidden = field.ids
    for nodes, contributions, reason in (
        ([first], [], "length mismatch"),
        ([], [1], "length mismatch"),
        ([second, first], [1, 1], "nodes not ascending"),
        ([first, first], [1, 1], "nodes not ascending"),
        ([0], [1], "nodes not ascending"),
        ([first, hidden], [1, 1], "node not payable"),
        ([field.verifiers[0].node_id], [1], "node not payable"),
        ([first, 2**256 - 1], [1, 1], "node not payable"),
        ([first], [2**128], "bad amount"),
    ):
        with refuses(f"results: {reason}"):
            field.propose(1, nodes=nodes, contributions=contributions)


def test_propose_result__empty_artefact__reverts(field: Field, results: Any) -> None:
    field.to_aggregate()
    player = duty(field)
    for digests in ((EMPTY, UPDATE, REPORT), (MODEL, EMPTY, REPORT), (MODEL, UPDATE, EMPTY)):
        with refuses("results: empty artefact"):
            results.propose_result(1, 1, player.node_id, *digests, [], [], sender=player.operator)


def test_propose_result__after_an_upheld_challenge(field: Field, owner: str, results: Any) -> None:
    """The proposer is barred, invalid nodes keep their part (they may be cleared), another attempt
    has another hash."""
    field.to_aggregate()
    player, other = duty(field), off_duty(field)
    first = field.propose(1)
    bad = field.trainers[2]
    field.report(1, bad, stage.INVALID, *field.verifiers[:2])
    field.challenge(1)
    results.resolve_challenge(1, 1, first, True, sender=owner)
    assert field.system.phase(1, 1) == stage.AGGREGATE
    with refuses("results: barred"):
        field.propose(1, player, field.ids[:2], [1, 2])
    second = field.propose(1, other)
    assert second == expected_hash(2, field.ids, field.shares)
    assert second != expected_hash(1, field.ids, field.shares)
