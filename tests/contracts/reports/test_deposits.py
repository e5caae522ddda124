# SPDX-License-Identifier: Apache-2.0
"""The deposits of announced reports: who has them back and when, who pays them, and that none can
get stuck."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.reports.test_bounty import open_late, run_out
from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event
from tests.stage.contracts.rounds import DEPOSIT, RoundStage
from tests.stage.contracts.system import (
    COPIED,
    INVALID,
    STAKE,
    UNBONDING,
    Player,
    events_of,
    refuses,
)
from tests.stage.contracts.wealth import of_player

BOUNTY = STAKE // 10


def treasury_credit(stage: RoundStage) -> int:
    treasury = stage.system.registry.parameters().treasury
    return int(stage.system.reports.bond_credit(treasury))


def expire(stage: RoundStage, verifier: Player, digest: bytes, sender: str = "") -> None:
    by = sender or stage.stranger
    stage.system.reports.expire_announcement(1, 1, verifier.node_id, digest, sender=by)


def make_void(stage: RoundStage) -> None:
    """The result is challenged, and nobody decides."""
    stage.challenge(1)
    stage.system.wait_out(1, 1)
    stage.system.results.advance(1, 1)


def test_deposit__of_who_was_right__is_back_at_the_confirmation(
    challenge: RoundStage, reports: Any
) -> None:
    first, second, _ = challenge.verifiers
    challenge.find(1, challenge.trainers[0], INVALID, first)
    assert reports.bond_credit(first.operator) == 0
    challenge.find(1, challenge.trainers[0], INVALID, second)
    assert [reports.bond_credit(p.operator) for p in (first, second)] == [DEPOSIT, DEPOSIT]
    assert reports.bonds_held() == 2 * DEPOSIT


def test_deposit__of_the_other_violation__is_back_too(challenge: RoundStage, reports: Any) -> None:
    """Who called a guilty node COPIED was right about the node."""
    first, second, third = challenge.verifiers
    challenge.find(1, challenge.trainers[0], COPIED, third)
    challenge.find(1, challenge.trainers[0], INVALID, first, second)
    assert [reports.bond_credit(p.operator) for p in challenge.verifiers] == [DEPOSIT] * 3


def test_credit__is_used_before_the_wallet(challenge: RoundStage, reports: Any) -> None:
    first, second, _ = challenge.verifiers
    challenge.find(1, challenge.trainers[0], INVALID, first, second)
    token, before = challenge.system.token, challenge.system.token.balanceOf(first.operator)
    challenge.announce(1, challenge.trainers[1], first, deposit=DEPOSIT // 4)
    used = event("BondCreditUsed", account=first.operator, amount=DEPOSIT // 4)
    assert reports.bond_credit(first.operator) == 3 * DEPOSIT // 4
    assert token.balanceOf(first.operator) == before
    digest = challenge.announcement(reports, 1, challenge.trainers[2].node_id, first.node_id)
    reports.announce_report(1, 1, first.node_id, digest, DEPOSIT, sender=first.operator)
    logged = events_of(reports)
    assert event("BondCreditUsed", account=first.operator, amount=3 * DEPOSIT // 4) in logged
    assert event("BondTaken", account=first.operator, amount=DEPOSIT // 4) in logged
    assert used not in logged
    assert before - token.balanceOf(first.operator) == DEPOSIT // 4
    assert challenge.system.balances() == challenge.system.owed()


@pytest.mark.parametrize("deposit", [1, BOUNTY - 1, BOUNTY, BOUNTY + 1])
def test_bounty__is_the_deposit_at_most__the_rest_is_the_treasurys(
    challenge: RoundStage, reports: Any, deposit: int
) -> None:
    finder, second, _ = challenge.verifiers
    node, before = challenge.trainers[2], of_player(challenge.system, challenge.verifiers[0])
    challenge.announce(1, node, finder, deposit=deposit)
    guilty = challenge.report(1, node, INVALID, finder, second)
    held = treasury_credit(challenge)
    run_out(challenge, guilty)
    earned = min(deposit, BOUNTY)
    assert of_player(challenge.system, finder) - before == earned
    assert treasury_credit(challenge) - held == BOUNTY - earned
    assert reports.bond_credit(finder.payout) == earned
    assert challenge.system.registry.bounty(reports.address) == 0
    assert challenge.system.balances() == challenge.system.owed()


def test_slash_of_nothing__pays_nobody_and_ends(challenge: RoundStage, reports: Any) -> None:
    """The row takes nothing any more when the report comes to its end."""
    finder, second, _ = challenge.verifiers
    guilty = challenge.find(1, challenge.trainers[0], INVALID, finder, second)
    owner = challenge.system.coordinator.address
    nothing = (0, 0, 0, False, False, 0)
    challenge.system.registry.set_penalty(INVALID, nothing, sender=owner)
    run_out(challenge, guilty)
    assert reports.bond_credit(finder.payout) == 0
    assert reports.bond_credit(finder.operator) == DEPOSIT


def test_lapsed_report__its_deposit_is_the_treasurys(challenge: RoundStage, reports: Any) -> None:
    """Two thirds of the weight stand behind the result, and did not join in."""
    verifier, *others = challenge.verifiers
    wrong = challenge.find(1, challenge.trainers[0], INVALID, verifier)
    challenge.attest(1, *others)
    challenge.system.wait_out(1, 1)
    challenge.finalize()
    held = treasury_credit(challenge)
    reports.lapse(wrong)
    settled = {"job_id": 1, "round_id": 1, "verifier_id": verifier.node_id, "amount": DEPOSIT}
    assert event("DepositSettled", **settled, returned=False) in events_of(reports)
    assert treasury_credit(challenge) - held == DEPOSIT
    assert reports.bond_credit(verifier.operator) == 0


def test_round_that_nobody_judged__deposits_go_back(challenge: RoundStage, reports: Any) -> None:
    """A verifier alone sees the fault while the others sleep: it was right, and loses nothing."""
    alone, second, _ = challenge.verifiers
    report = challenge.find(1, challenge.trainers[0], INVALID, alone)
    digest = challenge.announce(1, challenge.trainers[1], alone)
    challenge.attest(1, second)
    challenge.system.wait_out(1, 1)
    challenge.finalize()
    reports.lapse(report)
    with refuses("announcements: too early"):
        expire(challenge, alone, digest)
    expire(challenge, alone, digest, alone.operator)
    assert reports.bond_credit(alone.operator) == 2 * DEPOSIT
    assert treasury_credit(challenge) == 0


def test_void_round__deposits_go_back(challenge: RoundStage, reports: Any) -> None:
    """Nobody can be reported in it: neither an announcement nor a report was answered."""
    first, second, _ = challenge.verifiers
    digest = challenge.announce(1, challenge.trainers[1], first)
    left = challenge.find(1, challenge.trainers[0], INVALID, second)
    make_void(challenge)
    reports.lapse(left)
    expire(challenge, first, digest, first.operator)
    assert [reports.bond_credit(p.operator) for p in (first, second)] == [DEPOSIT, DEPOSIT]
    with refuses("announcements: not announced"):
        expire(challenge, first, digest)


def test_void_round__anybody_gives_an_old_deposit_back(challenge: RoundStage, reports: Any) -> None:
    first = challenge.verifiers[0]
    digest = challenge.announce(1, challenge.trainers[1], first)
    make_void(challenge)
    mine(1, UNBONDING)
    expire(challenge, first, digest)
    assert reports.bond_credit(first.operator) == DEPOSIT


def test_void_round__nobody_else_ends_the_finders_announcement(
    challenge: RoundStage, reports: Any
) -> None:
    """Attack: the second finder of a node that was convicted before the round was void expires the
    announcement of the first one, which its agent was about to open."""
    finder, second, third = challenge.verifiers
    node = challenge.trainers[2]
    digest = challenge.announce(1, node, finder)
    guilty = challenge.find(1, node, INVALID, second, third)
    make_void(challenge)
    for thief in (second.operator, finder.owner, challenge.stranger):
        with refuses("announcements: too early"):
            expire(challenge, finder, digest, thief)
    open_late(challenge, node, finder)
    run_out(challenge, guilty)
    assert reports.bond_credit(finder.payout) == BOUNTY
    assert reports.bond_credit(second.payout) == 0


def test_expired_announcement__is_the_treasurys__once(challenge: RoundStage, reports: Any) -> None:
    verifier = challenge.verifiers[0]
    digest = challenge.announce(1, challenge.trainers[1], verifier)
    challenge.attest(1)
    challenge.finalize()
    with refuses("announcements: too early"):
        expire(challenge, verifier, digest)
    mine(1, UNBONDING)
    held = treasury_credit(challenge)
    expire(challenge, verifier, digest)
    assert treasury_credit(challenge) - held == DEPOSIT
    with refuses("announcements: not announced"):
        expire(challenge, verifier, digest)


def test_open_announcement__after_the_slash__gives_the_deposit_back_and_no_bounty(
    challenge: RoundStage, reports: Any
) -> None:
    """Its verifier was away for the whole appeal window."""
    late, second, third = challenge.verifiers
    node, before = challenge.trainers[2], of_player(challenge.system, challenge.verifiers[0])
    challenge.announce(1, node, late)
    guilty = challenge.find(1, node, INVALID, second, third)
    run_out(challenge, guilty)
    open_late(challenge, node, late)
    assert of_player(challenge.system, late) == before
    assert reports.bond_credit(second.payout) == BOUNTY


def test_open_announcement__of_a_node_that_was_cleared__reverts(
    challenge: RoundStage, reports: Any, owner: str
) -> None:
    late, second, third = challenge.verifiers
    node = challenge.trainers[0]
    challenge.announce(1, node, late)
    report = challenge.find(1, node, INVALID, second, third)
    reports.appeal(report, bytes(32), sender=node.owner)
    reports.resolve_appeal(report, True, sender=owner)
    with refuses("reports: not confirmed"):
        open_late(challenge, node, late)


def test_deposit__of_a_closed_node__goes_to_its_owner(challenge: RoundStage, reports: Any) -> None:
    late, second, third = challenge.verifiers
    node, registry = challenge.trainers[2], challenge.system.registry
    challenge.announce(1, node, late)
    guilty = challenge.find(1, node, INVALID, second, third)
    registry.begin_exit(late.node_id, sender=late.owner)
    mine(1, UNBONDING)
    registry.withdraw(late.node_id, sender=late.owner)
    run_out(challenge, guilty)
    open_late(challenge, node, late)
    assert reports.bond_credit(late.owner) == DEPOSIT
    assert reports.bond_credit(late.operator) == 0
