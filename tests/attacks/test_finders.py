# SPDX-License-Identifier: Apache-2.0
"""Attacks on whoever finds something: copy its report or its challenge, follow its announcement, or
be the cheat's own finder."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.copies import own_stage, own_system
from tests.stage.contracts.rounds import DEPOSIT as DEPOSIT_OF_A_REPORT
from tests.stage.contracts.rounds import EVIDENCE, RoundStage, make_rounds
from tests.stage.contracts.system import (
    BOND,
    INVALID,
    STAKE,
    TERMS,
    UNBONDING,
    ZOO,
    Codes,
    Player,
    deploy,
    refuses,
)
from tests.stage.contracts.wealth import of_address, of_player

BOUNTY = STAKE // 10  # half of the fifth that INVALID and BAD_RESULT cost
DEPOSIT = BOND  # the least bond that the network permits


@pytest.fixture(scope="module")
def made() -> RoundStage:
    return make_rounds(deploy(Codes.compile()))


@pytest.fixture
def stage(made: RoundStage) -> RoundStage:
    return own_stage(made, made.system, own_system(made.system))


def challenge(stage: RoundStage, sender: str) -> None:
    result = stage.system.rounds.round(1, 1).result_hash
    stage.system.results.challenge(1, 1, result, EVIDENCE, sender=sender)


def uphold(stage: RoundStage) -> None:
    result, owner = stage.system.rounds.round(1, 1).result_hash, stage.system.coordinator.address
    stage.system.results.resolve_challenge(1, 1, result, True, sender=owner)


def end(stage: RoundStage, report: bytes) -> None:
    mine(1, TERMS["appeal_s"] + 1)
    stage.system.reports.execute(report)


def test_copied_report__sent_before_the_finders__earns_nothing(stage: RoundStage) -> None:
    """A verifier sees the finder's report wait, announces and reports the same before it. (It won
    100 of 100, the finder 0.)"""
    stage.to_challenge()
    finder, copier, _ = stage.verifiers
    cheat = stage.trainers[0]
    before = [of_player(stage.system, p) for p in stage.verifiers]
    stage.announce(1, cheat, finder)
    stage.announce(1, cheat, copier)
    report = stage.report(1, cheat, INVALID, copier, finder)
    end(stage, report)
    gains = [of_player(stage.system, p) - b for p, b in zip(stage.verifiers, before, strict=True)]
    assert gains == [BOUNTY, 0, 0]


def test_copied_report__that_is_confirmed_without_the_finder__earns_nothing(
    stage: RoundStage,
) -> None:
    """The finder's report is held up until the copier and a third have confirmed the node."""
    stage.to_challenge()
    finder, copier, third = stage.verifiers
    cheat = stage.trainers[0]
    before = [of_player(stage.system, p) for p in stage.verifiers]
    stage.announce(1, cheat, finder)
    report = stage.find(1, cheat, INVALID, copier, third)
    stage.system.reports.open_announcement(1, 1, finder.node_id, cheat.node_id, EVIDENCE)
    end(stage, report)
    gains = [of_player(stage.system, p) - b for p, b in zip(stage.verifiers, before, strict=True)]
    assert gains == [BOUNTY, 0, 0]


def test_copied_announcement__opens_for_nobody_else(stage: RoundStage) -> None:
    """The copier announces the finder's own digest, in the same block and before it: what it has
    deposited it can't have back."""
    stage.to_challenge()
    finder, copier, _ = stage.verifiers
    cheat, reports = stage.trainers[0], stage.system.reports
    before = of_player(stage.system, finder), of_player(stage.system, copier)
    digest = stage.announcement(reports, 1, cheat.node_id, finder.node_id)
    for player in (copier, finder):
        reports.announce_report(1, 1, player.node_id, digest, BOUNTY, sender=player.operator)
    mine(1)
    report = stage.report(1, cheat, INVALID, copier, finder)
    end(stage, report)
    gains = of_player(stage.system, finder) - before[0], of_player(stage.system, copier) - before[1]
    assert gains == (BOUNTY, -BOUNTY)


