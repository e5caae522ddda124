# SPDX-License-Identifier: Apache-2.0
"""Attacks on whoever finds something: copy its report or its challenge, follow its announcement, or
be the cheat's own finder."""

from __future__ import annotations

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.copies import own_stage, own_system
from tests.stage.contracts.rounds import EVIDENCE, Field, make_field
from tests.stage.contracts.system import (
    BOND,
    INVALID,
    STAKE,
    TERMS,
    UNBONDING,
    ZOO,
    Codes,
    deploy,
    refuses,
)
from tests.stage.contracts.wealth import of_address, of_player

BOUNTY = STAKE // 10  # half of the fifth that INVALID and BAD_RESULT cost
DEPOSIT = BOND  # the least bond that the network permits


@pytest.fixture(scope="module")
def made() -> Field:
    return make_field(deploy(Codes.compile()))


@pytest.fixture
def field(made: Field) -> Field:
    return own_stage(made, made.system, own_system(made.system))


def challenge(field: Field, sender: str) -> None:
    result = field.system.rounds.round(1, 1).result_hash
    field.system.results.challenge(1, 1, result, EVIDENCE, sender=sender)


def uphold(field: Field) -> None:
    result, owner = field.system.rounds.round(1, 1).result_hash, field.system.coordinator.address
    field.system.results.resolve_challenge(1, 1, result, True, sender=owner)


def end(field: Field, report: bytes) -> None:
    mine(1, TERMS["appeal_s"] + 1)
    field.system.reports.execute(report)


def test_copied_report__sent_before_the_finders__earns_nothing(field: Field) -> None:
    """A verifier sees the finder's report wait, announces and reports the same before it. (It won
    100 of 100, the finder 0.)"""
    field.to_challenge()
    finder, copier, _ = field.verifiers
    cheat = field.trainers[0]
    before = [of_player(field.system, p) for p in field.verifiers]
    field.announce(1, cheat, finder)
    field.announce(1, cheat, copier)
    report = field.report(1, cheat, INVALID, copier, finder)
    end(field, report)
    gains = [of_player(field.system, p) - b for p, b in zip(field.verifiers, before, strict=True)]
    assert gains == [BOUNTY, 0, 0]


def test_copied_report__that_is_confirmed_without_the_finder__earns_nothing(field: Field) -> None:
    """The finder's report is held up until the copier and a third have confirmed the node."""
    field.to_challenge()
    finder, copier, third = field.verifiers
    cheat = field.trainers[0]
    before = [of_player(field.system, p) for p in field.verifiers]
    field.announce(1, cheat, finder)
    report = field.find(1, cheat, INVALID, copier, third)
    field.system.reports.open_announcement(1, 1, finder.node_id, cheat.node_id, EVIDENCE)
    end(field, report)
    gains = [of_player(field.system, p) - b for p, b in zip(field.verifiers, before, strict=True)]
    assert gains == [BOUNTY, 0, 0]


def test_copied_announcement__opens_for_nobody_else(field: Field) -> None:
    """The copier announces the finder's own digest, in the same block and before it."""
    field.to_challenge()
    finder, copier, _ = field.verifiers
    cheat, reports = field.trainers[0], field.system.reports
    before = of_player(field.system, finder), of_player(field.system, copier)
    digest = field.announcement(reports, 1, cheat.node_id, finder.node_id)
    for player in (copier, finder):
        reports.announce_report(1, 1, player.node_id, digest, sender=player.operator)
    mine(1)
    report = field.report(1, cheat, INVALID, copier, finder)
    end(field, report)
    gains = of_player(field.system, finder) - before[0], of_player(field.system, copier) - before[1]
    assert gains == (BOUNTY, 0)


@pytest.mark.parametrize("follows", [False, True], ids=["sees the challenge", "sees both"])
def test_copied_challenge__sent_before_the_finders__earns_nothing(
    field: Field, follows: bool
) -> None:
    """A stranger sees the finder's challenge wait, and sends the same before it; or it has also
    announced something when it saw the announcement in a block. (It won 100, the finder 0.)"""
    system = field.system
    field.to_challenge()
    finder, copier, proposer = field.challenger, field.stranger, system.on_duty(1, 1)
    before = of_address(system, finder), of_address(system, copier), of_player(system, proposer)
    field.announce_challenge(1, finder)
    if follows:
        field.announce_challenge(1, copier)
    challenge(field, copier)
    challenge(field, finder)
    uphold(field)
    assert of_address(system, finder) - before[0] == BOUNTY
    assert of_address(system, copier) - before[1] == 0
    assert of_player(system, proposer) - before[2] == -STAKE // 5


def test_announcing_every_result__in_case_somebody_challenges__costs_a_deposit_each(
    field: Field,
) -> None:
    """A stranger checks nothing and announces each result as wrong. Nobody else challenges this
    one."""
    system = field.system
    field.to_challenge()
    before = of_address(system, field.stranger)
    digest = field.announce_challenge(1, field.stranger)
    field.attest(1)
    field.finalize()
    with refuses("announcements: too early"):
        system.results.expire_announcement(field.stranger, digest)
    mine(1, UNBONDING)
    treasury = system.registry.parameters().treasury
    held = system.results.bond_credit(treasury)
    system.results.expire_announcement(field.stranger, digest)
    assert system.results.bond_credit(treasury) - held == DEPOSIT
    assert of_address(system, field.stranger) - before == -DEPOSIT
    assert system.balances() == system.owed()


@pytest.mark.parametrize("insured", [False, True])
def test_proposers_friend__challenges_first__both_lose_a_tenth_at_least(
    field: Field, insured: bool
) -> None:
    """The proposer of a wrong result has a friend that challenges it as soon as somebody else is
    about to. The finder has its bounty, unless the friend has announced before it. That takes a
    deposit for every wrong result, also for those that nobody challenges."""
    system = field.system
    field.to_challenge()
    finder, friend, proposer = field.challenger, field.stranger, system.on_duty(1, 1)
    before = of_address(system, finder), of_address(system, friend) + of_player(system, proposer)
    if insured:
        field.announce_challenge(1, friend)
    field.announce_challenge(1, finder)
    challenge(field, friend)
    challenge(field, finder)
    uphold(field)
    lost = of_address(system, friend) + of_player(system, proposer) - before[1]
    assert lost == (-STAKE // 10 if insured else -STAKE // 5)
    assert of_address(system, finder) - before[0] == (0 if insured else BOUNTY)


def test_second_result__cannot_leave_out_who_was_falsely_convicted(field: Field) -> None:
    """Two verifiers convict an honest node, and challenge the result so that the next one has no
    share for it. (It got back none of its 42.5 when its appeal was upheld.)"""
    system, victim = field.system, field.trainers[2]
    system.token.transfer(victim.owner, 100 * ZOO, sender=system.holder)
    field.to_challenge()
    report = field.report(1, victim, INVALID, *field.verifiers[:2])
    challenge(field, field.challenger)
    uphold(field)
    field.propose(1, next(p for p in field.trainers if p != victim))
    field.attest(1)
    field.finalize()
    before = of_player(system, victim)
    system.reports.appeal(report, EVIDENCE, sender=victim.owner)
    system.reports.resolve_appeal(report, True, sender=system.coordinator.address)
    framers = 2 * BOUNTY
    assert of_player(system, victim) - before == framers + 85 * ZOO * 3 // 6
