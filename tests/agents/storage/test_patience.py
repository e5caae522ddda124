# SPDX-License-Identifier: Apache-2.0
"""An operation may take its time and its tries, and bytes that move win them back."""

from __future__ import annotations

import pytest

from agents.storage import patience as module
from agents.storage.patience import BYTES_A_TRY, LEAST_RATE, Patience


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only a pause or the test moves."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    return now


def test_bytes_win_back_time_up_to_the_time_at_the_start(clock: list[float]) -> None:
    patience = Patience(10, 3, 1)
    clock[0] += 8
    patience.sent(3 * LEAST_RATE)
    assert patience.left() == 5
    patience.received(1000 * LEAST_RATE)
    assert patience.left() == 10
    clock[0] += 11
    assert patience.left() == 0


def test_nothing_wins_back_time_beyond_the_end_of_all(clock: list[float]) -> None:
    patience = Patience(10, 3, 1, until=112)
    clock[0] += 8
    patience.received(1000 * LEAST_RATE)
    assert patience.left() == 4
    assert Patience(10, 3, 1, until=99).left() == 0


def test_what_comes_at_the_least_rate_in_the_time_left_is_within_reach(clock: list[float]) -> None:
    patience = Patience(10, 3, 1)
    clock[0] += 8
    assert patience.reach() == 2 * LEAST_RATE
    clock[0] += 3
    assert patience.reach() == 0


def test_a_transfer_slower_than_the_least_rate_ends(clock: list[float]) -> None:
    patience, seconds = Patience(10, 3, 1), 0
    while patience.left():
        clock[0] += 1
        patience.received(LEAST_RATE // 2)
        seconds += 1
    assert 19 <= seconds <= 21


def test_only_received_bytes_win_back_tries(clock: list[float]) -> None:
    patience = Patience(1000, 3, 1)
    assert [patience.again() for _ in range(2)] == [True, True]
    patience.sent(100 * BYTES_A_TRY)
    assert not patience.again()
    patience.received(100 * BYTES_A_TRY)
    assert [patience.again() for _ in range(3)] == [True, True, False]


def test_pauses_double_and_end_with_the_time(clock: list[float]) -> None:
    patience, ends = Patience(10, 9, 1), []
    for _ in range(5):
        patience.again()
        patience.pause()
        ends.append(clock[0] - 100)
    assert ends == [1, 3, 7, 10, 10]
    assert not patience.again()
