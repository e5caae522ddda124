# SPDX-License-Identifier: Apache-2.0
"""However many tasks wait for executors, a node sees at once what it was drawn for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.numbers import TaskStatus
from agents.tasks.watch import PER_LOOK, TaskWatch

NODE = 7
CROWD = 20 * PER_LOOK


class Chain:
    """Block n has the hash n."""

    def block_hash(self, number: int) -> int:
        return number


class Tasks:
    """`made` tasks that wait to be drawn, and events by block."""

    def __init__(self, made: int = 0) -> None:
        self.made = made
        self.appeals: dict[int, int] = {}
        self.draws: dict[int, int] = {}
        self.status: dict[int, TaskStatus] = {}
        self.most = 0

    def count(self) -> int:
        return self.made

    def appealed(self, first: int, last: int) -> set[int]:
        return {task for block, task in self.appeals.items() if first <= block <= last}

    def drawn(self, node: int, first: int, last: int) -> set[int]:
        assert node == NODE
        return {task for block, task in self.draws.items() if first <= block <= last}

    def many(self, numbers: list[int]) -> list[Any]:
        self.most = max(self.most, len(numbers))
        return [
            SimpleNamespace(task_id=n, status=self.status.get(n, TaskStatus.DRAWING))
            for n in numbers
        ]


def crowded() -> tuple[Tasks, TaskWatch]:
    """After a look each at blocks 1 and 2, between which the crowd came."""
    tasks = Tasks()
    watch = TaskWatch(tasks, Chain())  # type: ignore[arg-type]
    look(watch, 1)
    tasks.made = CROWD
    look(watch, 2)
    return tasks, watch


def look(watch: TaskWatch, block: int, node: int = NODE) -> set[int]:
    head: Any = SimpleNamespace(number=block, hash=block)
    return {task.task_id for task in watch.look(head, node=node)}


def test_what_is_new_is_read_at_once() -> None:
    tasks, watch = crowded()
    tasks.made += 3
    assert look(watch, 3) >= {CROWD + 1, CROWD + 2, CROWD + 3}


@pytest.mark.parametrize("events", ["draws", "appeals"])
def test_what_the_node_is_called_to_is_read_at_every_look_until_it_is_over(events: str) -> None:
    tasks, watch = crowded()
    called = CROWD - 1
    getattr(tasks, events)[5] = called
    before = [look(watch, block) for block in (3, 4)]
    assert not any(called in seen for seen in before)
    assert all(called in look(watch, block) for block in range(5, 20))
    tasks.status[called] = TaskStatus.AGREED
    assert called in look(watch, 20)
    assert called not in look(watch, 21)


def test_a_restart_sees_what_the_node_was_drawn_for_before_it() -> None:
    tasks = Tasks(CROWD)
    tasks.draws[90] = 3
    watch = TaskWatch(tasks, Chain())  # type: ignore[arg-type]
    assert all(3 in look(watch, block) for block in range(100, 110))


def test_a_look_reads_no_more_than_a_bounded_number() -> None:
    tasks, watch = crowded()
    for block in range(3, 60):
        tasks.made += 5 * PER_LOOK
        look(watch, block)
    assert tasks.most <= 3 * PER_LOOK


def test_every_task_has_its_turn() -> None:
    _, watch = crowded()
    seen: set[int] = set()
    for block in range(3, 3 + CROWD // PER_LOOK):
        seen |= look(watch, block, node=0)
    assert seen == set(range(1, CROWD + 1))
