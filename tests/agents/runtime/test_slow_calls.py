# SPDX-License-Identifier: Apache-2.0
"""Calls that take long are begun side by side and not waited for; their results come later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from agents.runtime.slow_calls import WIDTH, SlowCalls


class Slow:
    """Calls that return their number: these end when the test says so, all others at once."""

    def __init__(self, *slow: int) -> None:
        self.slow, self.comes = slow, threading.Event()

    def of(self, *numbers: int) -> dict[int, Callable[[], int]]:
        return {number: partial(self._call, number) for number in numbers}

    def _call(self, number: int) -> int:
        assert number not in self.slow or self.comes.wait(60)
        return number


def test_calls_run_side_by_side() -> None:
    """Each waits until all have begun: one after the other none would end."""
    begun, calls = threading.Barrier(WIDTH, timeout=30), SlowCalls[int, int](30.0, "test")
    calls.run(dict.fromkeys(range(WIDTH), begun.wait))
    assert sorted(calls.take_ended().values()) == [*range(WIDTH)] and not begun.broken


def test_what_takes_too_long_is_taken_later() -> None:
    slow, calls = Slow(1), SlowCalls[int, int](0.2, "test")
    calls.run(slow.of(0, 1, 2))
    assert calls.take_ended() == {0: 0, 2: 2}
    assert 1 in calls and 0 not in calls and not calls.ended(1)
    slow.comes.set()
    calls._begun[1].result(timeout=30)
    assert calls.ended(1) and calls.take(1) == 1 and 1 not in calls


def test_many_that_take_long_keep_nobody_from_its_turn() -> None:
    """More than run at once are slow and come first."""
    slow, calls = Slow(*range(WIDTH + 4)), SlowCalls[int, int](2.0, "test")
    calls.run(slow.of(*range(WIDTH + 8)))
    slow.comes.set()
    assert {WIDTH + k for k in range(4, 8)} <= calls.take_ended().keys()


def test_what_a_call_raises_is_raised_where_it_is_taken() -> None:
    def fail() -> int:
        raise OSError("no such store")

    calls = SlowCalls[int, int](30.0, "test")
    calls.run({1: fail})
    with pytest.raises(OSError, match="no such store"):
        calls.take(1)
    assert 1 not in calls


def test_what_was_forgotten_is_begun_again() -> None:
    slow, calls = Slow(1), SlowCalls[int, int](0.2, "test")
    calls.run(slow.of(1))
    calls.forget()
    assert 1 not in calls
    slow.comes.set()
    calls.run({1: lambda: 5})
    assert calls.take_ended() == {1: 5}
