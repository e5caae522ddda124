# SPDX-License-Identifier: Apache-2.0
"""The first committee is checked as any later one, and the deployer gets nothing."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import (
    GOVERNANCE_DELAY,
    GRACE,
    ROUTINE_DELAY,
    ROUTINE_SELECTOR,
)
from tests.stage.contracts.events import logged

ZERO = "0x" + "00" * 20
DAYS = 86_400


def test_constructor__settings__are_stored_and_logged(
    coordinator: Any, members: list[str], target: Any
) -> None:
    assert logged(coordinator) == [
        (
            "MembersChanged",
            {
                "old_members": [],
                "new_members": members,
                "old_threshold": 0,
                "new_threshold": 3,
            },
        ),
        (
            "DelaysChanged",
            {
                "old_routine": 0,
                "old_governance": 0,
                "new_routine": ROUTINE_DELAY,
                "new_governance": GOVERNANCE_DELAY,
            },
        ),
        (
            "DelayClassChanged",
            {
                "target": target.address,
                "selector": ROUTINE_SELECTOR,
                "old_class": 0,
                "new_class": 1,
            },
        ),
    ]
    assert coordinator.members() == members
    assert coordinator.threshold() == 3
    assert coordinator.delays() == (ROUTINE_DELAY, GOVERNANCE_DELAY)
    assert coordinator.grace_period() == GRACE
    assert all(coordinator.is_member(member) for member in members)
    assert coordinator.delay_class(target.address, ROUTINE_SELECTOR) == 1
    assert coordinator.delay_class(target.address, bytes(4)) == 0


def test_constructor__deployer__is_no_member(coordinator: Any, deployer: str) -> None:
    assert not coordinator.is_member(deployer)
    with boa.reverts("coordinator: not a member"):
        coordinator.propose(coordinator.address, b"", bytes(32), sender=deployer)


@pytest.mark.parametrize("grace", [0, 90 * DAYS + 1])
def test_constructor__bad_grace_period__reverts(
    coordinator_blueprint: Any, members: list[str], grace: int
) -> None:
    with boa.reverts("coordinator: bad grace period"):
        coordinator_blueprint.deploy(members, 3, 1, 2, grace, [])


@pytest.mark.parametrize("delays", [(2, 1), (0, 90 * DAYS + 1)])
def test_constructor__bad_delays__reverts(
    coordinator_blueprint: Any, members: list[str], delays: tuple[int, int]
) -> None:
    with boa.reverts("coordinator: bad delays"):
        coordinator_blueprint.deploy(members, 3, *delays, 1, [])


def test_constructor__no_members__reverts(coordinator_blueprint: Any) -> None:
    with boa.reverts("coordinator: no members"):
        coordinator_blueprint.deploy([], 0, 1, 2, 1, [])


def test_constructor__zero_member__reverts(coordinator_blueprint: Any, members: list[str]) -> None:
    with boa.reverts("coordinator: bad member"):
        coordinator_blueprint.deploy([members[0], ZERO], 2, 1, 2, 1, [])


def test_constructor__duplicate_member__reverts(
    coordinator_blueprint: Any, members: list[str]
) -> None:
    with boa.reverts("coordinator: duplicate member"):
        coordinator_blueprint.deploy([members[0], members[1], members[0]], 2, 1, 2, 1, [])


@pytest.mark.parametrize("threshold", [0, 1, 2, 6, 2**256 - 1])
def test_constructor__threshold_no_majority_or_too_high__reverts(
    coordinator_blueprint: Any, members: list[str], threshold: int
) -> None:
    with boa.reverts("coordinator: bad threshold"):
        coordinator_blueprint.deploy(members, threshold, 1, 2, 1, [])


def test_constructor__half_of_an_even_committee__reverts(
    coordinator_blueprint: Any, members: list[str]
) -> None:
    with boa.reverts("coordinator: bad threshold"):
        coordinator_blueprint.deploy(members[:4], 2, 1, 2, 1, [])


def test_constructor__sixteen_members__fit(coordinator_blueprint: Any) -> None:
    sixteen = [str(boa.env.generate_address()) for _ in range(16)]
    assert coordinator_blueprint.deploy(sixteen, 9, 0, 0, 1, []).members() == sixteen
