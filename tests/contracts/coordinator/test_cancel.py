# SPDX-License-Identifier: Apache-2.0
"""`cancel` stops an operation once fewer than m members are left without a vote against it."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts import committee
from tests.stage.contracts.committee import MEMBERS, STRANGER, pass_operation
from tests.stage.contracts.events import event, logged


def test_cancel__two_of_five__is_not_enough(coordinator: Any, queued: bytes) -> None:
    for votes, member in enumerate(MEMBERS[3:], start=1):
        coordinator.cancel(queued, sender=member)
        assert logged(coordinator) == [
            event("CancelVoted", op_id=queued, member=member, votes=votes)
        ]
    assert coordinator.cancel_votes(queued) == 2
    assert coordinator.state(queued) == committee.QUEUED
    boa.env.time_travel(seconds=committee.ROUTINE_DELAY)
    coordinator.execute(queued)


def test_cancel__third_of_five__cancels_for_good(coordinator: Any, queued: bytes) -> None:
    for member in MEMBERS[2:4]:
        coordinator.cancel(queued, sender=member)
    coordinator.cancel(queued, sender=MEMBERS[4])
    assert logged(coordinator) == [
        event("CancelVoted", op_id=queued, member=MEMBERS[4], votes=3),
        event("OperationCancelled", op_id=queued),
    ]
    assert coordinator.operation(queued).cancelled
    assert coordinator.state(queued) == committee.CANCELLED


def test_cancel__proposed_operation__works_too(coordinator: Any, op_id: bytes) -> None:
    assert coordinator.state(op_id) == committee.PROPOSED
    for member in MEMBERS[:3]:
        coordinator.cancel(op_id, sender=member)
    assert coordinator.state(op_id) == committee.CANCELLED


def test_cancel__votes_made_enough_by_a_smaller_committee__stop_it(
    coordinator: Any, queued: bytes
) -> None:
    """Two votes of five don't cancel; two of the four that are left (3 of 4 needed) do."""
    for member in MEMBERS[:2]:
        coordinator.cancel(queued, sender=member)
    change = coordinator.set_members.prepare_calldata(MEMBERS[:4], 3)
    pass_operation(coordinator, MEMBERS, coordinator.address, change, salt=bytes(32))
    assert coordinator.state(queued) == committee.CANCELLED
    with boa.reverts("coordinator: cancelled"):
        coordinator.execute(queued)


def test_cancel__removed_members_vote__does_not_count(coordinator: Any, queued: bytes) -> None:
    for member in MEMBERS[3:]:
        coordinator.cancel(queued, sender=member)
    change = coordinator.set_members.prepare_calldata([*MEMBERS[:4], STRANGER], 3)
    pass_operation(coordinator, MEMBERS, coordinator.address, change, salt=bytes(32))
    assert coordinator.cancel_votes(queued) == 1
    coordinator.cancel(queued, sender=STRANGER)
    assert coordinator.state(queued) == committee.QUEUED
    coordinator.cancel(queued, sender=MEMBERS[0])
    assert coordinator.state(queued) == committee.CANCELLED
