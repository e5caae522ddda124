# SPDX-License-Identifier: Apache-2.0
"""What anyone may send: in turns among agents, together in one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.runtime.duties import Due, Duties
from agents.runtime.loop import jitter
from agents.runtime.sender import TOGETHER, Sender
from agents.runtime.transaction import Order

SPREAD_S = 100.0


def due(tiny: Any, *names: str) -> list[Due]:
    def call(name: str) -> Callable[[], Order]:
        return lambda: (
            Order(tiny, "refuse", (1,)) if name == "bad" else Order(tiny, "ping", (name,))
        )

    return [(name, 0, call(name)) for name in names]


def test_what_is_due_goes_together_and_a_refusal_is_not_said(sender: Sender, tiny: Any) -> None:
    assert Duties(sender, 0.0, 0.0).step(due(tiny, "advance", "bad", "settle")) == "advance; settle"


def test_a_step_sends_no_more_than_a_block_takes(sender: Sender, tiny: Any) -> None:
    """What is refused takes no block, so it keeps nothing back."""
    names = [f"duty {n}" for n in range(2 * TOGETHER + 1)]
    duties = Duties(sender, 0.0, 0.0)
    assert duties.step(due(tiny, *names)) == "; ".join(names[:TOGETHER])
    ((_, _, refused),) = due(tiny, "bad")
    many = [(f"bad {n}", 0, refused) for n in range(2 * TOGETHER)]
    assert duties.step([*many, *due(tiny, "last")]) == "last"


def test_nothing_due_or_all_refused_is_nothing_done(sender: Sender, tiny: Any) -> None:
    duties = Duties(sender, 0.0, 0.0)
    assert duties.step([]) is None
    assert duties.step(due(tiny, "bad")) is None


def test_each_agent_waits_its_own_time_since_the_duty_was_first_seen(
    sender: Sender, tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("agents.runtime.duties.time.monotonic", lambda: now[0])
    duties = Duties(sender, 7.0, SPREAD_S)
    wait = 7.0 + jitter(sender.address, 0, SPREAD_S)
    assert duties.step(due(tiny, "advance")) is None
    now[0] += wait - 0.1
    assert duties.step(due(tiny, "advance")) is None
    now[0] += 0.2
    assert duties.step(due(tiny, "advance", "settle")) == "advance"
    assert duties.step([]) is None  # what is due again later is waited for again
    assert duties.step(due(tiny, "advance")) is None


def test_who_leads_waits_for_nobody(sender: Sender, tiny: Any) -> None:
    assert Duties(sender, SPREAD_S, 0.0).step(due(tiny, "advance"), at_once=True) == "advance"


class Clocked:
    """Duties that wait seven seconds, of tasks of which a step reads some."""

    def __init__(self, sender: Sender, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr("agents.runtime.duties.time.monotonic", lambda: self.now)
        self._duties, self._tiny = Duties(sender, 7.0, 0.0), tiny

    def after(self, seconds: float, looked: set[int], *due: int) -> str | None:
        self.now += seconds
        return self._duties.step(
            [(f"end {n}", n, lambda: Order(self._tiny, "ping", ("end",))) for n in due],
            looked=looked,
        )

    @property
    def kept(self) -> int:
        return len(self._duties._waiting)


@pytest.fixture
def clocked(sender: Sender, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> Clocked:
    return Clocked(sender, tiny, monkeypatch)


def test_a_duty_that_was_not_looked_at_is_not_waited_for_anew(clocked: Clocked) -> None:
    assert clocked.after(0, {1}, 1) is None
    assert clocked.after(4, {2}, 2) is None
    assert clocked.after(4, {1}, 1) == "end 1"
    assert clocked.after(4, {2}, 2) == "end 2"


def test_a_duty_that_a_look_does_not_find_due_is_waited_for_anew(clocked: Clocked) -> None:
    assert clocked.after(0, {1}, 1) is None
    assert clocked.after(4, {1}) is None
    assert clocked.after(4, {1}, 1) is None
    assert clocked.after(8, {1}, 1) == "end 1"


def test_a_duty_that_was_done_is_waited_for_anew(clocked: Clocked) -> None:
    """As after a reorg, which brings it back."""
    assert clocked.after(0, {1}, 1) is None
    assert clocked.after(8, {1}, 1) == "end 1"
    assert clocked.after(8, {1}, 1) is None


def test_a_duty_that_no_look_comes_to_for_a_day_is_forgotten(clocked: Clocked) -> None:
    assert clocked.after(0, {1}, 1) is None
    assert clocked.after(86_000, {2}) is None
    assert clocked.kept == 1
    assert clocked.after(1_000, {2}) is None
    assert clocked.kept == 0


def test_no_more_than_a_number_is_remembered_and_those_first_that_have_waited(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the oldest made room for new ones all the time, and none came to its end."""
    monkeypatch.setattr("agents.runtime.duties._MOST", 3)
    assert clocked.after(0, {1, 2}, 1, 2) is None
    assert clocked.after(4, {3, 4}, 3, 4) is None
    assert clocked.kept == 3
    assert clocked.after(4, {1, 2}, 1, 2) == "end 1; end 2"
    assert clocked.after(0, {4}, 4) is None
    assert clocked.after(4, {3}, 3) == "end 3"
    assert clocked.after(3, {4}, 4) == "end 4"
