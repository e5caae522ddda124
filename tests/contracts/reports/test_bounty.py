# SPDX-License-Identifier: Apache-2.0
"""Who earns the bounty of a confirmed report: its first reporter, unless a report of its in the
same round was not confirmed. Reporting everybody must not pay."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.rounds import Field
from tests.stage.contracts.system import COPIED, INVALID, STAKE, Player, events_of

SLASH = STAKE * 20 // 100


def run_out(field: Field, *report_ids: bytes) -> None:
    """Executes confirmed reports after their appeal windows."""
    reports = field.system.reports
    for report_id in report_ids:
        boa.env.evm.patch.timestamp = max(
            boa.env.timestamp, reports.report_of(report_id).deadline + 1
        )
        reports.execute(report_id)


def bounty(field: Field, player: Player) -> int:
    return int(field.system.registry.bounty(player.payout))


def test_bounty__blind_reporter__nothing_and_the_treasury_has_it_all(
    challenge: Field, reports: Any
) -> None:
    """Attack: verifier 0 reports everybody at once; somebody is guilty."""
    blind, honest, _ = challenge.verifiers
    for node in challenge.trainers:
        guilty = challenge.report(1, node, INVALID, blind)
    challenge.report(1, challenge.trainers[2], INVALID, honest)
    assert reports.report_of(guilty).first_reporter == blind.node_id
    treasury = challenge.system.registry.parameters().treasury
    before = challenge.system.registry.bounty(treasury)
    run_out(challenge, guilty)
    assert dict(events_of(reports))["ReportExecuted"]["amount"] == SLASH
    assert [bounty(challenge, p) for p in challenge.verifiers] == [0, 0, 0]
    assert challenge.system.registry.bounty(treasury) - before == SLASH


def test_bounty__lapsed_report_counts_too(challenge: Field, reports: Any) -> None:
    """Closing the wrong reports before the right one is executed does not clean them."""
    blind, honest, _ = challenge.verifiers
    wrong = challenge.report(1, challenge.trainers[0], INVALID, blind)
    guilty = challenge.report(1, challenge.trainers[2], INVALID, blind, honest)
    challenge.system.wait_out(1, 1)
    challenge.finalize()
    reports.lapse(wrong)
    run_out(challenge, guilty)
    assert bounty(challenge, blind) == 0


def test_bounty__blindness_of_later_reporters_costs_the_first_nothing(challenge: Field) -> None:
    honest, blind, _ = challenge.verifiers
    challenge.report(1, challenge.trainers[0], INVALID, blind)
    guilty = challenge.report(1, challenge.trainers[2], INVALID, honest, blind)
    run_out(challenge, guilty)
    assert bounty(challenge, honest) == SLASH // 2


def test_bounty__all_confirmed__all_paid(challenge: Field) -> None:
    first, second, _ = challenge.verifiers
    both = [challenge.report(1, node, INVALID, first, second) for node in challenge.trainers[1:]]
    run_out(challenge, *both)
    assert bounty(challenge, first) == 2 * (SLASH // 2)


@pytest.mark.parametrize("named_first", [True, False])
def test_bounty__right_node_with_the_other_violation__is_confirmed(
    challenge: Field, named_first: bool
) -> None:
    """Who called a guilty node COPIED while the quorum called it INVALID was right about it,
    also when it said both."""
    first, second, third = challenge.verifiers
    challenge.report(1, challenge.trainers[0], COPIED, first)
    if named_first:
        other = challenge.report(1, challenge.trainers[0], INVALID, first, second)
    else:
        other = challenge.report(1, challenge.trainers[0], INVALID, third, second)
    guilty = challenge.report(1, challenge.trainers[2], INVALID, first, second)
    run_out(challenge, other, guilty)
    assert bounty(challenge, first) == (1 + named_first) * (SLASH // 2)
    assert bounty(challenge, third) == (not named_first) * (SLASH // 2)


def test_bounty__appeal_rejected__same_rule(challenge: Field, reports: Any, owner: str) -> None:
    blind, honest, _ = challenge.verifiers
    challenge.report(1, challenge.trainers[1], INVALID, blind)
    node = challenge.trainers[0]
    guilty = challenge.report(1, node, INVALID, blind, honest)
    reports.appeal(guilty, bytes(32), sender=node.owner)
    reports.resolve_appeal(guilty, False, sender=owner)
    assert challenge.system.registry.bonded(node.node_id) == STAKE - SLASH
    assert bounty(challenge, blind) == 0


def test_bounty__each_round_counts_for_itself(challenge: Field) -> None:
    """An unconfirmed report costs the bounties of its round only."""
    first, second, _ = challenge.verifiers
    challenge.report(1, challenge.trainers[0], INVALID, first)
    challenge.system.wait_out(1, 1)
    challenge.finalize()
    assert challenge.to_challenge() == 2
    guilty = challenge.report(2, challenge.trainers[2], INVALID, first, second)
    run_out(challenge, guilty)
    assert bounty(challenge, first) == SLASH // 2
