# SPDX-License-Identifier: Apache-2.0
"""`approve` counts members once each; the quorum starts the delay of the call's class."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import (
    GOVERNANCE_DELAY,
    GRACE,
    PROPOSED,
    QUEUED,
    ROUTINE_DELAY,
    SALT,
)
from tests.stage.contracts.events import logged


def test_approve__below_quorum__waits(coordinator: Any, op_id: bytes, members: list[str]) -> None:
    coordinator.approve(op_id, sender=members[1])
    assert logged(coordinator) == [
        ("OperationApproved", {"op_id": op_id, "member": members[1], "approvals": 2})
    ]
    assert coordinator.state(op_id) == PROPOSED
    assert coordinator.operation(op_id).eta == 0


def test_approve__quorum_of_a_routine_call__queues_with_the_short_delay(
    coordinator: Any, op_id: bytes, members: list[str]
) -> None:
    coordinator.approve(op_id, sender=members[1])
    coordinator.approve(op_id, sender=members[2])
    eta = boa.env.timestamp + ROUTINE_DELAY
    assert logged(coordinator) == [
        ("OperationApproved", {"op_id": op_id, "member": members[2], "approvals": 3}),
        ("OperationQueued", {"op_id": op_id, "eta": eta}),
    ]
    assert coordinator.operation(op_id).eta == eta
    assert coordinator.state(op_id) == QUEUED


@pytest.mark.parametrize(
    "data", [b"", b"\x60\x57\x36", bytes.fromhex("a9cca3f9")], ids=["empty", "short", "other"]
)
def test_approve__call_not_listed_routine__waits_the_long_delay(
    coordinator: Any, target: Any, members: list[str], data: bytes
) -> None:
    op_id = coordinator.propose(target.address, data, SALT, sender=members[0])
    coordinator.approve(op_id, sender=members[1])
    coordinator.approve(op_id, sender=members[2])
    assert coordinator.operation(op_id).eta == boa.env.timestamp + GOVERNANCE_DELAY


def test_approve__routine_selector_of_another_target__waits_the_long_delay(
    coordinator: Any, store_call: bytes, members: list[str]
) -> None:
    op_id = coordinator.propose(coordinator.address, store_call, SALT, sender=members[0])
    coordinator.approve(op_id, sender=members[1])
    coordinator.approve(op_id, sender=members[2])
    assert coordinator.operation(op_id).eta == boa.env.timestamp + GOVERNANCE_DELAY


def test_approve__beyond_quorum__keeps_the_eta(
    coordinator: Any, queued: bytes, members: list[str]
) -> None:
    eta = coordinator.operation(queued).eta
    boa.env.time_travel(seconds=10)
    coordinator.approve(queued, sender=members[3])
    assert logged(coordinator) == [
        ("OperationApproved", {"op_id": queued, "member": members[3], "approvals": 4})
    ]
    assert coordinator.operation(queued).eta == eta


def test_approve__stranger__reverts(coordinator: Any, op_id: bytes, stranger: str) -> None:
    with boa.reverts("coordinator: not a member"):
        coordinator.approve(op_id, sender=stranger)


def test_approve__twice__reverts(coordinator: Any, op_id: bytes, members: list[str]) -> None:
    with boa.reverts("coordinator: already approved"):
        coordinator.approve(op_id, sender=members[0])


def test_approve__unknown_operation__reverts(coordinator: Any, members: list[str]) -> None:
    with boa.reverts("coordinator: unknown operation"):
        coordinator.approve(bytes(32), sender=members[0])


def test_approve__executed__reverts(coordinator: Any, queued: bytes, members: list[str]) -> None:
    boa.env.time_travel(seconds=ROUTINE_DELAY)
    coordinator.execute(queued)
    with boa.reverts("coordinator: executed"):
        coordinator.approve(queued, sender=members[3])


def test_approve__cancelled__reverts(coordinator: Any, queued: bytes, members: list[str]) -> None:
    for member in members[:3]:
        coordinator.cancel(queued, sender=member)
    with boa.reverts("coordinator: cancelled"):
        coordinator.approve(queued, sender=members[3])


def test_approve__expired__reverts(coordinator: Any, queued: bytes, members: list[str]) -> None:
    boa.env.time_travel(seconds=ROUTINE_DELAY + GRACE)
    with boa.reverts("coordinator: expired"):
        coordinator.approve(queued, sender=members[3])
