# SPDX-License-Identifier: Apache-2.0
"""A letter waits until its receiver says what became of it, and no longer than it may."""

from __future__ import annotations

import threading
import time
from itertools import count

import pytest
from eth_utils import keccak

from agents.pipeline.courier import Outcome
from agents.pipeline.held import Held, Occupied, Replayed

NOTHING = bytes(32)


class Sender:
    """Puts letters in and notes their outcomes."""

    def __init__(self, **options: int) -> None:
        self.held = Held(**{"most": 3, **options})
        self.outcomes: dict[bytes, Outcome] = {}
        self._counter = count(1)

    def put(self, body: bytes, receiver: int = 21, now: float = 0.0) -> bool:
        return self.held.put(
            receiver, body, lambda outcome, why: self.outcomes.update({body: outcome}), now
        )

    def ask(
        self, outcome: Outcome | None = None, about: bytes = NOTHING, receiver: int = 21
    ) -> bytes | None:
        return self.held.collect(receiver, next(self._counter), outcome, about, 0.0)


def test_a_letter_is_given_until_its_outcome_is_said_and_then_the_next() -> None:
    one = Sender()
    assert one.put(b"a") and one.put(b"b") and one.put(b"c", receiver=22)
    assert [one.ask(), one.ask()] == [b"a", b"a"], "the first reply may have been lost"
    assert one.outcomes == {}
    assert one.ask(Outcome.TAKEN, keccak(b"a")) == b"b"
    assert one.ask(Outcome.TAKEN, keccak(b"a")) == b"b", "said twice, it removes nothing else"
    assert one.ask(Outcome.REFUSED, keccak(b"b")) is None
    assert one.outcomes == {b"a": Outcome.TAKEN, b"b": Outcome.REFUSED}
    assert one.ask(receiver=22) == b"c"


def test_a_receiver_can_not_settle_anothers_letter() -> None:
    one = Sender()
    assert one.put(b"a")
    assert one.ask(Outcome.TAKEN, keccak(b"a"), receiver=22) is None
    assert one.ask() == b"a" and one.outcomes == {}


def test_an_old_question_is_not_answered_again() -> None:
    held = Held(3)
    held.put(21, b"a", lambda outcome, why: None, 0.0)
    assert held.collect(21, 5, None, NOTHING, 0.0) == b"a"
    for counter in (5, 4):
        with pytest.raises(Replayed):
            held.collect(21, counter, Outcome.TAKEN, keccak(b"a"), 0.0)
    assert held.collect(21, 6, None, NOTHING, 0.0) == b"a"
    assert held.collect(22, 1, None, NOTHING, 0.0) is None, "each receiver counts by itself"


def test_it_holds_so_many_letters_of_a_receiver_and_so_many_bytes() -> None:
    one = Sender(most=2, most_bytes=10)
    assert [one.put(b"a"), one.put(b"b"), one.put(b"c")] == [True, True, False]
    assert not one.put(bytes(9), receiver=22)
    assert one.put(bytes(8), receiver=22)
    assert not one.put(b"d", receiver=31)
    assert one.ask(Outcome.TAKEN, keccak(b"a")) == b"b"
    assert one.put(b"d", receiver=31), "its byte is free again"


def test_a_letter_that_nobody_comes_for_is_taken_back() -> None:
    one = Sender(most=2)
    assert one.put(b"old", now=1.0) and one.put(b"new", now=3.0)
    one.held.expire(before=2.0)
    assert one.outcomes == {b"old": Outcome.LATER}
    assert not one.put(b"other", now=4.0), "one that is away costs its senders one wait"
    assert one.ask() == b"new"
    assert one.put(b"old", now=4.0), "it is back"


def test_a_question_waits_for_a_letter_and_a_second_one_is_turned_away() -> None:
    held, found = Held(3), []
    first = threading.Thread(
        target=lambda: found.append(held.collect(21, 1, None, NOTHING, 120.0)), daemon=True
    )
    first.start()
    while not held._open:
        time.sleep(0.01)
    with pytest.raises(Occupied):
        held.collect(21, 2, None, NOTHING, 120.0)
    assert held.put(21, b"a", lambda outcome, why: None, 0.0)
    first.join(60.0)
    assert found == [b"a"]


def test_only_so_many_questions_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(3)
    monkeypatch.setattr("agents.pipeline.held.MOST_OPEN", 1)
    threading.Thread(target=held.collect, args=(21, 1, None, NOTHING, 120.0), daemon=True).start()
    while not held._open:
        time.sleep(0.01)
    began = time.monotonic()
    assert held.collect(22, 1, None, NOTHING, 120.0) is None
    assert time.monotonic() - began < 60
