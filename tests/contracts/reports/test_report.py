# SPDX-License-Identifier: Apache-2.0
"""report and lapse: verifiers of the snapshot, once each, two thirds of the fixed denominator."""

from __future__ import annotations

from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import EVIDENCE, RoundStage
from tests.stage.contracts.system import (
    COPIED,
    INVALID,
    STAKE,
    VERIFIER,
    VOICE,
    ZERO,
    events_of,
    refuses,
)

OPEN, CONFIRMED, LAPSED = 1, 2, 6


def id_of(node_id: int, violation: int) -> bytes:
    return keccak(encode(["uint256"] * 4, [1, 1, node_id, violation]))


def test_report__first_opens(challenge: RoundStage, reports: Any) -> None:
    bad, verifier = challenge.trainers[0], challenge.verifiers[0]
    opened_at = challenge.system.rounds.round(1, 1).opened_at
    report_id = challenge.report(1, bad, INVALID, verifier)
    assert report_id == id_of(bad.node_id, INVALID)
    assert tuple(reports.report_of(report_id)) == (
        OPEN,
        1,
        1,
        bad.node_id,
        INVALID,
        VOICE,
        opened_at,
        0,
        EVIDENCE,
        ZERO,
        0,
    )
    assert reports.reporters(report_id) == [verifier.node_id]
    assert reports.has_reported(report_id, verifier.node_id)
    assert not reports.has_reported(report_id, challenge.verifiers[1].node_id)
    state = challenge.system.rounds.round(1, 1)
    assert (state.open_reports, state.n_invalid) == (1, 0)
    assert challenge.system.registry.node(bad.node_id).locks == 0


def test_report__quorum_confirms(challenge: RoundStage, reports: Any) -> None:
    bad = challenge.trainers[0]
    first, second, _ = challenge.verifiers
    report_id = challenge.report(1, bad, INVALID, first)
    assert (
        reports.report(1, 1, second.node_id, bad.node_id, INVALID, EVIDENCE, sender=second.operator)
        == report_id
    )
    deadline = boa.env.timestamp + 700
    assert events_of(reports) == [
        of_round(
            "ViolationReported",
            report_id=report_id,
            node_id=bad.node_id,
            verifier_id=second.node_id,
            violation=INVALID,
            evidence=EVIDENCE,
            weight=VOICE,
        ),
        event(
            "ReportConfirmed", report_id=report_id, node_id=bad.node_id, appeal_deadline=deadline
        ),
    ]
    report = reports.report_of(report_id)
    assert (report.status, report.weight, report.deadline) == (CONFIRMED, 2 * VOICE, deadline)
    assert reports.reporters(report_id)[0] == first.node_id
    rounds = challenge.system.rounds
    assert challenge.system.results.is_invalid(1, 1, bad.node_id)
    assert rounds.round(1, 1).open_reports == 0
    assert challenge.system.registry.node(bad.node_id).locks == 1


def test_report__confirmation_closes_the_other_kind(challenge: RoundStage, reports: Any) -> None:
    bad = challenge.trainers[0]
    other = challenge.report(1, bad, INVALID, challenge.verifiers[2])
    first, second = challenge.verifiers[:2]
    challenge.report(1, bad, COPIED, first)
    reports.report(1, 1, second.node_id, bad.node_id, COPIED, EVIDENCE, sender=second.operator)
    lapsed = event("ReportLapsed", report_id=other, node_id=bad.node_id)
    assert lapsed in events_of(reports)
    assert reports.report_of(other).status == LAPSED
    assert challenge.system.rounds.round(1, 1).open_reports == 0
    assert challenge.system.registry.node(bad.node_id).locks == 1


def test_report__at_the_deadline(challenge: RoundStage) -> None:
    boa.env.evm.patch.timestamp = challenge.system.rounds.round(1, 1).deadline
    challenge.report(1, challenge.trainers[0], INVALID, challenge.verifiers[0])


def test_report__copied_without_duplicate__reverts(challenge: RoundStage) -> None:
    with refuses("reports: not a duplicate"):
        challenge.report(1, challenge.trainers[2], COPIED, challenge.verifiers[0])
    challenge.report(1, challenge.trainers[1], COPIED, challenge.verifiers[0])


def test_report__own_node__reverts(stage: RoundStage) -> None:
    """A verifier judges no node of its own owner: one owner can't farm bounties on itself."""
    system = stage.system
    cousin = system.join("cousin", VERIFIER, owner="trainer 0 owner")
    system.mature()
    stage.to_challenge()
    with refuses("reports: own node"):
        stage.report(1, stage.trainers[0], INVALID, cousin)
    stage.report(1, stage.trainers[1], INVALID, cousin)


def test_report__stake_added_later_does_not_help(challenge: RoundStage, reports: Any) -> None:
    rich = challenge.verifiers[0]
    challenge.system.add_stake(rich, 99 * STAKE)
    report_id = challenge.report(1, challenge.trainers[0], INVALID, rich)
    assert reports.report_of(report_id).status == OPEN
    assert reports.report_of(report_id).weight == VOICE


def test_lapse__after_the_round(challenge: RoundStage, reports: Any) -> None:
    node = challenge.trainers[0]
    report_id = challenge.report(1, node, INVALID, challenge.verifiers[0])
    with refuses("reports: round not over"):
        reports.lapse(report_id)
    challenge.system.wait_out(1, 1)
    with refuses("reports: round not over"):
        reports.lapse(report_id)
    challenge.finalize()
    reports.lapse(report_id, sender=challenge.stranger)
    assert events_of(reports) == [event("ReportLapsed", report_id=report_id, node_id=node.node_id)]
    assert reports.report_of(report_id).status == LAPSED
    assert challenge.system.registry.bonded(node.node_id) == STAKE
    with refuses("reports: not open"):
        reports.lapse(report_id)


def test_lapse__disputed_round_keeps_it_open(challenge: RoundStage, reports: Any) -> None:
    report_id = challenge.report(1, challenge.trainers[0], INVALID, challenge.verifiers[0])
    challenge.challenge(1)
    with refuses("reports: round not over"):
        reports.lapse(report_id)
    challenge.system.wait_out(1, 1)
    challenge.system.results.advance(1, 1)  # void
    reports.lapse(report_id)
