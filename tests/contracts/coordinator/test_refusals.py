# SPDX-License-Identifier: Apache-2.0
"""What the Coordinator refuses to whom, beside an operation that its proposer has approved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import (
    ACCOUNTS,
    CANCELLED,
    EXECUTED,
    EXPIRED,
    MEMBERS,
    ROUTINE_SELECTOR,
    SALT,
    STRANGER,
    end,
    pass_operation,
    sign,
)

FIRST, NOTHING = MEMBERS[0], bytes(32)
Call = Callable[[Any, bytes], Any]

REFUSED: list[tuple[str, str, Call]] = [
    ("propose by a stranger", "not a member", lambda c, op: propose(c, c.address, STRANGER)),
    ("propose to nobody", "zero target", lambda c, op: propose(c, "0x" + "00" * 20, FIRST)),
    ("approve by a stranger", "not a member", lambda c, op: c.approve(op, sender=STRANGER)),
    ("approve twice", "already approved", lambda c, op: c.approve(op, sender=FIRST)),
    ("approve of nothing", "unknown operation", lambda c, op: c.approve(NOTHING, sender=FIRST)),
    ("cancel by a stranger", "not a member", lambda c, op: c.cancel(op, sender=STRANGER)),
    ("cancel of nothing", "unknown operation", lambda c, op: c.cancel(NOTHING, sender=FIRST)),
    ("execute of nothing", "unknown operation", lambda c, op: c.execute(NOTHING)),
    ("signing of nothing", "unknown operation", lambda c, op: c.approve_by_sig(NOTHING, [])),
]


def propose(coordinator: Any, target: str, sender: str) -> None:
    coordinator.propose(target, b"", SALT, sender=sender)


@pytest.mark.parametrize(("what", "reason", "call"), REFUSED, ids=[row[0] for row in REFUSED])
def test_call__is_refused_with_its_reason(
    coordinator: Any, op_id: bytes, what: str, reason: str, call: Call
) -> None:
    with boa.reverts(f"coordinator: {reason}"):
        call(coordinator, op_id)


@pytest.mark.parametrize(
    ("ended", "state"),
    [("executed", EXECUTED), ("cancelled", CANCELLED), ("expired", EXPIRED)],
)
def test_call__on_an_operation_that_has_ended__reverts(
    coordinator: Any, queued: bytes, ended: str, state: int
) -> None:
    signature = sign(ACCOUNTS[4], queued, coordinator)
    end(coordinator, queued, ended)
    assert coordinator.state(queued) == state
    for call in (
        lambda: coordinator.approve(queued, sender=MEMBERS[3]),
        lambda: coordinator.approve_by_sig(queued, [signature]),
        lambda: coordinator.cancel(queued, sender=MEMBERS[4]),
        lambda: coordinator.execute(queued),
    ):
        with boa.reverts(f"coordinator: {ended}"):
            call()


def test_cancel__twice_by_one_member__reverts(coordinator: Any, op_id: bytes) -> None:
    coordinator.cancel(op_id, sender=FIRST)
    with boa.reverts("coordinator: already voted"):
        coordinator.cancel(op_id, sender=FIRST)


@pytest.mark.parametrize("caller", ["member", "deployer", "stranger", "target"])
def test_settings__anyone_but_itself__reverts(
    coordinator: Any, deployer: str, target: Any, caller: str
) -> None:
    people = {"member": FIRST, "deployer": deployer, "stranger": STRANGER, "target": target.address}
    sender = str(people[caller])
    for function, arguments in (
        (coordinator.set_members, ([sender], 1)),
        (coordinator.set_delays, (0, 0)),
        (coordinator.set_delay_class, (target.address, ROUTINE_SELECTOR, 0)),
    ):
        with boa.reverts("coordinator: not self"):
            function(*arguments, sender=sender)


BAD_SETTINGS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("no members", "set_members", ([], 0)),
    *(("bad threshold", "set_members", (MEMBERS, threshold)) for threshold in (2, 6)),
    ("bad threshold", "set_members", (MEMBERS[:4], 2)),
    ("bad member", "set_members", ([*MEMBERS[:2], "0x" + "00" * 20], 2)),
    ("duplicate member", "set_members", ([*MEMBERS[:2], MEMBERS[0]], 2)),
    *(
        ("bad delays", "set_delays", delays)
        for delays in ((7, 6), (0, 90 * 86_400 + 1), (2**256 - 1, 2**256 - 1))
    ),
    ("bad class", "set_delay_class", (STRANGER, ROUTINE_SELECTOR, 2)),
]


@pytest.mark.parametrize(("reason", "function", "arguments"), BAD_SETTINGS)
def test_settings__bad_value__reverts_and_changes_nothing(
    coordinator: Any, reason: str, function: str, arguments: tuple[Any, ...]
) -> None:
    """Also by an operation that the committee has passed."""
    before = coordinator.members(), coordinator.threshold(), coordinator.delays()
    data = getattr(coordinator, function).prepare_calldata(*arguments)
    with boa.reverts(f"coordinator: {reason}"):
        pass_operation(coordinator, MEMBERS, coordinator.address, data)
    assert (coordinator.members(), coordinator.threshold(), coordinator.delays()) == before


def test_settings__itself__is_no_member_and_has_no_routine_calls(coordinator: Any) -> None:
    me = str(coordinator.address)
    for reason, data in (
        ("bad member", coordinator.set_members.prepare_calldata([*MEMBERS[:2], me], 2)),
        ("own calls", coordinator.set_delay_class.prepare_calldata(me, bytes(4), 1)),
    ):
        with boa.reverts(f"coordinator: {reason}"):
            pass_operation(coordinator, MEMBERS, coordinator.address, data)
