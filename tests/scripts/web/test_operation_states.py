# SPDX-License-Identifier: Apache-2.0
"""The page calls an operation what the contract would, to the second and to the vote."""

from __future__ import annotations

from typing import Any

import pytest

from scripts._web.index.queries.about_operations import _operation

MEMBERS = ["0xa", "0xb", "0xc"]
ETA, GRACE = 1_000, 600


def row(**changed: Any) -> dict[str, Any]:
    whole = {
        **dict.fromkeys(("op_id", "target", "data", "salt", "proposer"), "0x"),
        "proposed_at": 900,
        "executed_at": None,
        "executed_block": None,
        "executed_tx": None,
        "eta": ETA,
        "cancelled": False,
        "approved": ["0xa", "0xb"],
        "against": [],
    }
    return {**whole, **changed}


@pytest.mark.parametrize(
    ("now", "state"),
    [(999, "queued"), (1_000, "ready"), (1_599, "ready"), (1_600, "expired")],
)
def test_a_queued_operation_expires_with_the_end_of_its_grace(now: int, state: str) -> None:
    assert _operation(row(), MEMBERS, 2, now, GRACE).state == state


@pytest.mark.parametrize(
    ("members", "state"),
    [
        (["0xa", "0xb", "0xc"], "queued"),  # two votes of 3 - 2 + 1 stop it; one is none
        (["0xa", "0xb"], "cancelled"),  # of two members one is enough
        (["0xb", "0xd"], "proposed"),  # who voted, and one who approved, are no members any more
        ([], "proposed"),  # no committee was indexed yet
    ],
)
def test_a_change_of_members_may_cancel_it(members: list[str], state: str) -> None:
    one = row(against=["0xa"])
    assert _operation(one, members, 2, 999, GRACE).state == state
    assert _operation({**one, "executed_at": 1_001}, members, 2, 1_001, GRACE).state == "executed"
