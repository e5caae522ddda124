# SPDX-License-Identifier: Apache-2.0
"""Fruitless searches share a credit, so that names which nobody has hold no reader up."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agents.storage import ration
from agents.storage.ration import FLOOR_S, LEAST_S, Ration


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
    began, length = clock.now, rations.length(bytes([name]))
    clock.now += length
    rations.missed(bytes([name]), began)
    return length


def test_names_that_nobody_has_take_less_and_less(clock: Clock) -> None:
    rations = Ration(60.0)
    took = [search(rations, clock, name) for name in range(40)]
    assert took[:2] == [60, 30]
    assert took == sorted(took, reverse=True) and took[-1] == FLOOR_S
    assert sum(took) < 700, "and not 40 minutes"


def test_whatever_strangers_named_a_search_has_its_floor(clock: Clock) -> None:
    rations = Ration(60.0)
    for name in range(200):
        search(rations, clock, name)
    assert rations.length(b"honest") == FLOOR_S


def test_the_credit_comes_back(clock: Clock) -> None:
    rations = Ration(60.0)
    for name in range(40):
        search(rations, clock, name)
    clock.now += 480
    assert rations.length(b"other") == 60


def test_searches_side_by_side_are_counted_once(clock: Clock) -> None:
    rations = Ration(60.0)
    began = clock.now
    clock.now += 60
    for name in range(16):
        rations.missed(bytes([name]), began)
    assert rations.length(b"other") == 30


def test_what_was_not_found_is_searched_for_shortly_for_a_while(clock: Clock) -> None:
    """Never longer than a minute: a stranger may have named it before its maker published it."""
    rations, pauses = Ration(60.0), []
    search(rations, clock, 7)  # a name that is forgotten below
    for _ in range(4):
        assert search(rations, clock, 1) > LEAST_S
        began = clock.now
        while rations.length(b"\1") == LEAST_S:
            assert rations.length(b"\2") >= FLOOR_S
            clock.now += 1
        pauses.append(clock.now - began)
    assert pauses[0] == 30 and set(pauses[1:]) == {60}
    search(rations, clock, 1)
    rations.found(b"\1")
    assert rations.length(b"\1") >= FLOOR_S


def test_a_short_search_counts_for_nothing(clock: Clock) -> None:
    rations = Ration(60.0)
    search(rations, clock, 1)
    left = rations.length(b"other")
    for _ in range(10):
        assert search(rations, clock, 1) == LEAST_S
    assert rations.length(b"other") >= left
    clock.now += 40.1
    assert rations.length(b"\1") > LEAST_S, "the pause is over when the first search said so"


def test_a_store_that_knows_at_once_may_be_asked_at_once(clock: Clock) -> None:
    rations = Ration(60.0)
    for _ in range(1_000):
        rations.missed(b"\1", clock.now - 0.1)
    assert rations.length(b"\1") == 60
