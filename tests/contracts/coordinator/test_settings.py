# SPDX-License-Identifier: Apache-2.0
"""Members, delays and classes change only through an operation of the coordinator on itself."""

from __future__ import annotations

from typing import Any

import boa

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
