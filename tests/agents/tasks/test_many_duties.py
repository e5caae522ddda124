# SPDX-License-Identifier: Apache-2.0
"""More tasks that anybody may end than one look reads: all of them end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.numbers import TaskStatus
from agents.runtime.sender import TOGETHER
from agents.tasks.upkeep import TaskUpkeep
from agents.tasks.watch import PER_LOOK, TaskWatch

PATIENCE_S, JITTER_S, LATE = 6.0, 2.0, 10


class Crowd:
    """Tasks whose time to be drawn is over, and an agent that watches them, with the real watch and
    duties. Its clock goes on by a block at each look. `shown`: what the looks have read."""

    def __init__(self, many: int, monkeypatch: pytest.MonkeyPatch, block_s: float = 1.0) -> None:
        self.tasks = {
            n: SimpleNamespace(
                task_id=n,
                status=TaskStatus.DRAWING,
                seed_block=5,
                draw_until=LATE,
                nodes=(),
                class_id=1,
                time=0,
            )
            for n in range(1, many + 1)
        }
        self.sent: list[int] = []
        self.shown: list[set[int]] = []
        self._now, self._block_s = 0.0, block_s
        monkeypatch.setattr("agents.runtime.duties.time.monotonic", lambda: self._now)
        reader: Any = SimpleNamespace(
            count=lambda: many,
            many=lambda ids: [self.tasks[n] for n in ids],
            appealed=lambda first, last: set(),
            expected_many=lambda ids: {n: [] for n in ids},
        )
        chain: Any = SimpleNamespace(call=lambda *_: 0, block_hash=lambda number: number)
        network: Any = SimpleNamespace(tasks="tasks", appeals="appeals", chain=chain)
        sender: Any = SimpleNamespace(
            address="0x" + "11" * 20, block_s=block_s, send_all=self._send_all
        )
        self._watch = TaskWatch(reader, chain)
        self.upkeep = TaskUpkeep(network, reader, sender, PATIENCE_S, JITTER_S)

    def _send_all(self, orders: list[Any]) -> list[Any]:
        for order in orders:
            (number,) = order.args
            assert order.function == "draw" and self.is_due(number)
            self.tasks[number].status = TaskStatus.UNDECIDED
            self.sent.append(number)
        return [None] * len(orders)

    def is_due(self, number: int) -> bool:
        return self.tasks[number].status == TaskStatus.DRAWING

    @property
    def due(self) -> int:
        return sum(map(self.is_due, self.tasks))

    def look(self) -> None:
        self._now += self._block_s
        block = 1_000 + len(self.shown)
        head: Any = SimpleNamespace(number=block, hash=block, timestamp=LATE + block)
        seen = self._watch.look(head)
        self.shown.append({task.task_id for task in seen})
        self.upkeep.step(seen, head)


@pytest.mark.parametrize("block_s", [1.0, 12.0])
@pytest.mark.parametrize("many", [100, 400, 600, 2_400])
def test_all_that_are_due_end(many: int, block_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 300 on none did: a task that one look did not read was waited for anew at the next."""
    crowd = Crowd(many, monkeypatch, block_s)
    blocks = many / TOGETHER + PATIENCE_S + JITTER_S
    looks = blocks + 2 * many / PER_LOOK + 10
    while crowd.due and len(crowd.shown) < looks:
        crowd.look()
    assert not crowd.due
    assert max(map(len, crowd.shown)) <= 2 * PER_LOOK


def test_a_task_that_is_due_no_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others end them: nothing stays in memory of what a look has read since."""
    crowd = Crowd(600, monkeypatch)
    for _ in range(4):
        crowd.look()
    for task in crowd.tasks.values():
        task.status = TaskStatus.CLOSED
    for _ in range(4):
        crowd.look()
    assert not crowd.sent and not crowd.upkeep._duties._waiting
