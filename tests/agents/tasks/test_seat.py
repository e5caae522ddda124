# SPDX-License-Identifier: Apache-2.0
"""A node that finds no class to compute in leaves its seat: each draw would cost it stake."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

import agents.tasks.seat as seat_module
from agents.runtime.head import Head
from agents.tasks.seat import TaskSeat

NODE, CLASS, LABEL = 7, 1, "a class"


class Pool:
    """One class's pool, in which the node is seated. `sent`: calls; `said`: the log's events."""

    def __init__(self, join: bool = True) -> None:
        self.seated, self.sent = True, list[str]()
        self.said: list[str] = []
        self._blocks = itertools.count(1_000, 500)
        network: Any = SimpleNamespace(tasks="the contract")
        tasks: Any = SimpleNamespace(
            seat=lambda node: SimpleNamespace(
                seated=self.seated, class_id=CLASS, at_risk=0, left=0
            ),
            class_id=lambda label: CLASS,
            label=lambda number: LABEL,
            stay=lambda nodes, now: [True],
        )
        context: Any = SimpleNamespace(
            settings=SimpleNamespace(executor=SimpleNamespace(join=join)),
            log=SimpleNamespace(warning=self._say, error=self._say),
            sender=SimpleNamespace(
                send=lambda contract, call, *rest: self._send(call),
                ensure=lambda done, contract, call, *rest: self._send(call),
            ),
        )
        self._seat = TaskSeat(network, tasks, context)

    def step(self, label: str | None) -> str | None:
        number = next(self._blocks)
        return self._seat.step(Head(number, bytes(32), bytes(32), number), NODE, label)

    def _send(self, call: str) -> None:
        self.sent.append(call)
        self.seated = call == "join"

    def _say(self, event: str, **fields: Any) -> None:
        self.said.append(event)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`now` is the seat's moment."""
    found = SimpleNamespace(now=0.0)
    monkeypatch.setattr(seat_module, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


def test_it_leaves_after_minutes_without_a_class_and_comes_back_with_one(
    clock: SimpleNamespace,
) -> None:
    pool = Pool()
    assert pool.step(None) is None
    clock.now += seat_module._CLASSLESS_S - 1
    assert pool.step(None) is None and not pool.sent and not pool.said
    clock.now += 1
    assert str(pool.step(None)).startswith(f"left: the pool of {LABEL}")
    assert pool.step(None) is None
    assert pool.sent == ["leave"] and pool.said == ["no_class"]
    assert pool.step(LABEL) == f"joined: the pool of {LABEL}"


def test_a_class_that_is_found_in_time_costs_no_seat(clock: SimpleNamespace) -> None:
    pool = Pool()
    pool.step(None)
    clock.now += seat_module._CLASSLESS_S - 1
    assert pool.step(LABEL) is None
    clock.now += seat_module._CLASSLESS_S
    assert pool.step(LABEL) is None and not pool.sent and not pool.said


def test_a_seat_that_is_taken_by_hand_is_left_by_hand(clock: SimpleNamespace) -> None:
    pool = Pool(join=False)
    pool.step(None)
    clock.now += seat_module._CLASSLESS_S
    assert pool.step(None) is None and not pool.sent
    assert pool.said == ["no_class"]
    assert pool.step(None) is None and pool.said == ["no_class"], "once"
