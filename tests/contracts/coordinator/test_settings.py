# SPDX-License-Identifier: Apache-2.0
"""Members, delays and classes change only through an operation of the coordinator on itself."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import (
    GOVERNANCE_DELAY,
    MEMBERS,
    ROUTINE_DELAY,
    ROUTINE_SELECTOR,
    SALT,
    STRANGER,
    pass_operation,
    propose_and_approve,
)
from tests.stage.contracts.events import event, logged

ZERO = "0x" + "00" * 20


def test_set_members__by_operation__replaces_the_committee(coordinator: Any) -> None:
    new = [STRANGER, MEMBERS[0], MEMBERS[4]]
    data = coordinator.set_members.prepare_calldata(new, 2)
    op_id = pass_operation(coordinator, MEMBERS, coordinator.address, data)
    assert logged(coordinator) == [
        event(
            "MembersChanged", old_members=MEMBERS, new_members=new, old_threshold=3, new_threshold=2
        ),
        event("OperationExecuted", op_id=op_id, executor=str(boa.env.eoa), result=b""),
    ]
    assert coordinator.members() == new
    assert coordinator.threshold() == 2
    assert [coordinator.is_member(member) for member in MEMBERS] == [
        True,
        False,
        False,
        False,
        True,
    ]
    with boa.reverts("coordinator: not a member"):
        coordinator.propose(STRANGER, b"", SALT, sender=MEMBERS[1])


def test_set_members__always_governance_delay(coordinator: Any) -> None:
    data = coordinator.set_members.prepare_calldata(MEMBERS[:3], 2)
    op_id = propose_and_approve(coordinator, coordinator.address, data)
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
    coordinator: Any, count: int, threshold: int, reason: str
) -> None:
    data = coordinator.set_members.prepare_calldata(MEMBERS[:count], threshold)
    with boa.reverts(reason):
        pass_operation(coordinator, MEMBERS, coordinator.address, data)
    assert coordinator.members() == MEMBERS
    assert coordinator.threshold() == 3


@pytest.mark.parametrize("kind", ["zero", "itself", "twice"])
def test_set_members__bad_member__reverts(coordinator: Any, kind: str) -> None:
    extra = {"zero": ZERO, "itself": str(coordinator.address), "twice": MEMBERS[0]}[kind]
    reason = "duplicate member" if kind == "twice" else "bad member"
    data = coordinator.set_members.prepare_calldata([*MEMBERS[:2], extra], 2)
    with boa.reverts(f"coordinator: {reason}"):
        pass_operation(coordinator, MEMBERS, coordinator.address, data)
    assert all(coordinator.is_member(member) for member in MEMBERS)


def test_set_delays__by_operation__changes_both(coordinator: Any) -> None:
    data = coordinator.set_delays.prepare_calldata(5, 6)
    pass_operation(coordinator, MEMBERS, coordinator.address, data)
    assert logged(coordinator)[0] == event(
        "DelaysChanged",
        old_routine=ROUTINE_DELAY,
        old_governance=GOVERNANCE_DELAY,
        new_routine=5,
        new_governance=6,
    )
    assert coordinator.delays() == (5, 6)


@pytest.mark.parametrize("delays", [(7, 6), (0, 90 * 86_400 + 1), (2**256 - 1, 2**256 - 1)])
def test_set_delays__out_of_bounds__reverts(coordinator: Any, delays: tuple[int, int]) -> None:
    data = coordinator.set_delays.prepare_calldata(*delays)
    with boa.reverts("coordinator: bad delays"):
        pass_operation(coordinator, MEMBERS, coordinator.address, data)


def test_set_delay_class__by_operation__changes_one_function(coordinator: Any, target: Any) -> None:
    data = coordinator.set_delay_class.prepare_calldata(target.address, ROUTINE_SELECTOR, 0)
    pass_operation(coordinator, MEMBERS, coordinator.address, data)
    assert logged(coordinator)[0] == event(
        "DelayClassChanged",
        target=target.address,
        selector=ROUTINE_SELECTOR,
        old_class=1,
        new_class=0,
    )
    assert coordinator.delay_class(target.address, ROUTINE_SELECTOR) == 0


def test_set_delay_class__unknown_class__reverts(coordinator: Any, target: Any) -> None:
    data = coordinator.set_delay_class.prepare_calldata(target.address, ROUTINE_SELECTOR, 2)
    with boa.reverts("coordinator: bad class"):
        pass_operation(coordinator, MEMBERS, coordinator.address, data)


def test_set_delay_class__own_functions__stay_governance(coordinator: Any) -> None:
    data = coordinator.set_delay_class.prepare_calldata(coordinator.address, bytes(4), 1)
    with boa.reverts("coordinator: own calls"):
        pass_operation(coordinator, MEMBERS, coordinator.address, data)
