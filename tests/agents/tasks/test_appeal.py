# SPDX-License-Identifier: Apache-2.0
"""Which outcomes are worth an appeal, and which appeals a verifier's vote."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import LaneState, TaskStatus
from agents.tasks.appeal import is_wrong, slashes_denials_only
from agents.tasks.contract import Task

AGREED, DECIDED, UNDECIDED = TaskStatus.AGREED, TaskStatus.DECIDED, TaskStatus.UNDECIDED
RIGHT, WRONG = b"\1" * 32, b"\2" * 32
READER: Any = SimpleNamespace(tag=lambda number, result: b"tag" + result)


def undecided(*results: bytes) -> Task:
    """A task that ended so, with these results; silent ones have no lane here."""
    fields: dict[str, Any] = dict.fromkeys(Task.__dataclass_fields__, 0)
    fields |= {
        "status": UNDECIDED,
        "nodes": tuple(range(1, len(results) + 1)),
        "states": (LaneState.REVEALED,) * len(results),
        "answers": tuple(READER.tag(0, result) for result in results),
    }
    return Task(**fields)


@pytest.mark.parametrize(
    ("results", "wrong", "denials_only"),
    [
        ((RIGHT, UNAVAILABLE), False, True),
        ((UNAVAILABLE,), False, True),
        ((RIGHT,), False, False),
        ((WRONG,), True, False),
        ((RIGHT, WRONG), True, False),
        # Who denies the inputs saves no friend.
        ((RIGHT, UNAVAILABLE, WRONG), True, False),
        ((UNAVAILABLE, WRONG), True, False),
    ],
)
def test_an_undecided_task_is_appealed_for_a_wrong_result_only(
    results: tuple[bytes, ...], wrong: bool, denials_only: bool
) -> None:
    task = undecided(*results)
    assert is_wrong(READER, task, RIGHT) == wrong
    assert slashes_denials_only(READER, task, UNDECIDED, RIGHT) == denials_only


@pytest.mark.parametrize("status", [AGREED, DECIDED])
def test_what_two_agreed_on_is_voted_on_in_any_case(status: TaskStatus) -> None:
    assert not slashes_denials_only(READER, undecided(UNAVAILABLE), status, RIGHT)
