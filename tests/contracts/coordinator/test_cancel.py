# SPDX-License-Identifier: Apache-2.0
"""`cancel` stops an operation once fewer than m members are left without a vote against it."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.committee import (
    CANCELLED,
    GRACE,
    PROPOSED,
    QUEUED,
    ROUTINE_DELAY,
    SALT,
    pass_operation,
)
from tests.stage.contracts.events import logged


def test_cancel__two_of_five__is_not_enough(
    coordinator: Any, queued: bytes, members: list[str]
) -> None:
    for votes, member in enumerate(members[3:], start=1):
        coordinator.cancel(queued, sender=member)
        assert logged(coordinator) == [
            ("CancelVoted", {"op_id": queued, "member": member, "votes": votes})
        ]
    assert coordinator.cancel_votes(queued) == 2
    assert coordinator.state(queued) == QUEUED
    boa.env.time_travel(seconds=ROUTINE_DELAY)
    coordinator.execute(queued)


def test_cancel__third_of_five__cancels_for_good(
    coordinator: Any, queued: bytes, members: list[str]
) -> None:
    for member in members[2:4]:
        coordinator.cancel(queued, sender=member)
    coordinator.cancel(queued, sender=members[4])
    assert logged(coordinator) == [
        ("CancelVoted", {"op_id": queued, "member": members[4], "votes": 3}),
        ("OperationCancelled", {"op_id": queued}),
    ]
    assert coordinator.operation(queued).cancelled
    assert coordinator.state(queued) == CANCELLED


def test_cancel__proposed_operation__works_too(
    coordinator: Any, op_id: bytes, members: list[str]
) -> None:
    assert coordinator.state(op_id) == PROPOSED
    for member in members[:3]:
        coordinator.cancel(op_id, sender=member)
    assert coordinator.state(op_id) == CANCELLED


def test_cancel__votes_made_enough_by_a_smaller_committee__stop_it(
    coordinator: Any, queued: bytes, members: list[str]
) -> None:
    """Two votes of five don't cancel; two of the four that are left (3 of 4 needed) do."""
    for member in members[:2]:
        coordinator.cancel(queued, sender=member)
    change = coordinator.set_members.prepare_calldata(members[:4], 3)
    pass_operation(coordinator, members, coordinator.address, change, salt=bytes(32))
    assert coordinator.state(queued) == CANCELLED
    with boa.reverts("coordinator: cancelled"):
        coordinator.execute(queued)


def test_cancel__removed_members_vote__does_not_count(
    coordinator: Any, queued: bytes, members: list[str], stranger: str
) -> None:
    for member in members[3:]:
        coordinator.cancel(queued, sender=member)
    change = coordinator.set_members.prepare_calldata([*members[:4], stranger], 3)
    pass_operation(coordinator, members, coordinator.address, change, salt=bytes(32))
    assert coordinator.cancel_votes(queued) == 1
    coordinator.cancel(queued, sender=stranger)
    assert coordinator.state(queued) == QUEUED
    coordinator.cancel(queued, sender=members[0])
    assert coordinator.state(queued) == CANCELLED


def test_cancel__stranger__reverts(coordinator: Any, op_id: bytes, stranger: str) -> None:
    with boa.reverts("coordinator: not a member"):
        coordinator.cancel(op_id, sender=stranger)


def test_cancel__twice__reverts(coordinator: Any, op_id: bytes, members: list[str]) -> None:
    coordinator.cancel(op_id, sender=members[0])
    with boa.reverts("coordinator: already voted"):
        coordinator.cancel(op_id, sender=members[0])


def test_cancel__unknown_executed_cancelled_or_expired__reverts(
    coordinator: Any, queued: bytes, target: Any, members: list[str]
) -> None:
    with boa.reverts("coordinator: unknown operation"):
        coordinator.cancel(bytes(32), sender=members[0])
    late = bytes(coordinator.propose(target.address, b"", SALT, sender=members[0]))
    gone = bytes(coordinator.propose(target.address, b"", bytes(32), sender=members[0]))
    for member in members[1:3]:
        coordinator.approve(late, sender=member)
    for member in members[:3]:
        coordinator.cancel(gone, sender=member)
    with boa.reverts("coordinator: cancelled"):
        coordinator.cancel(gone, sender=members[4])
    boa.env.time_travel(seconds=ROUTINE_DELAY)
    coordinator.execute(queued)
    with boa.reverts("coordinator: executed"):
        coordinator.cancel(queued, sender=members[0])
    boa.env.time_travel(seconds=coordinator.operation(late).eta + GRACE - boa.env.timestamp)
    with boa.reverts("coordinator: expired"):
        coordinator.cancel(late, sender=members[0])
