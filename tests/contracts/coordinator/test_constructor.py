# SPDX-License-Identifier: Apache-2.0
"""The first committee is checked as any later one, and the deployer gets nothing."""

from __future__ import annotations

from typing import Any

import boa
import click
import pytest

from scripts._shared.quorum import refuse_quorum
from tests.stage.contracts.committee import (
    GOVERNANCE_DELAY,
    GRACE,
    MEMBERS,
    ROUTINE_DELAY,
    ROUTINE_SELECTOR,
)
from tests.stage.contracts.events import event, logged

ZERO = "0x" + "00" * 20
DAYS = 86_400


def test_constructor__settings__are_stored_and_logged(coordinator: Any, target: Any) -> None:
    assert logged(coordinator) == [
        event(
            "MembersChanged", old_members=[], new_members=MEMBERS, old_threshold=0, new_threshold=3
        ),
        event(
            "DelaysChanged",
            old_routine=0,
            old_governance=0,
            new_routine=ROUTINE_DELAY,
            new_governance=GOVERNANCE_DELAY,
        ),
        event(
            "DelayClassChanged",
            target=target.address,
            selector=ROUTINE_SELECTOR,
            old_class=0,
            new_class=1,
        ),
    ]
    assert coordinator.members() == MEMBERS
    assert coordinator.threshold() == 3
    assert coordinator.delays() == (ROUTINE_DELAY, GOVERNANCE_DELAY)
    assert coordinator.grace_period() == GRACE
    assert all(coordinator.is_member(member) for member in MEMBERS)
    assert coordinator.delay_class(target.address, ROUTINE_SELECTOR) == 1
    assert coordinator.delay_class(target.address, bytes(4)) == 0


def test_constructor__deployer__is_no_member(coordinator: Any, deployer: str) -> None:
    assert not coordinator.is_member(deployer)
    with boa.reverts("coordinator: not a member"):
        coordinator.propose(coordinator.address, b"", bytes(32), sender=deployer)


@pytest.mark.parametrize(
    ("members", "threshold", "delays", "grace", "reason"),
    [
        (MEMBERS, 3, (1, 2), 0, "bad grace period"),
        (MEMBERS, 3, (1, 2), 90 * DAYS + 1, "bad grace period"),
        (MEMBERS, 3, (2, 1), 1, "bad delays"),
        (MEMBERS, 3, (0, 90 * DAYS + 1), 1, "bad delays"),
        ([], 0, (1, 2), 1, "no members"),
        ([MEMBERS[0], ZERO], 2, (1, 2), 1, "bad member"),
        ([*MEMBERS[:2], MEMBERS[0]], 2, (1, 2), 1, "duplicate member"),
        *((MEMBERS, some, (1, 2), 1, "bad threshold") for some in (0, 1, 2, 6, 2**256 - 1)),
        (MEMBERS[:4], 2, (1, 2), 1, "bad threshold"),  # half of an even committee
    ],
)
def test_constructor__bad_settings__reverts(
    coordinator_blueprint: Any,
    members: list[str],
    threshold: int,
    delays: tuple[int, int],
    grace: int,
    reason: str,
) -> None:
    with boa.reverts(f"coordinator: {reason}"):
        coordinator_blueprint.deploy(members, threshold, *delays, grace, [])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_constructor__thresholds__are_those_that_commands_permit(
    coordinator_blueprint: Any, count: int
) -> None:
    for threshold in range(1, 7):
        deploys = (MEMBERS[:count], threshold, 1, 2, 1, [])
        try:
            refuse_quorum(count, threshold)
        except click.UsageError:
            with boa.reverts("coordinator: bad threshold"):
                coordinator_blueprint.deploy(*deploys)
        else:
            assert coordinator_blueprint.deploy(*deploys).threshold() == threshold


def test_constructor__sixteen_members__fit(coordinator_blueprint: Any) -> None:
    sixteen = [str(boa.env.generate_address()) for _ in range(16)]
    assert coordinator_blueprint.deploy(sixteen, 9, 0, 0, 1, []).members() == sixteen
