# SPDX-License-Identifier: Apache-2.0
"""What the Coordinator refuses to whom, beside an operation that its proposer has approved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import MEMBERS, ROUTINE_SELECTOR, SALT, STRANGER

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
]


def propose(coordinator: Any, target: str, sender: str) -> None:
    coordinator.propose(target, b"", SALT, sender=sender)


@pytest.mark.parametrize(("what", "reason", "call"), REFUSED, ids=[row[0] for row in REFUSED])
def test_call__is_refused_with_its_reason(
    coordinator: Any, op_id: bytes, what: str, reason: str, call: Call
) -> None:
    with boa.reverts(f"coordinator: {reason}"):
        call(coordinator, op_id)


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
