# SPDX-License-Identifier: Apache-2.0
"""Attacks with challenges: to freeze a round, to void it, to hide a cheat, to outlast its stake."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.rounds import EVIDENCE, RoundStage, make_rounds
from tests.stage.contracts.system import (
    BOND,
    DAY,
    FINALIZED,
    INVALID,
    STAKE,
    TERMS,
    VOID,
    ZOO,
    Codes,
    deploy,
)
from tests.stage.contracts.wealth import of_address, of_player


def rule(stage: RoundStage, round_id: int, upheld: bool) -> None:
    """The committee decides the challenge of the result that stands."""
    result = stage.system.rounds.round(stage.job_id, round_id).result_hash
    owner = stage.system.coordinator.address
    stage.system.results.resolve_challenge(stage.job_id, round_id, result, upheld, sender=owner)


def challenge(stage: RoundStage, round_id: int, sender: str) -> None:
    result = stage.system.rounds.round(stage.job_id, round_id).result_hash
    stage.system.results.challenge(stage.job_id, round_id, result, EVIDENCE, sender=sender)


def test_endless_challenges__a_round_of_a_sound_result__is_frozen_once_for_one_bond(
    stage: RoundStage,
) -> None:
    """One who wants a round to stand still challenges it again each time a challenge is rejected.
    The committee takes nearly its whole window each time."""
    system, round_id = stage.system, stage.to_challenge()
    before, began = of_address(system, stage.challenger), now()
    challenges = 0
    for _ in range(6):
        try:
            challenge(stage, round_id, stage.challenger)
        except boa.BoaError:
            break
        challenges += 1
        mine(1, TERMS["dispute_s"] - 10)
        rule(stage, round_id, upheld=False)
    stage.attest(round_id)
    stage.finalize()
    assert challenges == 1
    assert now() - began <= TERMS["dispute_s"] + TERMS["challenge_s"]
    assert of_address(system, stage.challenger) - before == -BOND
    assert of_player(system, *stage.trainers) == 3 * STAKE + 85 * ZOO - 1


def test_missed_decision__asked_for_by_the_challenger__the_attested_result_stands(
    stage: RoundStage,
) -> None:
    """A challenger, perhaps the sponsor, attacks a sound result and the committee is asleep: the
    work would be had for nothing."""
    system, round_id = stage.system, stage.to_challenge()
    before = of_address(system, stage.challenger)
    workers = of_player(system, *stage.trainers)
    challenge(stage, round_id, stage.challenger)
    try:
        stage.attest(round_id)
    except boa.BoaError as error:
        print("attest refused", error.args[0] if error.args else "")
    system.wait_out(stage.job_id, round_id)
    system.advance(stage.job_id, round_id)
    if system.phase(stage.job_id, round_id) != VOID:
        stage.finalize()
    gained = of_player(system, *stage.trainers) - workers
    assert system.phase(stage.job_id, round_id) == FINALIZED
    assert of_address(system, stage.challenger) - before == -BOND
    assert gained >= 84 * ZOO


def test_missed_decision__of_a_result_that_nobody_confirmed__is_void_and_costs_the_bond(
    stage: RoundStage,
) -> None:
    """Nobody speaks for the result, nobody decides: the round is void, and whoever asked for the
    decision is not rewarded."""
    system, round_id = stage.system, stage.to_challenge()
    before = of_address(system, stage.challenger)
    challenge(stage, round_id, stage.challenger)
    stage.attest(round_id, stage.verifiers[0])
    system.wait_out(stage.job_id, round_id)
    system.advance(stage.job_id, round_id)
    assert system.phase(stage.job_id, round_id) == VOID
    assert of_address(system, stage.challenger) - before == -BOND


def test_friendly_challenge__shields_a_cheat_from_reports__the_cheat_is_slashed(
    stage: RoundStage,
) -> None:
    """A cheat's friend challenges the result at once, so that no report can be made until the
    committee has missed its window."""
    system, round_id = stage.system, stage.to_challenge()
    cheat = stage.trainers[2]
    before, friend = of_player(system, cheat), of_address(system, stage.challenger)
    challenge(stage, round_id, stage.challenger)
    try:
        stage.attest(round_id)
        report_id = stage.report(round_id, cheat, INVALID, *stage.verifiers[:2])
    except boa.BoaError:
        report_id = b""
    system.wait_out(stage.job_id, round_id)
    system.advance(stage.job_id, round_id)
    if report_id:
        stage.finalize()
        mine(1, TERMS["appeal_s"] + 1)
        system.reports.execute(report_id)
    lost = before - of_player(system, cheat)
    assert lost == STAKE // 5
    assert of_address(system, stage.challenger) - friend == -BOND


@pytest.fixture
def slow(codes: Codes) -> RoundStage:
    """A job whose disputes may take five days, with an unbonding period of 14."""
    return make_rounds(deploy(codes), dispute_s=5 * DAY)


def test_challenges__past_the_unbonding_period__the_stake_is_still_there(slow: RoundStage) -> None:
    """A cheat leaves when its round opens. Its friends then challenge three times, until its stake
    is withdrawn and a confirmed report takes nothing."""
    stage, system = slow, slow.system
    round_id = stage.to_commit()
    cheat = stage.trainers[2]
    worth = of_player(system, cheat)
    for player in stage.trainers:
        system.commit(stage.job_id, round_id, player, stage.work(player, round_id))
    system.registry.begin_exit(cheat.node_id, sender=cheat.owner)
    for player in stage.trainers:
        system.reveal(stage.job_id, round_id, player, stage.work(player, round_id))
    stage.propose(round_id)
    for _ in range(3):
        try:
            challenge(stage, round_id, stage.challenger)
        except boa.BoaError:
            break
        mine(1, 5 * DAY - 60)
        rule(stage, round_id, upheld=False)
    if now() < system.registry.node(cheat.node_id).unlock_at:
        with boa.reverts("registry: still unbonding"):
            system.registry.withdraw(cheat.node_id, sender=cheat.owner)
    else:
        system.registry.withdraw(cheat.node_id, sender=cheat.owner)
    report_id = stage.report(round_id, cheat, INVALID, *stage.verifiers[:2])
    mine(1, TERMS["appeal_s"] + 1)
    system.reports.execute(report_id)
    lost = worth - of_player(system, cheat)
    assert lost == STAKE // 5
