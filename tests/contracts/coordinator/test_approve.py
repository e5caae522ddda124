# SPDX-License-Identifier: Apache-2.0
"""`approve` counts members once each; the quorum starts the delay of the call's class."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import committee
from tests.stage.contracts.committee import MEMBERS, PROPOSED, QUEUED, propose_and_approve
from tests.stage.contracts.events import event, logged


def test_approve__below_quorum__waits(coordinator: Any, op_id: bytes) -> None:
    coordinator.approve(op_id, sender=MEMBERS[1])
    assert logged(coordinator) == [
        event("OperationApproved", op_id=op_id, member=MEMBERS[1], approvals=2)
    ]
    assert coordinator.state(op_id) == PROPOSED
    assert coordinator.operation(op_id).eta == 0


def test_approve__quorum_of_a_routine_call__queues_with_the_short_delay(
    coordinator: Any, op_id: bytes
) -> None:
    coordinator.approve(op_id, sender=MEMBERS[1])
    coordinator.approve(op_id, sender=MEMBERS[2])
    eta = boa.env.timestamp + committee.ROUTINE_DELAY
    assert logged(coordinator) == [
        event("OperationApproved", op_id=op_id, member=MEMBERS[2], approvals=3),
        event("OperationQueued", op_id=op_id, eta=eta),
    ]
    assert coordinator.operation(op_id).eta == eta
    assert coordinator.state(op_id) == QUEUED


@pytest.mark.parametrize("case", ["empty", "short", "other selector", "other target"])
def test_approve__call_not_listed_routine__waits_the_long_delay(
    coordinator: Any, target: Any, store_call: bytes, case: str
) -> None:
    to = coordinator.address if case == "other target" else target.address
    data = {"empty": b"", "short": b"\x60\x57\x36", "other selector": bytes.fromhex("a9cca3f9")}
    op_id = propose_and_approve(coordinator, to, data.get(case, store_call))
    assert coordinator.operation(op_id).eta == boa.env.timestamp + committee.GOVERNANCE_DELAY


def test_approve__beyond_quorum__keeps_the_eta(coordinator: Any, queued: bytes) -> None:
    eta = coordinator.operation(queued).eta
    boa.env.time_travel(seconds=10)
    coordinator.approve(queued, sender=MEMBERS[3])
    assert logged(coordinator) == [
        event("OperationApproved", op_id=queued, member=MEMBERS[3], approvals=4)
    ]
    assert coordinator.operation(queued).eta == eta
