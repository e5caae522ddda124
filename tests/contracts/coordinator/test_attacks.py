# SPDX-License-Identifier: Apache-2.0
"""Ways to move the treasury, or hold a seat, without the quorum. None works."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import committee
from tests.stage.contracts.committee import ACCOUNTS, MEMBERS, SALT, STRANGER, pass_operation, sign
from tests.stage.contracts.events import event, logged

SUPPLY = 1_000


@pytest.fixture
def zoo(coordinator: Any, zoo_blueprint: Any) -> Any:
    return zoo_blueprint.deploy(coordinator.address, SUPPLY)


def test_attack__no_signatures_at_all__moves_nothing(coordinator: Any, zoo: Any) -> None:
    """The known multisig flaw: an absent approval, stored as zero, compares as one given.

    One rogue member proposes the theft, and it is pushed with empty signature lists, by anybody,
    now and at every later moment, on this operation and on ids that were never proposed."""
    theft = zoo.transfer.prepare_calldata(STRANGER, SUPPLY)
    op_id = bytes(coordinator.propose(zoo.address, theft, SALT, sender=MEMBERS[0]))
    never_proposed = coordinator.operation_id(zoo.address, theft, bytes(32))
    for _ in range(4):
        for sender in (STRANGER, MEMBERS[0]):
            coordinator.approve_by_sig(op_id, [], sender=sender)
            assert logged(coordinator) == []
            with boa.reverts("coordinator: not queued"):
                coordinator.execute(op_id, sender=sender)
            for unknown in (never_proposed, bytes(32)):
                with boa.reverts("coordinator: unknown operation"):
                    coordinator.approve_by_sig(unknown, [], sender=sender)
                with boa.reverts("coordinator: unknown operation"):
                    coordinator.execute(unknown, sender=sender)
        boa.env.time_travel(seconds=committee.GOVERNANCE_DELAY + committee.GRACE)
    assert coordinator.approvals(op_id) == 1
    assert coordinator.state(op_id) == committee.PROPOSED
    assert zoo.balanceOf(coordinator.address) == SUPPLY
    assert zoo.balanceOf(STRANGER) == 0


def test_attack__zero_address_and_members_to_be__never_count(
    coordinator: Any, op_id: bytes
) -> None:
    for account in ("0x" + "00" * 20, STRANGER, str(coordinator.address), MEMBERS[1]):
        assert not coordinator.has_approved(op_id, account)
    assert coordinator.approvals(op_id) == 1
    change = coordinator.set_members.prepare_calldata([STRANGER, *MEMBERS[1:]], 3)
    pass_operation(coordinator, MEMBERS, coordinator.address, change)
    assert coordinator.approvals(op_id) == 0


def test_attack__minority_signs_many_times__moves_nothing(coordinator: Any, zoo: Any) -> None:
    """Two of five approve on chain, by signature, in several calls: still two."""
    theft = zoo.transfer.prepare_calldata(STRANGER, SUPPLY)
    op_id = bytes(coordinator.propose(zoo.address, theft, SALT, sender=MEMBERS[0]))
    coordinator.approve(op_id, sender=MEMBERS[1])
    signatures = [sign(account, op_id, coordinator) for account in ACCOUNTS[:2]]
    for batch in (signatures, signatures[:1], signatures[1:]):
        coordinator.approve_by_sig(op_id, batch, sender=STRANGER)
    boa.env.time_travel(seconds=committee.GOVERNANCE_DELAY)
    assert coordinator.approvals(op_id) == 2
    with boa.reverts("coordinator: not queued"):
        coordinator.execute(op_id)
    assert zoo.balanceOf(coordinator.address) == SUPPLY


def test_attack__approvals_of_removed_members__no_longer_count(
    coordinator: Any, queued: bytes, target: Any
) -> None:
    """Queued by members 0, 1, 2; 0 is voted out before the eta: the operation is stuck until a
    current member approves, and then it waits its whole delay again."""
    boa.env.time_travel(seconds=1)
    change = coordinator.set_members.prepare_calldata([*MEMBERS[1:], STRANGER], 3)
    pass_operation(coordinator, MEMBERS[1:], coordinator.address, change)
    assert boa.env.timestamp > coordinator.operation(queued).eta
    assert coordinator.approvals(queued) == 2
    with boa.reverts("coordinator: approvals"):
        coordinator.execute(queued)
    with boa.reverts("coordinator: not a member"):
        coordinator.approve(queued, sender=MEMBERS[0])

    coordinator.approve(queued, sender=STRANGER)
    eta = boa.env.timestamp + committee.ROUTINE_DELAY
    assert logged(coordinator) == [
        event("OperationApproved", op_id=queued, member=STRANGER, approvals=3),
        event("OperationQueued", op_id=queued, eta=eta),
    ]
    with boa.reverts("coordinator: too early"):
        coordinator.execute(queued)
    boa.env.time_travel(seconds=committee.ROUTINE_DELAY)
    coordinator.execute(queued)
    assert target.stored() == 7


def test_attack__raised_threshold__stops_what_the_old_one_queued(
    coordinator: Any, queued: bytes
) -> None:
    change = coordinator.set_members.prepare_calldata(MEMBERS, 4)
    pass_operation(coordinator, MEMBERS, coordinator.address, change)
    with boa.reverts("coordinator: approvals"):
        coordinator.execute(queued)
    coordinator.approve(queued, sender=MEMBERS[3])
    assert coordinator.operation(queued).eta == boa.env.timestamp + committee.ROUTINE_DELAY


def test_lowered_threshold__lets_anyone_start_the_delay(coordinator: Any, op_id: bytes) -> None:
    coordinator.approve(op_id, sender=MEMBERS[1])
    change = coordinator.set_members.prepare_calldata(MEMBERS[:3], 2)
    pass_operation(coordinator, MEMBERS, coordinator.address, change)
    assert coordinator.state(op_id) == committee.PROPOSED
    coordinator.approve_by_sig(op_id, [], sender=STRANGER)
    assert coordinator.state(op_id) == committee.QUEUED
    assert coordinator.operation(op_id).eta == boa.env.timestamp + committee.ROUTINE_DELAY


def test_attack__member_restarts_nobodys_delay(coordinator: Any, queued: bytes) -> None:
    """While the quorum holds, neither late approvals nor empty relays move the eta."""
    eta = coordinator.operation(queued).eta
    boa.env.time_travel(seconds=committee.ROUTINE_DELAY - 1)
    coordinator.approve(queued, sender=MEMBERS[3])
    coordinator.approve_by_sig(queued, [], sender=STRANGER)
    assert coordinator.operation(queued).eta == eta
