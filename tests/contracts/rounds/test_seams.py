# SPDX-License-Identifier: Apache-2.0
"""What TrainingJobs, TrainingRounds and TrainingResults say of one round, and what anybody can do
with it in a contract that does not have it. Calls by others are in `test_refusals.py`, calls from
inside another one in `test_reentry.py`."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import (
    AGGREGATE,
    BOND,
    CHALLENGE,
    COMMIT,
    EMPTY,
    FINALIZED,
    INVALID,
    NONE,
    REVEAL,
    REWARD,
    TERMS,
    VOID,
    refuses,
)

WORD = b"\x01" * 32
ROUND_TERMS = (1, WORD, 128, 600, 500, 400, 300, 800, REWARD, 2**40 - 1)


# Wrong caller


# Wrong phase, also by the contract that may call


@pytest.mark.parametrize("way", ["to_commit", "to_reveal"])
def test_results__while_rounds_has_the_round__nobody_can_act(
    stage: RoundStage, owner: str, results: Any, way: str
) -> None:
    """The phase is 0 in TrainingResults, whose clock has no deadline yet: that it has "passed" must
    open nothing, however long one waits."""
    getattr(stage, way)()
    verifier, aggregator = stage.verifiers[0], stage.aggregators[0]

    def decide() -> None:
        results.resolve_challenge(1, 1, EMPTY, True, sender=owner)

    def invalidate() -> None:
        results.invalidate(1, 1, stage.ids[0], sender=stage.system.reports.address)

    for _ in range(2):
        assert (results.phase(1, 1), results.aggregator_on_duty(1, 1)) == (NONE, 0)
        assert not results.can_finalize(1, 1)
        for reason, call in (
            ("results: nothing to advance", lambda: results.advance(1, 1)),
            ("randomness: not requested", lambda: results.capture_audit_seed(1, 1)),
            ("results: not in aggregate", lambda: stage.propose(1, aggregator)),
            ("results: not in challenge", lambda: stage.attest(1, verifier)),
            ("results: not in challenge", lambda: stage.challenge(1)),
            ("results: not disputed", decide),
            ("results: not finalizable", lambda: results.finalize(1, 1, [], [])),
            ("results: nothing to settle", lambda: results.settle(1, 1, [], [])),
            ("results: not in challenge", invalidate),
        ):
            with refuses(reason):
                call()
        assert not results.is_challenged(1, 1)
        mine(2, 30 * 86_400)


@pytest.mark.parametrize("way", ["to_aggregate", "to_challenge", "to_disputed", "to_finalized"])
def test_rounds__after_the_handover__nobody_can_act(
    stage: RoundStage, rounds: Any, way: str
) -> None:
    getattr(stage, way)()
    trainer = stage.trainers[0]
    for _ in range(2):
        with refuses("rounds: nothing to advance"):
            rounds.advance(1, 1)
        with refuses("rounds: not in commit"):
            stage.system.commit(1, 1, trainer, stage.work(trainer))
        with refuses("rounds: not in reveal"):
            stage.system.reveal(1, 1, trainer, stage.work(trainer))
        mine(2, 30 * 86_400)


# One phase, told by one view


def test_phase__of_every_stage__is_that_of_the_contract_that_has_the_round(
    stage: RoundStage, rounds: Any, results: Any, jobs: Any
) -> None:
    def told() -> tuple[int, int, int, int]:
        state = rounds.round(1, 1)
        assert state.phase == rounds.phase(1, 1)
        return rounds.phase(1, 1), results.phase(1, 1), results.result(1, 1).phase, state.deadline

    assert told() == (NONE, NONE, NONE, 0)
    stage.to_commit()
    assert told() == (COMMIT, NONE, NONE, boa.env.timestamp - 2 * mined() + TERMS["commit_s"])
    stage.commit_all(1, *stage.trainers)
    assert told() == (REVEAL, NONE, NONE, boa.env.timestamp + TERMS["reveal_s"])
    stage.reveal_all(1, *stage.trainers)
    assert told() == (AGGREGATE, AGGREGATE, AGGREGATE, boa.env.timestamp + TERMS["aggregate_s"])
    stage.propose(1)
    assert told() == (CHALLENGE, CHALLENGE, CHALLENGE, boa.env.timestamp + TERMS["challenge_s"])
    stage.attest(1)
    stage.finalize()
    assert told() == (FINALIZED, FINALIZED, FINALIZED, 0)
    assert jobs.rounds_open(1) == 0


def mined() -> int:
    """Seconds that `mine` lets pass for a block."""
    before = boa.env.timestamp
    with boa.env.anchor():
        mine()
        return int(boa.env.timestamp - before)


def test_marks__are_told_16_nodes_at_once(stage: RoundStage, rounds: Any, results: Any) -> None:
    round_id = stage.to_aggregate(stage.trainers[:2])
    bits = [1 << node for node in stage.ids]
    assert max(stage.ids) < 16
    assert rounds.revealed(1, round_id, 0) == sum(bits[:2])
    assert rounds.revealed(1, round_id, 1) == rounds.revealed(1, 2, 0) == 0
    stage.propose(round_id, nodes=stage.ids[:2], contributions=[1, 1])
    stage.report(round_id, stage.trainers[0], INVALID, *stage.verifiers[:2])
    assert results.last_invalid(1) == 1
    for later, known in ((1, 0), (2, 1), (8, 1), (9, 1), (10, 0), (17, 0)):
        assert results.invalid_history(1, later, 0) == known * bits[0] << 32  # round 1, lane 1
    assert results.invalid_history(1, 2, 1) == results.invalid_history(2, 2, 0) == 0
    # A number that no node can have names nobody, also not in another round.
    assert not rounds.is_revealed(1, round_id + 8, stage.ids[0])
    assert not rounds.is_revealed(1, round_id + 8, stage.ids[0] - (1 << 68) + 2**256)
    assert not rounds.is_revealed(1, round_id, stage.ids[0] + (1 << 68))


# What a cancelled job, a void round and silence leave behind


@pytest.mark.parametrize("way", ["to_commit", "to_reveal", "to_aggregate", "to_disputed"])
def test_cancelled__round_open__escrow_is_refunded_once_and_nothing_is_left(
    stage: RoundStage, jobs: Any, way: str
) -> None:
    """Attack: the sponsor cancels while a round is open and claims the escrow before and after the
    round's pool came back. It gets nothing back of a round that had a result."""
    system = stage.system
    getattr(stage, way)()
    jobs.cancel_job(1, sender=stage.sponsor)
    with refuses("pool: job not ended"):
        system.pool.refund(1, sender=stage.sponsor)
    while system.phase(1, 1) != VOID:
        system.wait_out(1, 1)
        system.advance(1, 1)
    assert jobs.job_ended(1)
    carried = REWARD if way == "to_disputed" else 0
    assert system.pool.refund(1, sender=stage.sponsor) == 10 * REWARD - carried
    with refuses("pool: nothing to refund"):
        system.pool.refund(1, sender=stage.sponsor)
    assert system.pool.carried(1) == carried
    if way == "to_disputed":
        assert system.results.bond_credit(system.coordinator.address) == BOND
    assert system.balances() == system.owed()
    with refuses("jobs: job not active"):
        system.rounds.open_round(1)


def test_slash_unrevealed__after_the_job_was_cancelled_and_refunded(
    stage: RoundStage, jobs: Any, rounds: Any
) -> None:
    """Attack: who committed to nothing hopes that the end of the job saves its stake."""
    stage.to_reveal()
    jobs.cancel_job(1, sender=stage.sponsor)
    stage.system.time_out(1, 1)
    stage.system.pool.refund(1, sender=stage.sponsor)
    for node_id in stage.ids:
        assert rounds.slash_unrevealed(1, 1, node_id) > 0
        with refuses("rounds: already slashed"):
            rounds.slash_unrevealed(1, 1, node_id)
