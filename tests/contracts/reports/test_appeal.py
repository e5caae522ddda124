# SPDX-License-Identifier: Apache-2.0
"""After the confirmation: execute, appeal, resolve_appeal, dismiss_unresolved. Every way out
unlocks the stake exactly once and leaves no bond behind."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts.events import event
from tests.stage.contracts.rounds import DEPOSIT, RoundStage
from tests.stage.contracts.system import (
    APPEAL_BOND,
    COPIED,
    FALSE_REPORT,
    INVALID,
    STAKE,
    Codes,
    events_of,
    refuses,
)

CONFIRMED, APPEALED, EXECUTED, DISMISSED = 2, 3, 4, 5
STATEMENT = keccak(text="statement")


@pytest.fixture
def report_id(challenge: RoundStage) -> bytes:
    """INVALID of trainer 0, confirmed by verifiers 0 and 1."""
    return challenge.find(1, challenge.trainers[0], INVALID, *challenge.verifiers[:2])


@pytest.fixture
def appealed(challenge: RoundStage, reports: Any, report_id: bytes) -> bytes:
    reports.appeal(report_id, STATEMENT, sender=challenge.trainers[0].owner)
    return report_id


def pass_deadline(reports: Any, report_id: bytes) -> None:
    boa.env.evm.patch.timestamp = reports.report_of(report_id).deadline + 1


def locks(stage: RoundStage) -> int:
    return int(stage.system.registry.node(stage.trainers[0].node_id).locks)


def test_execute__after_the_appeal_window(
    challenge: RoundStage, reports: Any, report_id: bytes
) -> None:
    node, first = challenge.trainers[0], challenge.verifiers[0]
    boa.env.evm.patch.timestamp = reports.report_of(report_id).deadline
    with refuses("reports: appeal window open"):
        reports.execute(report_id)
    pass_deadline(reports, report_id)
    amount = reports.execute(report_id, sender=challenge.stranger)
    assert amount == STAKE * 20 // 100
    paid = {"report_id": report_id, "verifier_id": first.node_id, "amount": amount // 2, "rest": 0}
    assert events_of(reports) == [
        event("ReportExecuted", report_id=report_id, node_id=node.node_id, amount=amount),
        event("FinderPaid", **paid),
        event("BondCredited", account=first.payout, amount=amount // 2),
    ]
    assert reports.report_of(report_id).status == EXECUTED
    registry = challenge.system.registry
    assert locks(challenge) == 0
    assert registry.bonded(node.node_id) == STAKE - amount
    assert reports.bond_credit(first.payout) == amount // 2
    with refuses("reports: not confirmed"):
        reports.execute(report_id)


def test_execute__copied_costs_half(challenge: RoundStage, reports: Any) -> None:
    copied = challenge.report(1, challenge.trainers[1], COPIED, *challenge.verifiers[:2])
    pass_deadline(reports, copied)
    assert reports.execute(copied) == STAKE // 2


def test_execute__does_not_depend_on_the_rounds_result(
    challenge: RoundStage, reports: Any, report_id: bytes
) -> None:
    challenge.challenge(1)
    challenge.system.wait_out(1, 1)
    challenge.system.results.advance(1, 1)  # void
    pass_deadline(reports, report_id)
    assert reports.execute(report_id) > 0


@pytest.mark.parametrize("who", ["owner", "operator"])
def test_appeal__by_the_node(
    challenge: RoundStage, reports: Any, report_id: bytes, who: str
) -> None:
    node = challenge.trainers[0]
    sender = getattr(node, who)
    challenge.system.token.transfer(sender, APPEAL_BOND, sender=challenge.system.holder)
    challenge.system.token.approve(reports.address, APPEAL_BOND, sender=sender)
    boa.env.evm.patch.timestamp = reports.report_of(report_id).deadline
    reports.appeal(report_id, STATEMENT, sender=sender)
    deadline = boa.env.timestamp + 800
    assert events_of(reports) == [
        event(
            "ReportAppealed",
            report_id=report_id,
            node_id=node.node_id,
            appellant=sender,
            statement=STATEMENT,
            bond=APPEAL_BOND,
            deadline=deadline,
        ),
        event("BondTaken", account=sender, amount=APPEAL_BOND),
    ]
    report = reports.report_of(report_id)
    assert (report.status, report.deadline) == (APPEALED, deadline)
    assert (report.appellant, report.bond) == (sender, APPEAL_BOND)
    assert reports.bonds_held() - 2 * DEPOSIT == reports.appeal_bond() == APPEAL_BOND
    assert locks(challenge) == 1


def test_resolve_appeal__upheld__reporters_pay_the_node(
    challenge: RoundStage, reports: Any, appealed: bytes, owner: str
) -> None:
    """Attack: two of three verifiers frame an honest node. The node is whole, they are not."""
    node = challenge.trainers[0]
    registry = challenge.system.registry
    boa.env.evm.patch.timestamp = reports.report_of(appealed).deadline
    reports.resolve_appeal(appealed, True, sender=owner)
    slashed = STAKE * 20 // 100
    framers = challenge.verifiers[:2]
    assert events_of(reports) == [
        event("AppealResolved", report_id=appealed, node_id=node.node_id, upheld=True),
        event("ReportDismissed", report_id=appealed, node_id=node.node_id),
        event("BondCredited", account=node.owner, amount=APPEAL_BOND),
        *(
            event("FalseReportSlashed", report_id=appealed, verifier_id=p.node_id, amount=slashed)
            for p in framers
        ),
    ]
    assert locks(challenge) == 0
    assert registry.bonded(node.node_id) == STAKE
    assert registry.bounty(node.payout) == 2 * (slashed // 2)
    for player in framers:
        assert registry.bonded(player.node_id) == STAKE - slashed
        assert registry.offences(player.node_id, FALSE_REPORT) == 1
    assert registry.bonded(challenge.verifiers[2].node_id) == STAKE
    assert reports.withdraw_bond(sender=node.owner) == APPEAL_BOND
    assert reports.report_of(appealed).status == DISMISSED


def test_resolve_appeal__rejected__slashes_and_forfeits(
    challenge: RoundStage, reports: Any, appealed: bytes, owner: str
) -> None:
    node, first = challenge.trainers[0], challenge.verifiers[0]
    reports.resolve_appeal(appealed, False, sender=owner)
    slashed = STAKE * 20 // 100
    paid = {"report_id": appealed, "verifier_id": first.node_id, "amount": slashed // 2, "rest": 0}
    assert events_of(reports) == [
        event("AppealResolved", report_id=appealed, node_id=node.node_id, upheld=False),
        event("BondCredited", account=owner, amount=APPEAL_BOND),
        event("ReportExecuted", report_id=appealed, node_id=node.node_id, amount=slashed),
        event("FinderPaid", **paid),
        event("BondCredited", account=first.payout, amount=slashed // 2),
    ]
    assert locks(challenge) == 0
    assert challenge.system.registry.bonded(node.node_id) == STAKE - slashed
    assert reports.bond_credit(node.owner) == 0
    assert reports.bond_credit(owner) == APPEAL_BOND
    assert reports.report_of(appealed).status == EXECUTED


def test_dismiss_unresolved__nobody_is_slashed(
    challenge: RoundStage, reports: Any, appealed: bytes
) -> None:
    node = challenge.trainers[0]
    boa.env.evm.patch.timestamp = reports.report_of(appealed).deadline
    with refuses("reports: appeal pending"):
        reports.dismiss_unresolved(appealed)
    pass_deadline(reports, appealed)
    reports.dismiss_unresolved(appealed, sender=challenge.stranger)
    assert events_of(reports) == [
        event("ReportDismissed", report_id=appealed, node_id=node.node_id),
        event("BondCredited", account=node.owner, amount=APPEAL_BOND),
    ]
    registry = challenge.system.registry
    assert locks(challenge) == 0
    for player in (node, *challenge.verifiers):
        assert registry.bonded(player.node_id) == STAKE
    for call in (reports.dismiss_unresolved, reports.execute, reports.lapse):
        with pytest.raises(boa.BoaError):
            call(appealed)


# Settings


def test_constructor__bad_bond__reverts(codes: Codes) -> None:
    for bond in (0, 2**128):
        with refuses("reports: bad bond"):
            codes.reports.deploy(*[str(boa.env.eoa)] * 7, bond)
