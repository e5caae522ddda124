# SPDX-License-Identifier: Apache-2.0
"""advance and slash_unrevealed: time moves a round on, by anyone; withholding costs stake, once."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import (
    AGGREGATE,
    BOND,
    CHALLENGE,
    REVEAL,
    REWARD,
    STAKE,
    TERMS,
    UNBONDING,
    VOID,
    System,
    events_of,
    refuses,
)


def moved(phase: int, window: int) -> tuple[str, dict[str, int]]:
    return of_round("PhaseChanged", phase=phase, deadline=boa.env.timestamp + window)


def voided(reason: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        of_round("PhaseChanged", phase=VOID, deadline=0),
        of_round("RoundVoided", reason=reason),
    ]


def test_advance__nothing_due__reverts(stage: RoundStage, rounds: Any, results: Any) -> None:
    def both_refuse() -> None:
        with refuses("rounds: nothing to advance"):
            rounds.advance(1, 1)
        with refuses("results: nothing to advance"):
            results.advance(1, 1)

    for job_id in (1, 2, 2**256 - 1):
        with refuses("rounds: nothing to advance"):
            rounds.advance(job_id, 1)
        with refuses("results: nothing to advance"):
            results.advance(job_id, 1)
    for way in (stage.to_commit, stage.to_reveal, stage.to_aggregate, stage.to_disputed):
        with boa.env.anchor():
            way()
            both_refuse()
            boa.env.evm.patch.timestamp = rounds.round(1, 1).deadline
            both_refuse()
    stage.to_challenge()
    stage.system.wait_out(1, 1)
    both_refuse()  # that is finalize's
    stage.finalize()
    both_refuse()


@pytest.mark.parametrize("way", ["to_commit", "to_reveal", "to_aggregate", "to_disputed"])
def test_advance__overdue__only_the_contract_that_has_the_round_moves_it(
    stage: RoundStage, rounds: Any, results: Any, way: str
) -> None:
    getattr(stage, way)()
    stage.system.wait_out(1, 1)
    if way in ("to_commit", "to_reveal"):
        with refuses("results: nothing to advance"):
            results.advance(1, 1)
        rounds.advance(1, 1)
    else:
        with refuses("rounds: nothing to advance"):
            rounds.advance(1, 1)
        results.advance(1, 1)


def test_advance__commit_with_some__reveal(stage: RoundStage, rounds: Any) -> None:
    stage.to_commit()
    stage.system.commit(1, 1, stage.trainers[0], stage.work(stage.trainers[0]))
    stage.system.wait_out(1, 1)
    rounds.advance(1, 1, sender=stage.stranger)
    assert events_of(rounds) == [moved(REVEAL, 500)]


def test_advance__commit_with_none__void_and_money_back(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    stage.to_commit()
    stage.system.wait_out(1, 1)
    rounds.advance(1, 1)
    assert events_of(rounds, results) == voided("no commits")
    assert events_of(rounds) == []
    assert rounds.round(1, 1).settled
    assert stage.system.pool.escrow(1) == 10 * REWARD
    assert stage.system.pool.total_reserved() == 0


def test_advance__reveal_with_some__aggregate(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_reveal()
    stage.system.reveal(1, 1, stage.trainers[0], stage.work(stage.trainers[0]))
    stage.system.wait_out(1, 1)
    rounds.advance(1, 1)
    assert events_of(rounds, results)[-1] == moved(AGGREGATE, 400)
    assert events_of(rounds) == []
    duty = stage.aggregators[int.from_bytes(rounds.round(1, 1).seed, "big") % 2]
    assert results.aggregator_on_duty(1, 1) == duty.node_id


def test_advance__reveal_with_none__void(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_reveal()
    stage.system.wait_out(1, 1)
    rounds.advance(1, 1)
    assert events_of(rounds, results) == voided("no reveals")


def test_advance__no_result__fallback_then_void(stage: RoundStage, results: Any) -> None:
    stage.to_aggregate()
    assert results.aggregator_on_duty(1, 1) != 0
    stage.system.wait_out(1, 1)
    results.advance(1, 1)
    assert events_of(results) == [moved(AGGREGATE, 400)]
    assert results.aggregator_on_duty(1, 1) == 0
    stage.system.wait_out(1, 1)
    results.advance(1, 1)
    assert events_of(results) == voided("no result")


def test_advance__dispute_not_decided__void_and_bond_to_the_treasury(
    stage: RoundStage, owner: str, results: Any
) -> None:
    stage.to_disputed()
    stage.system.wait_out(1, 1)
    results.advance(1, 1)
    bond = [event("BondCredited", account=owner, amount=BOND)]
    assert events_of(results) == bond + voided("dispute not resolved")
    pool = stage.system.pool
    assert (pool.escrow(1), pool.carried(1)) == (9 * REWARD, REWARD)
    assert results.bond_credit(stage.challenger) == 0
    assert stage.system.token.balanceOf(stage.challenger) == STAKE - BOND


def test_advance__dispute_not_decided__attested_by_two_thirds__the_result_stands(
    stage: RoundStage, rounds: Any, owner: str, results: Any
) -> None:
    stage.to_disputed()
    stage.attest(1, *stage.verifiers[:2])
    deadline = rounds.round(1, 1).deadline
    stage.system.wait_out(1, 1)
    results.advance(1, 1)
    assert events_of(results) == [
        event("BondCredited", account=owner, amount=BOND),
        of_round("PhaseChanged", phase=CHALLENGE, deadline=deadline + 300),
    ]
    stage.to_last_half(1)
    stage.finalize()


@pytest.mark.parametrize("way", ["to_reveal", "to_aggregate"])
def test_advance__much_too_late__void(
    stage: RoundStage, rounds: Any, results: Any, way: str
) -> None:
    """Nobody moved the round on for so long that its stakes may be gone before it is settled."""
    getattr(stage, way)()
    if way != "to_aggregate":
        stage.system.reveal(1, 1, stage.trainers[0], stage.work(stage.trainers[0]))
    mine(1, UNBONDING - sum(TERMS[w] for w in ("challenge_s", "appeal_s")) - 2 * 800)
    stage.system.advance(1, 1)
    called = rounds if way != "to_aggregate" else results
    assert events_of(called, results) == voided("no time left")
    assert stage.system.pool.escrow(1) == 10 * REWARD


def withheld(stage: RoundStage) -> None:
    """AGGREGATE, trainer 2 committed and did not reveal."""
    stage.to_aggregate(stage.trainers[:2])


def test_slash_unrevealed__pays_the_caller_a_bounty(stage: RoundStage, rounds: Any) -> None:
    withheld(stage)
    bad = stage.trainers[2]
    amount = rounds.slash_unrevealed(1, 1, bad.node_id, sender=stage.stranger)
    assert amount == STAKE * 5 // 100
    assert events_of(rounds) == [of_round("UnrevealedSlashed", node_id=bad.node_id, amount=amount)]
    registry = stage.system.registry
    assert registry.bonded(bad.node_id) == STAKE - amount
    assert registry.bounty(stage.stranger) == amount // 10
    assert registry.bounty(stage.system.coordinator.address) == amount - amount // 10


def test_slash_unrevealed__ends_an_overdue_reveal_phase(stage: RoundStage, rounds: Any) -> None:
    stage.to_reveal()
    stage.system.reveal(1, 1, stage.trainers[0], stage.work(stage.trainers[0]))
    stage.system.wait_out(1, 1)
    rounds.slash_unrevealed(1, 1, stage.trainers[1].node_id)
    assert stage.system.phase(1, 1) == AGGREGATE


def test_slash_unrevealed__of_a_void_round(stage: RoundStage, rounds: Any) -> None:
    """Nobody revealed: the round is void, the money is back, and each of them is still slashed."""
    stage.to_reveal()
    stage.system.wait_out(1, 1)
    for player in stage.trainers:
        assert rounds.slash_unrevealed(1, 1, player.node_id) == STAKE * 5 // 100
    assert stage.system.phase(1, 1) == VOID


def test_slash_unrevealed__long_after(stage: RoundStage, rounds: Any, results: Any) -> None:
    withheld(stage)
    stage.propose(1, nodes=stage.ids[:2], contributions=[1, 1])
    stage.system.wait_out(1, 1)
    results.finalize(1, 1, stage.ids[:2], [1, 1])
    assert rounds.slash_unrevealed(1, 1, stage.trainers[2].node_id) > 0


def test_books_balance_after_everything_went_wrong(stage: RoundStage, system: System) -> None:
    withheld(stage)
    system.rounds.slash_unrevealed(1, 1, stage.trainers[2].node_id)
    stage.propose(1, nodes=[], contributions=[])
    stage.challenge(1)
    assert system.phase(1, 1) != CHALLENGE
    system.wait_out(1, 1)
    system.results.advance(1, 1)
    assert system.balances() == system.owed()
