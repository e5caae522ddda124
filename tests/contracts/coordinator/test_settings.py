# SPDX-License-Identifier: Apache-2.0
"""Members, delays and classes change only through an operation of the coordinator on itself."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import (
    GOVERNANCE_DELAY,
    ROUTINE_DELAY,
    ROUTINE_SELECTOR,
    SALT,
    pass_operation,
)
from tests.stage.contracts.events import logged

ZERO = "0x" + "00" * 20


@pytest.mark.parametrize("caller", ["member", "deployer", "stranger", "target"])
def test_settings__anyone_but_itself__reverts(
    coordinator: Any,
    members: list[str],
    deployer: str,
    stranger: str,
    target: Any,
    caller: str,
) -> None:
    sender = {
        "member": members[0],
        "deployer": deployer,
        "stranger": stranger,
        "target": str(target.address),
    }[caller]
    with boa.reverts("coordinator: not self"):
        coordinator.set_members([sender], 1, sender=sender)
    with boa.reverts("coordinator: not self"):
        coordinator.set_delays(0, 0, sender=sender)
    with boa.reverts("coordinator: not self"):
        coordinator.set_delay_class(target.address, ROUTINE_SELECTOR, 0, sender=sender)


def test_set_members__by_operation__replaces_the_committee(
    coordinator: Any, members: list[str], stranger: str
) -> None:
    new = [stranger, members[0], members[4]]
    data = coordinator.set_members.prepare_calldata(new, 2)
    op_id = pass_operation(coordinator, members, coordinator.address, data)
    assert logged(coordinator) == [
        (
            "MembersChanged",
            {
                "old_members": members,
                "new_members": new,
                "old_threshold": 3,
                "new_threshold": 2,
            },
        ),
        (
            "OperationExecuted",
            {"op_id": op_id, "executor": str(boa.env.eoa), "result": b""},
        ),
    ]
    assert coordinator.members() == new
    assert coordinator.threshold() == 2
    assert [coordinator.is_member(member) for member in members] == [
        True,
        False,
        False,
        False,
        True,
    ]
    with boa.reverts("coordinator: not a member"):
        coordinator.propose(stranger, b"", SALT, sender=members[1])


def test_set_members__always_governance_delay(coordinator: Any, members: list[str]) -> None:
    data = coordinator.set_members.prepare_calldata(members[:3], 2)
    op_id = coordinator.propose(coordinator.address, data, SALT, sender=members[0])
    for member in members[1:3]:
        coordinator.approve(op_id, sender=member)
    assert coordinator.operation(op_id).eta == boa.env.timestamp + GOVERNANCE_DELAY


@pytest.mark.parametrize(
    ("count", "threshold", "reason"),
    [
        (0, 0, "coordinator: no members"),
        (5, 2, "coordinator: bad threshold"),
        (5, 6, "coordinator: bad threshold"),
        (4, 2, "coordinator: bad threshold"),
    ],
)
def test_set_members__bad_committee__reverts_and_changes_nothing(
    coordinator: Any, members: list[str], count: int, threshold: int, reason: str
) -> None:
    data = coordinator.set_members.prepare_calldata(members[:count], threshold)
    with boa.reverts(reason):
        pass_operation(coordinator, members, coordinator.address, data)
    assert coordinator.members() == members
    assert coordinator.threshold() == 3


@pytest.mark.parametrize("kind", ["zero", "itself", "twice"])
def test_set_members__bad_member__reverts(coordinator: Any, members: list[str], kind: str) -> None:
    extra = {"zero": ZERO, "itself": str(coordinator.address), "twice": members[0]}[kind]
    reason = "duplicate member" if kind == "twice" else "bad member"
    data = coordinator.set_members.prepare_calldata([*members[:2], extra], 2)
    with boa.reverts(f"coordinator: {reason}"):
        pass_operation(coordinator, members, coordinator.address, data)
    assert all(coordinator.is_member(member) for member in members)


def test_set_delays__by_operation__changes_both(coordinator: Any, members: list[str]) -> None:
    data = coordinator.set_delays.prepare_calldata(5, 6)
    pass_operation(coordinator, members, coordinator.address, data)
    assert logged(coordinator)[0] == (
        "DelaysChanged",
        {
            "old_routine": ROUTINE_DELAY,
            "old_governance": GOVERNANCE_DELAY,
            "new_routine": 5,
            "new_governance": 6,
        },
    )
    assert coordinator.delays() == (5, 6)


@pytest.mark.parametrize("delays", [(7, 6), (0, 90 * 86_400 + 1), (2**256 - 1, 2**256 - 1)])
def test_set_delays__out_of_bounds__reverts(
    coordinator: Any, members: list[str], delays: tuple[int, int]
) -> None:
    data = coordinator.set_delays.prepare_calldata(*delays)
    with boa.reverts("coordinator: bad delays"):
        pass_operation(coordinator, members, coordinator.address, data)


def test_set_delay_class__by_operation__changes_one_function(
    coordinator: Any, target: Any, members: list[str]
) -> None:
    data = coordinator.set_delay_class.prepare_calldata(target.address, ROUTINE_SELECTOR, 0)
    pass_operation(coordinator, members, coordinator.address, data)
    assert logged(coordinator)[0] == (
        "DelayClassChanged",
        {
            "target": target.address,
            "selector": ROUTINE_SELECTOR,
            "old_class": 1,
            "new_class": 0,
        },
    )
    assert coordinator.delay_class(target.address, ROUTINE_SELECTOR) == 0


def test_set_delay_class__unknown_class__reverts(
    coordinator: Any, target: Any, members: list[str]
) -> None:
    data = coordinator.set_delay_class.prepare_calldata(target.address, ROUTINE_SELECTOR, 2)
    with boa.reverts("coordinator: bad class"):
        pass_operation(coordinator, members, coordinator.address, data)


def test_set_delay_class__own_functions__stay_governance(
    coordinator: Any, coordinator_blueprint: Any, members: list[str]
) -> None:
    data = coordinator.set_delay_class.prepare_calldata(coordinator.address, bytes(4), 1)
    with boa.reverts("coordinator: own calls"):
        pass_operation(coordinator, members, coordinator.address, data)
