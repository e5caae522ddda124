# SPDX-License-Identifier: Apache-2.0
"""Payloads that nobody serves are looked for side by side, and not at once again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from agents.protocol.structs import Reveal
from agents.rounds.report import UNAVAILABLE
from agents.rounds.searches import Searches
from agents.rounds.submissions import Submission
from agents.storage.errors import StoreUnavailable


def reveal(node: int, content: bytes = bytes(32)) -> Reveal:
    return Reveal(node, bytes(32), content, bytes(32), bytes(32))


def missing(one: Reveal) -> Submission:
    return Submission(one, None, f"{UNAVAILABLE}nobody has it")


def there(one: Reveal) -> Submission:
    return Submission(one, {}, "")


class Clock:
    """Each search takes `search` seconds; the clock of a test."""

    def __init__(self, search: float) -> None:
        self.now, self.search = 0.0, search

    def __call__(self) -> float:
        return self.now

    def fetching(self, of: Callable[[Reveal], Submission]) -> Callable[[Reveal], Callable]:
        def fetch(one: Reveal) -> Submission:
            self.now += self.search
            return of(one)

        return lambda one: lambda: fetch(one)


def test_what_is_missing_is_looked_for_side_by_side() -> None:
    """Each of five searches waits until all have begun: one after the other none would end."""
    begun = threading.Barrier(5, timeout=30)

    def search(one: Reveal) -> Submission:
        begun.wait()
        return missing(one)

    found = Searches().read([reveal(n) for n in range(5)], lambda one: lambda: search(one))
    assert [one.reveal.node for one in found] == [0, 1, 2, 3, 4]
    assert all(one.unavailable for one in found)


def test_what_was_missing_is_looked_for_again_after_as_long_as_its_search_took() -> None:
    clock = Clock(60.0)
    searches = Searches(clock)
    (kept,) = searches.read([reveal(5)], clock.fetching(missing))
    assert clock.now == 60 and not searches.due(reveal(5), kept)
    clock.now = 119.9
    assert not searches.due(reveal(5), kept)
    clock.now = 120.0
    assert searches.due(reveal(5), kept)
    assert searches.due(reveal(5, b"\1" * 32), kept), "it is another reveal"
    (kept,) = searches.read([reveal(5)], clock.fetching(there))
    assert not searches.due(reveal(5), kept)


def test_the_pause_is_as_long_as_the_whole_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three searches of 60 s the first would be due when the last is over: a proposer, which
    reads before it proposes, would never come to that in a window of 300 s."""
    monkeypatch.setattr("agents.runtime.slow_calls.WIDTH", 1)
    clock, reveals = Clock(60.0), [reveal(n) for n in range(3)]
    searches = Searches(clock)
    kept = searches.read(reveals, clock.fetching(missing))
    assert clock.now == 180
    clock.now = 359.9
    assert not any(map(searches.due, reveals, kept))
    clock.now = 360.0
    assert all(map(searches.due, reveals, kept))


def test_a_store_that_answers_at_once_is_asked_at_once_again() -> None:
    clock = Clock(0.0)
    searches = Searches(clock)
    (kept,) = searches.read([reveal(5)], clock.fetching(missing))
    assert searches.due(reveal(5), kept)


def test_what_is_there_or_refused_is_not_read_again() -> None:
    searches = Searches(Clock(1.0))
    assert searches.due(reveal(5), None)
    assert not searches.due(reveal(5), there(reveal(5)))
    assert not searches.due(reveal(5), Submission(reveal(5), None, "bad payload: no container"))


def test_a_store_that_is_down_is_said() -> None:
    def down(one: Reveal) -> Submission:
        raise StoreUnavailable("it does not accept connections")

    with pytest.raises(StoreUnavailable):
        Searches().read([reveal(n) for n in range(3)], lambda one: lambda: down(one))


class Dripping:
    """Payloads of some nodes come when the test says so, those of others at once."""

    def __init__(self, *slow: int) -> None:
        self.slow, self.comes, self.begun = slow, threading.Event(), list[int]()

    def __call__(self, one: Reveal) -> Callable[[], Submission]:
        def fetch() -> Submission:
            self.begun.append(one.node)
            assert one.node not in self.slow or self.comes.wait(60)
            return there(one)

        return fetch


def test_one_that_drips_its_payload_holds_nobody_up() -> None:
    """It is unavailable for now, is not read twice, and is taken when it is there."""
    drip, searches = Dripping(1), Searches(longest_s=2.0)
    reveals = [reveal(n) for n in range(4)]
    found = searches.read(reveals, drip)
    assert [one.unavailable for one in found] == [False, True, False, False]
    assert not searches.due(reveals[1], found[1])
    begun = searches._coming._begun[reveals[1]]
    drip.comes.set()
    begun.result(timeout=30)
    assert searches.due(reveals[1], found[1])
    (late,) = searches.read([reveals[1]], drip)
    assert not late.unavailable and sorted(drip.begun) == [0, 1, 2, 3]
    assert not searches.due(reveals[1], late)


def test_what_is_still_coming_is_dropped_with_what_it_was_read_as() -> None:
    drip, searches = Dripping(1), Searches(longest_s=0.2)
    searches.read([reveal(1)], drip)
    searches.forget()
    assert searches.due(reveal(1), None)
    drip.comes.set()
    (again,) = searches.read([reveal(1)], lambda one: lambda: missing(one))
    assert again.unavailable, "the first reading said something else"


def test_a_store_that_went_down_in_the_background_is_said_later() -> None:
    goes_on = threading.Event()

    def down(one: Reveal) -> Callable[[], Submission]:
        def fetch() -> Submission:
            assert goes_on.wait(60)
            raise StoreUnavailable("it does not accept connections")

        return fetch

    searches = Searches(longest_s=0.2)
    (kept,) = searches.read([reveal(1)], down)
    begun = searches._coming._begun[reveal(1)]
    goes_on.set()
    begun.exception(timeout=30)
    assert searches.due(reveal(1), kept)
    with pytest.raises(StoreUnavailable):
        searches.read([reveal(1)], down)
