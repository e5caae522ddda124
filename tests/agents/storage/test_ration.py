# SPDX-License-Identifier: Apache-2.0
"""Fruitless searches share a credit, so that names which nobody has hold no reader up."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agents.storage import ration
from agents.storage.ration import LEAST_S, PAUSE_MAX_S, Ration


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ration, "time", clock)
    return clock


def search(rations: Ration, clock: Clock, name: int) -> float:
    """Look for something in vain; how long that took."""
    began, length = clock.now, rations.length()
    clock.now += length
    rations.missed(bytes([name]), began)
    return length


def test_names_that_nobody_has_take_less_and_less(clock: Clock) -> None:
    rations = Ration(60.0)
    took = [search(rations, clock, name) for name in range(40)]
    assert took[:2] == [60, 30]
    assert took == sorted(took, reverse=True) and took[-1] == LEAST_S
    assert sum(took) < 300, "and not 40 minutes"


def test_the_credit_comes_back(clock: Clock) -> None:
    rations = Ration(60.0)
    for name in range(40):
        search(rations, clock, name)
    clock.now += 480
    assert rations.length() == 60


def test_searches_side_by_side_are_counted_once(clock: Clock) -> None:
    rations = Ration(60.0)
    began = clock.now
    clock.now += 60
    for name in range(16):
        rations.missed(bytes([name]), began)
    assert rations.length() == 30


def test_what_was_not_found_is_not_looked_for_at_once_again(clock: Clock) -> None:
    rations, pauses = Ration(60.0), []
    for _ in range(5):
        search(rations, clock, 1)
        pauses.append(rations.pause(b"\1"))
        assert rations.pause(b"\2") == 0
        clock.now += pauses[-1]
        assert rations.pause(b"\1") == 0
    assert pauses == [60, 240, PAUSE_MAX_S, PAUSE_MAX_S, PAUSE_MAX_S]
    search(rations, clock, 1)
    rations.found(b"\1")
    assert rations.pause(b"\1") == 0


def test_a_store_that_knows_at_once_may_be_asked_at_once(clock: Clock) -> None:
    rations = Ration(60.0)
    for _ in range(1_000):
        rations.missed(b"\1", clock.now - 0.1)
    assert (rations.pause(b"\1"), rations.length()) == (0, 60)
