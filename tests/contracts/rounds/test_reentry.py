# SPDX-License-Identifier: Apache-2.0
"""Neighbours of TrainingRounds and TrainingResults that call back while a round is opened, handed
over, challenged, ended or paid: the lock refuses them, and what is moved is moved once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.intruder import Intruder
from tests.stage.contracts.rounds import EVIDENCE, RoundStage
from tests.stage.contracts.system import BOND, FINALIZED, VOID, ZERO

WORD = b"\x01" * 32
# `commit` has no lock, since it calls nobody but a view.
ROUNDS_CALLS = [
    ("advance", (1, 1)),
    ("open_round", (1,)),
    ("seat", (1, 1, [1], [1])),
    ("slash_unrevealed", (1, 1, 1)),
    ("reveal", (1, 1, 1, WORD, WORD, WORD, WORD, WORD)),
    ("capture_seed", (1, 1)),
]
RESULTS_CALLS = [
    ("finalize", (1, 1, [], [])),
    ("settle", (1, 1, [], [])),
    ("advance", (1, 1)),
    ("challenge", (1, 1, WORD, WORD)),
    ("announce_challenge", (WORD,)),
    ("expire_announcement", (ZERO, WORD)),
    ("withdraw_bond", ()),
    ("capture_audit_seed", (1, 1)),
    # Those of ViolationReports only: the lock comes before the question who calls.
    ("report_opened", (1, 1)),
    ("report_closed", (1, 1)),
    ("invalidate", (1, 1, 1)),
    ("clear", (1, 1, 1)),
]


def test_open_round__reentered_by_its_neighbours__opens_one(stage: RoundStage) -> None:
    """Attack: two rounds from one opening."""
    rounds, jobs, results = stage.system.rounds, stage.system.jobs, stage.system.results
    neighbours = (jobs, ("begin_round",)), (results, ("open",))
    intruder = Intruder(rounds, "open_round", (1,), *neighbours)
    assert intruder.locked_out(lambda: rounds.open_round(1), 2) == jobs.rounds_opened(1) == 1


@pytest.mark.parametrize(("name", "arguments"), ROUNDS_CALLS)
def test_advance__reentered_when_it_hands_a_void_round_over__ends_it_once(
    stage: RoundStage, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: have the pool of the round back twice."""
    rounds = stage.system.rounds
    stage.to_commit()
    stage.system.wait_out(1, 1)
    intruder = Intruder(rounds, name, arguments, (stage.system.results, ("void",)))
    intruder.locked_out(lambda: rounds.advance(1, 1), 1)
    assert stage.system.phase(1, 1) == VOID


@pytest.mark.parametrize("name", ["reveal", "commit"])
def test_reveal__reentered_when_it_hands_the_round_over__finds_it_closed(
    stage: RoundStage, name: str
) -> None:
    """Attack: reveal again, or commit to what was just revealed, from inside the last reveal. The
    phase is left before TrainingResults is called."""
    stage.to_reveal(stage.trainers[:1])
    player, other = stage.trainers[:2]
    work = stage.work(player)
    parts = (work.input_root, work.content, work.trace_root, work.salt, WORD)
    arguments = (1, 1, player.node_id, *parts) if name == "reveal" else (1, 1, other.node_id, WORD)
    intruder = Intruder(stage.system.rounds, name, arguments, (stage.system.results, ("begin",)))
    reason = "" if name == "reveal" else "rounds: not in commit"
    intruder.locked_out(lambda: stage.reveal_all(1, player), 1, reason)


@pytest.mark.parametrize(("name", "arguments"), RESULTS_CALLS)
def test_open_and_void__reentered_by_the_pool_or_the_jobs__the_lock_holds(
    stage: RoundStage, name: str, arguments: tuple[Any, ...]
) -> None:
    rounds, pool = stage.system.rounds, stage.system.pool
    neighbours = (pool, ("reserve", "close")), (stage.system.jobs, ("end_round",))
    intruder = Intruder(stage.system.results, name, arguments, *neighbours)
    intruder.locked_out(lambda: rounds.open_round(1), 1)
    mine(2)
    stage.system.wait_out(1, 1)
    intruder.locked_out(lambda: rounds.advance(1, 1), 2)
    assert pool.escrow(1) == 10 * stage.system.jobs.job(1).terms.reward_per_round


@pytest.mark.parametrize(("name", "arguments"), RESULTS_CALLS)
def test_finalize__reentered_by_ledger_pool_or_jobs__pays_once(
    stage: RoundStage, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: finalize or settle the same round again from inside the payment."""
    system, results = stage.system, stage.system.results
    stage.to_challenge()
    stage.attest(1)
    neighbours = (
        (system.ledger, ("record_round",)),
        (system.pool, ("start_distribution", "close")),
        (system.jobs, ("end_round",)),
    )
    intruder = Intruder(results, name, arguments, *neighbours)
    intruder.locked_out(stage.finalize, 4)
    assert (results.phase(1, 1), results.result(1, 1).settled) == (FINALIZED, True)
    assert system.balances() == system.owed()


@pytest.mark.parametrize(("name", "arguments"), RESULTS_CALLS)
def test_challenge__reentered_by_the_token__the_lock_holds(
    stage: RoundStage, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: take the challenge back, or finalize, while its bond is on the way."""
    system, results = stage.system, stage.system.results
    stage.to_challenge()
    intruder = Intruder(results, name, arguments, (system.token, ("transferFrom",)))
    result = system.rounds.round(1, 1).result_hash
    intruder.locked_out(
        lambda: results.challenge(1, 1, result, EVIDENCE, sender=stage.challenger), 1
    )


def test_undecided_dispute__reentered_by_jobs_and_pool__credits_the_bond_once(
    stage: RoundStage,
) -> None:
    """Attack: a second `advance` from inside the first would credit the bond, and end the round,
    twice."""
    system, results = stage.system, stage.system.results
    stage.to_disputed()
    system.wait_out(1, 1)
    neighbours = (system.jobs, ("end_round",)), (system.pool, ("close",))
    intruder = Intruder(results, "advance", (1, 1), *neighbours)
    intruder.locked_out(lambda: results.advance(1, 1), 2)
    assert results.bond_credit(system.coordinator.address) == results.bonds_held() == BOND
