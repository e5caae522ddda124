# SPDX-License-Identifier: Apache-2.0
"""Which draws an agent sends: none that would be refused, and none that pay for others' waiting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.protocol.network import Network
from agents.protocol.numbers import TaskStatus
from agents.runtime.chain import Head
from agents.runtime.sender import Sender
from agents.tasks.contract import Task, Tasks
from agents.tasks.upkeep import TaskUpkeep

SEED, UNTIL = 1_000, 90_000
WAITING = Task(
    task_id=7,
    status=TaskStatus.DRAWING,
    creator="creator",
    class_id=0,
    spec=bytes(32),
    fee=1,
    run_s=60,
    time=0,
    seed_block=SEED,
    draw_until=UNTIL,
    nodes=(),
    states=(),
    answers=(),
    wanted=2,
)

SENDER = SimpleNamespace(address="0x" + "01" * 20)


def draws(task: Task, block: int, now: int, found: list[int], lanes: int, node: int = 3) -> bool:
    """Whether an agent sends the draw: `found` is who would be drawn, `lanes` what it answers
    for, and `node` 0 that of no executor."""
    tasks = SimpleNamespace(
        expected_many=lambda ids: dict.fromkeys(ids, found),
        seat=lambda node_id: SimpleNamespace(open=lanes),
    )
    network = SimpleNamespace(tasks="tasks", appeals="appeals")
    upkeep = TaskUpkeep(cast(Network, network), cast(Tasks, tasks), cast(Sender, SENDER), 0, 0)
    head = cast(Head, SimpleNamespace(number=block, timestamp=now))
    return bool(list(upkeep._draws([task], head, 0, node)))


@pytest.mark.parametrize(
    ("block", "now", "found", "lanes", "node", "sent"),
    [
        (SEED + 16, 0, [1, 2], 0, 3, False),  # left to those who are drawn
        (SEED + 17, 0, [1, 2], 2, 3, True),
        (SEED + 17, 0, [], 0, 3, False),  # all are busy: it would be refused
        (SEED + 255, 0, [], 0, 3, False),
        (SEED + 256, 0, [], 1, 3, True),  # forgotten, and this one would take the work
        (SEED + 256, 0, [], 2, 3, False),
        (SEED + 256, 0, [], 0, 0, False),
        (SEED + 17, UNTIL, [], 2, 3, False),
        (SEED + 17, UNTIL + 1, [], 2, 3, True),  # its time is over
    ],
)
def test_draws(block: int, now: int, found: list[int], lanes: int, node: int, sent: bool) -> None:
    assert draws(WAITING, block, now, found, lanes, node) is sent


@pytest.mark.parametrize("node", [0, 3])
def test_draws__executors_hold_lanes__everybody_asks_again(node: int) -> None:
    task: Any = WAITING
    held = Task(**{**vars(task), "nodes": (1, 2), "wanted": 1})
    assert draws(held, SEED + 256, 0, [], 2, node)
