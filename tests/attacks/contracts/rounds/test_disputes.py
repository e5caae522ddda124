# SPDX-License-Identifier: Apache-2.0
"""Attacks with challenges: to freeze a round, to void it, to hide a cheat, to outlast its stake."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.rounds import EVIDENCE, Field, make_field
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


def rule(field: Field, round_id: int, upheld: bool) -> None:
    """The committee decides the challenge of the result that stands."""
    result = field.system.rounds.round(field.job_id, round_id).result_hash
    owner = field.system.coordinator.address
    field.system.results.resolve_challenge(field.job_id, round_id, result, upheld, sender=owner)


def challenge(field: Field, round_id: int, sender: str) -> None:
    result = field.system.rounds.round(field.job_id, round_id).result_hash
    field.system.results.challenge(field.job_id, round_id, result, EVIDENCE, sender=sender)


def test_endless_challenges__a_round_of_a_sound_result__is_frozen_once_for_one_bond(
    field: Field,
) -> None:
    """One who wants a round to stand still challenges it again each time a challenge is rejected.
    The committee takes nearly its whole window each time."""
    system, round_id = field.system, field.to_challenge()
    before, began = of_address(system, field.challenger), now()
    challenges = 0
    for _ in range(6):
        try:
            challenge(field, round_id, field.challenger)
        except boa.BoaError:
            break
        challenges += 1
        mine(1, TERMS["dispute_s"] - 10)
        rule(field, round_id, upheld=False)
    field.attest(round_id)
    field.finalize()
    assert challenges == 1
    assert now() - began <= TERMS["dispute_s"] + TERMS["challenge_s"]
    assert of_address(system, field.challenger) - before == -BOND
    assert of_player(system, *field.trainers) == 3 * STAKE + 85 * ZOO - 1


def test_missed_decision__asked_for_by_the_challenger__the_attested_result_stands(
    field: Field,
) -> None:
    """A challenger, perhaps the sponsor, attacks a sound result and the committee is asleep: the
    work would be had for nothing."""
    system, round_id = field.system, field.to_challenge()
    before = of_address(system, field.challenger)
    workers = of_player(system, *field.trainers)
    challenge(field, round_id, field.challenger)
    try:
        field.attest(round_id)
    except boa.BoaError as error:
        print("attest refused", error.args[0] if error.args else "")
    system.wait_out(field.job_id, round_id)
    system.advance(field.job_id, round_id)
    if system.phase(field.job_id, round_id) != VOID:
        field.finalize()
    gained = of_player(system, *field.trainers) - workers
    assert system.phase(field.job_id, round_id) == FINALIZED
    assert of_address(system, field.challenger) - before == -BOND
    assert gained >= 84 * ZOO


def test_missed_decision__of_a_result_that_nobody_confirmed__is_void_and_costs_the_bond(
    field: Field,
) -> None:
    """Nobody speaks for the result, nobody decides: the round is void, and whoever asked for the
    decision is not rewarded."""
    system, round_id = field.system, field.to_challenge()
    before = of_address(system, field.challenger)
    challenge(field, round_id, field.challenger)
    field.attest(round_id, field.verifiers[0])
    system.wait_out(field.job_id, round_id)
    system.advance(field.job_id, round_id)
    assert system.phase(field.job_id, round_id) == VOID
    assert of_address(system, field.challenger) - before == -BOND


def test_friendly_challenge__shields_a_cheat_from_reports__the_cheat_is_slashed(
    field: Field,
) -> None:
    """A cheat's friend challenges the result at once, so that no report can be made until the
    committee has missed its window."""
    system, round_id = field.system, field.to_challenge()
    cheat = field.trainers[2]
    before, friend = of_player(system, cheat), of_address(system, field.challenger)
    challenge(field, round_id, field.challenger)
    try:
        field.attest(round_id)
        report_id = field.report(round_id, cheat, INVALID, *field.verifiers[:2])
    except boa.BoaError:
        report_id = b""
    system.wait_out(field.job_id, round_id)
    system.advance(field.job_id, round_id)
    if report_id:
        field.finalize()
        mine(1, TERMS["appeal_s"] + 1)
        system.reports.execute(report_id)
    lost = before - of_player(system, cheat)
    assert lost == STAKE // 5
    assert of_address(system, field.challenger) - friend == -BOND


@pytest.fixture
def slow(codes: Codes) -> Field:
    """A job whose disputes may take five days, with an unbonding period of 14."""
    return make_field(deploy(codes), dispute_s=5 * DAY)


def test_challenges__past_the_unbonding_period__the_stake_is_still_there(slow: Field) -> None:
    """A cheat leaves when its round opens. Its friends then challenge three times, until its stake
    is withdrawn and a confirmed report takes nothing."""
    field, system = slow, slow.system
    round_id = field.to_commit()
    cheat = field.trainers[2]
    worth = of_player(system, cheat)
    for player in field.trainers:
        system.commit(field.job_id, round_id, player, field.work(player, round_id))
    system.registry.begin_exit(cheat.node_id, sender=cheat.owner)
    for player in field.trainers:
        system.reveal(field.job_id, round_id, player, field.work(player, round_id))
    field.propose(round_id)
    for _ in range(3):
        try:
            challenge(field, round_id, field.challenger)
        except boa.BoaError:
            break
        mine(1, 5 * DAY - 60)
        rule(field, round_id, upheld=False)
    if now() < system.registry.node(cheat.node_id).unlock_at:
        with boa.reverts("registry: still unbonding"):
            system.registry.withdraw(cheat.node_id, sender=cheat.owner)
    else:
        system.registry.withdraw(cheat.node_id, sender=cheat.owner)
    report_id = field.report(round_id, cheat, INVALID, *field.verifiers[:2])
    mine(1, TERMS["appeal_s"] + 1)
    system.reports.execute(report_id)
    lost = worth - of_player(system, cheat)
    assert lost == STAKE // 5
