# SPDX-License-Identifier: Apache-2.0
"""`execute` makes a queued call once, after its delay, within its grace, with m approvals."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import (
    EXECUTED,
    GOVERNANCE_DELAY,
    GRACE,
    MEMBERS,
    QUEUED,
    ROUTINE_DELAY,
    STRANGER,
    pass_operation,
    propose_and_approve,
)
from tests.stage.contracts.events import event, logged


def test_execute__stranger_at_eta__calls_and_logs(
    coordinator: Any, queued: bytes, target: Any
) -> None:
    boa.env.time_travel(seconds=ROUTINE_DELAY)
    result = coordinator.execute(queued, sender=STRANGER)
    assert result == (8).to_bytes(32, "big")
    assert logged(coordinator) == [
        event("OperationExecuted", op_id=queued, executor=STRANGER, result=result)
    ]
    assert target.stored() == 7
    assert coordinator.operation(queued).executed
    assert coordinator.state(queued) == EXECUTED


def test_execute__one_second_early__reverts(coordinator: Any, queued: bytes) -> None:
    boa.env.time_travel(seconds=ROUTINE_DELAY - 1)
    with boa.reverts("coordinator: too early"):
        coordinator.execute(queued)


def test_execute__last_second_of_grace__works(coordinator: Any, queued: bytes) -> None:
    boa.env.time_travel(seconds=ROUTINE_DELAY + GRACE - 1)
    assert coordinator.state(queued) == QUEUED
    coordinator.execute(queued)


def test_execute__below_quorum__reverts(coordinator: Any, op_id: bytes) -> None:
    coordinator.approve(op_id, sender=MEMBERS[1])
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    with boa.reverts("coordinator: not queued"):
        coordinator.execute(op_id)


def test_execute__target_without_code__reverts(coordinator: Any) -> None:
    op_id = propose_and_approve(coordinator, STRANGER, b"")
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    with boa.reverts("coordinator: no code at target"):
        coordinator.execute(op_id)


def test_execute__target_reverts__passes_the_reason_on_and_stays_queued(
    coordinator: Any, target: Any
) -> None:
    op_id = propose_and_approve(coordinator, target.address, target.fail.prepare_calldata())
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    with boa.reverts("target: refused"):
        coordinator.execute(op_id)
    assert coordinator.state(op_id) == QUEUED


def test_execute__long_result__is_cut_at_256_bytes(coordinator: Any, target: Any) -> None:
    data = target.many_words.prepare_calldata()
    op_id = propose_and_approve(coordinator, target.address, data)
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    assert coordinator.execute(op_id) == b"".join(i.to_bytes(32, "big") for i in range(1, 9))


def test_execute__call_without_selector__reaches_the_default_function(
    coordinator: Any, target: Any
) -> None:
    op_id = propose_and_approve(coordinator, target.address, b"\x01")
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    assert coordinator.execute(op_id) == b""
    assert target.stored() == 99


def test_execute__target_executes_another_operation__reverts(
    coordinator: Any, target: Any, queued: bytes
) -> None:
    data = target.execute_again.prepare_calldata(queued)
    op_id = propose_and_approve(coordinator, target.address, data, bytes(32))
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    with boa.reverts():
        coordinator.execute(op_id)
    assert target.stored() == 0
    coordinator.execute(queued)


def test_execute__target_executes_its_own_operation__reverts(coordinator: Any) -> None:
    """A target that was built to call back with the very operation that calls it."""
    source = """
# pragma version ~=0.4.3
op_id: public(bytes32)
calls: public(uint256)

interface Coordinator:
    def execute(op_id: bytes32) -> Bytes[256]: nonpayable

@external
def set(op_id: bytes32):
    self.op_id = op_id

@external
def strike():
    self.calls += 1
    if self.calls < 3:
        extcall Coordinator(msg.sender).execute(self.op_id)
"""
    striker = boa.loads(source)
    data = striker.strike.prepare_calldata()
    op_id = propose_and_approve(coordinator, striker.address, data)
    striker.set(op_id)
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    with boa.reverts():
        coordinator.execute(op_id)
    assert striker.calls() == 0


def test_execute__target_asks_who_is_member__is_answered(coordinator: Any, target: Any) -> None:
    data = target.ask.prepare_calldata(MEMBERS[4])
    op_id = propose_and_approve(coordinator, target.address, data)
    boa.env.time_travel(seconds=GOVERNANCE_DELAY)
    coordinator.execute(op_id)
    assert target.answer()


def test_execute__treasury__moves_by_operation_only(coordinator: Any, zoo_blueprint: Any) -> None:
    zoo = zoo_blueprint.deploy(coordinator.address, 1_000)
    with boa.reverts("erc20: insufficient allowance"):
        zoo.transferFrom(coordinator.address, STRANGER, 1, sender=STRANGER)
    data = zoo.transfer.prepare_calldata(STRANGER, 400)
    op_id = pass_operation(coordinator, MEMBERS, zoo.address, data)
    assert coordinator.state(op_id) == EXECUTED
    assert zoo.balanceOf(STRANGER) == 400
    assert zoo.balanceOf(coordinator.address) == 600


@pytest.mark.parametrize("delay_change", [(ROUTINE_DELAY, 2 * GOVERNANCE_DELAY), (0, 1)])
def test_execute__delays_changed_meanwhile__queued_operation_keeps_its_eta(
    coordinator: Any, target: Any, delay_change: tuple[int, int]
) -> None:
    change = coordinator.set_delays.prepare_calldata(*delay_change)
    first = propose_and_approve(coordinator, coordinator.address, change)
    boa.env.time_travel(seconds=10)
    data = target.fail.prepare_calldata()
    second = propose_and_approve(coordinator, target.address, data)
    eta = coordinator.operation(second).eta
    boa.env.time_travel(seconds=GOVERNANCE_DELAY - 10)
    coordinator.execute(first)
    assert coordinator.delays() == delay_change
    assert coordinator.operation(second).eta == eta
    with boa.reverts("coordinator: too early"):
        coordinator.execute(second)
