# SPDX-License-Identifier: Apache-2.0
"""Who earns the bounty of a confirmed report: the verifier that announced the node first, unless
something else that it reported or announced in the round was not confirmed. Reporting everybody
must not pay."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.clock import block, mine
from tests.stage.contracts.events import event
from tests.stage.contracts.rounds import DEPOSIT, EVIDENCE, RoundStage
from tests.stage.contracts.system import (
    COPIED,
    INVALID,
    STAKE,
    VERIFIER,
    Player,
    System,
    events_of,
    refuses,
)

SLASH = STAKE * 20 // 100


def run_out(stage: RoundStage, *report_ids: bytes) -> None:
    """Executes confirmed reports after their appeal windows."""
    reports = stage.system.reports
    for report_id in report_ids:
        boa.env.evm.patch.timestamp = max(
            boa.env.timestamp, reports.report_of(report_id).deadline + 1
        )
        reports.execute(report_id)


def bounty(stage: RoundStage, player: Player) -> int:
    return int(stage.system.reports.bond_credit(player.payout))


def test_bounty__blind_reporter__nothing_and_the_treasury_has_it_all(
    challenge: RoundStage, reports: Any
) -> None:
    """Attack: verifier 0 reports everybody at once; somebody is guilty."""
    blind, honest, _ = challenge.verifiers
    for node in challenge.trainers:
        guilty = challenge.find(1, node, INVALID, blind)
    challenge.find(1, challenge.trainers[2], INVALID, honest)
    assert reports.finder_of(1, 1, challenge.trainers[2].node_id) == blind.node_id
    treasury = challenge.system.registry.parameters().treasury
    before = challenge.system.registry.bounty(treasury)
    run_out(challenge, guilty)
    assert dict(events_of(reports))["ReportExecuted"]["amount"] == SLASH
    assert [bounty(challenge, p) for p in challenge.verifiers] == [0, 0, 0]
    assert challenge.system.registry.bounty(treasury) - before == SLASH


def test_bounty__lapsed_report_counts_too(challenge: RoundStage, reports: Any) -> None:
    """Closing the wrong reports before the right one is executed does not clean them."""
    blind, honest, _ = challenge.verifiers
    wrong = challenge.find(1, challenge.trainers[0], INVALID, blind)
    guilty = challenge.find(1, challenge.trainers[2], INVALID, blind, honest)
    challenge.system.wait_out(1, 1)
    challenge.finalize()
    reports.lapse(wrong)
    run_out(challenge, guilty)
    assert bounty(challenge, blind) == 0


def test_bounty__blindness_of_later_reporters_costs_the_first_nothing(
    challenge: RoundStage,
) -> None:
    honest, blind, _ = challenge.verifiers
    challenge.find(1, challenge.trainers[0], INVALID, blind)
    guilty = challenge.find(1, challenge.trainers[2], INVALID, honest, blind)
    run_out(challenge, guilty)
    assert bounty(challenge, honest) == SLASH // 2


def test_bounty__all_confirmed__all_paid(challenge: RoundStage) -> None:
    first, second, _ = challenge.verifiers
    both = [challenge.find(1, node, INVALID, first, second) for node in challenge.trainers[1:]]
    run_out(challenge, *both)
    assert bounty(challenge, first) == 2 * (SLASH // 2)


@pytest.mark.parametrize("named_first", [True, False])
def test_bounty__right_node_with_the_other_violation__is_confirmed(
    challenge: RoundStage, named_first: bool
) -> None:
    """Who called a guilty node COPIED while the quorum called it INVALID was right about it and
    has found it, also when it said both."""
    first, second, third = challenge.verifiers
    challenge.find(1, challenge.trainers[0], COPIED, first)
    if named_first:
        other = challenge.find(1, challenge.trainers[0], INVALID, first, second)
    else:
        other = challenge.find(1, challenge.trainers[0], INVALID, third, second)
    guilty = challenge.find(1, challenge.trainers[2], INVALID, first, second)
    run_out(challenge, other, guilty)
    assert bounty(challenge, first) == 2 * (SLASH // 2)
    assert bounty(challenge, third) == 0


def test_bounty__appeal_rejected__same_rule(
    challenge: RoundStage, reports: Any, owner: str
) -> None:
    blind, honest, _ = challenge.verifiers
    challenge.find(1, challenge.trainers[1], INVALID, blind)
    node = challenge.trainers[0]
    guilty = challenge.find(1, node, INVALID, blind, honest)
    reports.appeal(guilty, bytes(32), sender=node.owner)
    reports.resolve_appeal(guilty, False, sender=owner)
    assert challenge.system.registry.bonded(node.node_id) == STAKE - SLASH
    assert bounty(challenge, blind) == 0


def test_bounty__each_round_counts_for_itself(challenge: RoundStage) -> None:
    """An unconfirmed report costs the bounties of its round only."""
    first, second, _ = challenge.verifiers
    challenge.find(1, challenge.trainers[0], INVALID, first)
    challenge.system.wait_out(1, 1)
    challenge.finalize()
    assert challenge.to_challenge() == 2
    guilty = challenge.find(2, challenge.trainers[2], INVALID, first, second)
    run_out(challenge, guilty)
    assert bounty(challenge, first) == SLASH // 2


def test_announce_report__blindly__costs_every_bounty_of_the_round(challenge: RoundStage) -> None:
    """Attack: verifier 0 announces everybody before anybody has looked, and opens what others
    confirm."""
    blind, honest, third = challenge.verifiers
    for node in challenge.trainers:
        challenge.announce(1, node, blind)
    guilty = challenge.find(1, challenge.trainers[2], INVALID, honest)
    challenge.report(1, challenge.trainers[2], INVALID, third)
    open_late(challenge, challenge.trainers[2], blind)
    run_out(challenge, guilty)
    assert [bounty(challenge, p) for p in challenge.verifiers] == [0, 0, 0]


def open_late(stage: RoundStage, node: Player, by: Player, evidence: bytes = EVIDENCE) -> None:
    stage.system.reports.open_announcement(1, 1, by.node_id, node.node_id, evidence)


def test_open_announcement__report_came_too_late__the_oldest_is_paid(
    challenge: RoundStage, reports: Any
) -> None:
    """The finder's report hangs in the pool until two others have confirmed the node."""
    finder, second, third = challenge.verifiers
    node = challenge.trainers[2]
    challenge.announce(1, node, finder)
    with refuses("reports: not confirmed"):
        open_late(challenge, node, finder)
    guilty = challenge.find(1, node, INVALID, second, third)
    assert reports.finder_of(1, 1, node.node_id) == second.node_id
    with refuses("reports: already confirmed"):
        challenge.report(1, node, INVALID, finder)
    with refuses("reports: not announced"):
        open_late(challenge, node, finder, evidence=bytes(32))
    announced_in = block() - 3  # two other announcements, each with a block behind it
    open_late(challenge, node, finder)
    subject, scope = (
        keccak(encode(["uint256"] * 3, [1, 1, number])) for number in (node.node_id, finder.node_id)
    )
    opened = {"subject": subject, "scope": scope, "finder": finder.node_id}
    settled = {"job_id": 1, "round_id": 1, "verifier_id": finder.node_id, "amount": DEPOSIT}
    assert events_of(reports) == [
        event("AnnouncementOpened", **opened, announced_in=announced_in),
        event("DepositSettled", **settled, returned=True),
        event("BondCredited", account=finder.operator, amount=DEPOSIT),
    ]
    with refuses("reports: not announced"):
        open_late(challenge, node, finder)
    assert reports.finder_of(1, 1, node.node_id) == finder.node_id
    run_out(challenge, guilty)
    assert [bounty(challenge, p) for p in challenge.verifiers] == [SLASH // 2, 0, 0]


def test_open_announcement__clears_a_right_announcement(challenge: RoundStage) -> None:
    """Who was too late with one node is paid for another that it found."""
    finder, second, third = challenge.verifiers
    late, own = challenge.trainers[1:]
    challenge.announce(1, late, finder)
    guilty = [
        challenge.find(1, late, INVALID, second, third),
        challenge.find(1, own, INVALID, finder, second),
    ]
    open_late(challenge, late, finder)
    run_out(challenge, *guilty)
    assert bounty(challenge, finder) == 2 * (SLASH // 2)


def test_open_announcement__of_an_own_node__reverts(
    stage: RoundStage, system: System, reports: Any
) -> None:
    """Attack: the owner of a cheat announces it as a verifier, and has half of the slash back."""
    cheat = stage.trainers[0]
    cousin = system.join("cousin", VERIFIER, owner="trainer 0 owner")
    system.person("cousin", DEPOSIT)
    system.mature()
    stage.to_challenge()
    stage.announce(1, cheat, cousin)
    stage.find(1, cheat, INVALID, *stage.verifiers)
    with refuses("reports: own node"):
        open_late(stage, cheat, cousin)


def test_announce_report__not_before_the_first_report__earns_nothing(challenge: RoundStage) -> None:
    """Neither in the block of a report nor later; nobody else earns it then."""
    first, late, later = challenge.verifiers
    node = challenge.trainers[2]
    reports = challenge.system.reports
    guilty = challenge.report(1, node, INVALID, first)
    digest = challenge.announcement(reports, 1, node.node_id, late.node_id)
    reports.announce_report(1, 1, late.node_id, digest, DEPOSIT, sender=late.operator)
    mine(1)
    challenge.report(1, node, INVALID, late)
    challenge.announce(1, node, later)
    open_late(challenge, node, later)
    assert reports.finder_of(1, 1, node.node_id) == 0
    run_out(challenge, guilty)
    assert [bounty(challenge, p) for p in challenge.verifiers] == [0, 0, 0]


def test_announce_report__is_told__once(challenge: RoundStage, reports: Any) -> None:
    verifier, digest = challenge.verifiers[0], keccak(text="x")
    args = (1, 1, verifier.node_id, digest)
    reports.announce_report(*args, DEPOSIT, sender=verifier.operator)
    scope = keccak(encode(["uint256"] * 3, [1, 1, verifier.node_id]))
    said = dict(zip(("job_id", "round_id", "verifier_id", "digest"), args, strict=True))
    assert events_of(reports) == [
        event("Announced", scope=scope, digest=digest),
        event("ReportAnnounced", **said, deposit=DEPOSIT),
        event("BondTaken", account=verifier.operator, amount=DEPOSIT),
    ]
    with refuses("announcements: already announced"):
        reports.announce_report(*args, DEPOSIT, sender=verifier.operator)