@pytest.mark.parametrize("deposit", [1, BOUNTY // 4, BOUNTY, 4 * BOUNTY])
def test_guess__costs_more_than_it_earns_unless_it_is_right_every_second_time(
    stage: RoundStage, deposit: int
) -> None:
    """A verifier checks nothing and announces one node before anybody else can. (A right guess won
    100, and a wrong one cost nothing.)"""
    guesser, *others = stage.verifiers
    cheat, innocent = stage.trainers[0], stage.trainers[1]

    def gain(guessed: Player) -> int:
        with boa.env.anchor():
            stage.to_challenge()
            before = of_player(stage.system, guesser)
            digest = stage.announce(1, guessed, guesser, deposit=deposit)
            report = stage.find(1, cheat, INVALID, *others)
            reports = stage.system.reports
            if guessed is cheat:
                reports.open_announcement(1, 1, guesser.node_id, cheat.node_id, EVIDENCE)
            stage.attest(1, *others)
            end(stage, report)
            stage.finalize()
            if guessed is innocent:
                mine(1, UNBONDING)
                reports.expire_announcement(1, 1, guesser.node_id, digest)
            assert stage.system.balances() == stage.system.owed()
            return of_player(stage.system, guesser) - before

    assert gain(cheat) == min(deposit, BOUNTY)
    assert gain(innocent) == -deposit


def test_reported_guess__costs_its_deposit_too(stage: RoundStage) -> None:
    """A verifier reports its guess, so that its announcement is not left unopened."""
    (guesser, *others), innocent = stage.verifiers, stage.trainers[1]
    stage.to_challenge()
    before = of_player(stage.system, guesser)
    report = stage.find(1, innocent, INVALID, guesser)
    stage.attest(1, *others)
    stage.system.wait_out(1, 1)
    stage.finalize()
    treasury = stage.system.registry.parameters().treasury
    held = stage.system.reports.bond_credit(treasury)
    stage.system.reports.lapse(report)
    assert stage.system.reports.bond_credit(treasury) - held == DEPOSIT_OF_A_REPORT
    assert of_player(stage.system, guesser) - before == -DEPOSIT_OF_A_REPORT


def test_cap__is_that_of_the_oldest_announcement(stage: RoundStage) -> None:
    """A verifier announces a guess for next to nothing, and the same node again with the whole
    deposit once it sees others report it: it earns what the first one bore."""
    guesser, *others = stage.verifiers
    cheat, reports = stage.trainers[0], stage.system.reports
    stage.to_challenge()
    before = of_player(stage.system, guesser)
    stage.announce(1, cheat, guesser, deposit=1)
    report = stage.find(1, cheat, INVALID, *others)
    other = bytes(31) + b"1"
    stage.announce(1, cheat, guesser, deposit=BOUNTY, evidence=other)
    for evidence in (other, EVIDENCE):
        reports.open_announcement(1, 1, guesser.node_id, cheat.node_id, evidence)
    end(stage, report)
    assert of_player(stage.system, guesser) - before == 1


@pytest.mark.parametrize("follows", [False, True], ids=["sees the challenge", "sees both"])
def test_copied_challenge__sent_before_the_finders__earns_nothing(
    stage: RoundStage, follows: bool
) -> None:
    """A stranger sees the finder's challenge wait, and sends the same before it; or it has also
    announced something when it saw the announcement in a block. (It won 100, the finder 0.)"""
    system = stage.system
    stage.to_challenge()
    finder, copier, proposer = stage.challenger, stage.stranger, system.on_duty(1, 1)
    before = of_address(system, finder), of_address(system, copier), of_player(system, proposer)
    stage.announce_challenge(1, finder)
    if follows:
        stage.announce_challenge(1, copier)
    challenge(stage, copier)
    challenge(stage, finder)
    uphold(stage)
    assert of_address(system, finder) - before[0] == BOUNTY
    assert of_address(system, copier) - before[1] == 0
    assert of_player(system, proposer) - before[2] == -STAKE // 5


def test_announcing_every_result__in_case_somebody_challenges__costs_a_deposit_each(
    stage: RoundStage,
) -> None:
    """A stranger checks nothing and announces each result as wrong. Nobody else challenges this
    one."""
    system = stage.system
    stage.to_challenge()
    before = of_address(system, stage.stranger)
    digest = stage.announce_challenge(1, stage.stranger)
    stage.attest(1)
    stage.finalize()
    with refuses("announcements: too early"):
        system.results.expire_announcement(stage.stranger, digest)
    mine(1, UNBONDING)
    treasury = system.registry.parameters().treasury
    held = system.results.bond_credit(treasury)
    system.results.expire_announcement(stage.stranger, digest)
    assert system.results.bond_credit(treasury) - held == DEPOSIT
    assert of_address(system, stage.stranger) - before == -DEPOSIT
    assert system.balances() == system.owed()


@pytest.mark.parametrize("insured", [False, True])
def test_proposers_friend__challenges_first__both_lose_a_tenth_at_least(
    stage: RoundStage, insured: bool
) -> None:
    """The proposer of a wrong result has a friend that challenges it as soon as somebody else is
    about to. The finder has its bounty, unless the friend has announced before it. That takes a
    deposit for every wrong result, also for those that nobody challenges."""
    system = stage.system
    stage.to_challenge()
    finder, friend, proposer = stage.challenger, stage.stranger, system.on_duty(1, 1)
    before = of_address(system, finder), of_address(system, friend) + of_player(system, proposer)
    if insured:
        stage.announce_challenge(1, friend)
    stage.announce_challenge(1, finder)
    challenge(stage, friend)
    challenge(stage, finder)
    uphold(stage)
    lost = of_address(system, friend) + of_player(system, proposer) - before[1]
    assert lost == (-STAKE // 10 if insured else -STAKE // 5)
    assert of_address(system, finder) - before[0] == (0 if insured else BOUNTY)


def test_second_result__cannot_leave_out_who_was_falsely_convicted(stage: RoundStage) -> None:
    """Two verifiers convict an honest node, and challenge the result so that the next one has no
    share for it. (It got back none of its 42.5 when its appeal was upheld.)"""
    system, victim = stage.system, stage.trainers[2]
    system.token.transfer(victim.owner, 100 * ZOO, sender=system.holder)
    stage.to_challenge()
    report = stage.report(1, victim, INVALID, *stage.verifiers[:2])
    challenge(stage, stage.challenger)
    uphold(stage)
    stage.propose(1, stage.verifiers[2])
    stage.attest(1)
    stage.finalize()
    before = of_player(system, victim)
    system.reports.appeal(report, EVIDENCE, sender=victim.owner)
    system.reports.resolve_appeal(report, True, sender=system.coordinator.address)
    framers = 2 * BOUNTY
    assert of_player(system, victim) - before == framers + 85 * ZOO * 3 // 6
