# SPDX-License-Identifier: Apache-2.0
"""Several duties in one loop: everyone has its turn, and no failure holds up another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.runtime.errors import JournalError, JournalFull, Reverted
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.runtime.turns import Turns


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def turns(log_file: Path) -> Iterator[Turns]:
    yield Turns(open_log("verifier", path=log_file), Metrics("verifier"))


def broken() -> str | None:
    raise Reverted("rounds: too late")


def test_the_first_that_finds_something_acts_and_then_comes_last(turns: Turns) -> None:
    duties = {3: lambda: "three", 5: lambda: "five", 8: lambda: None}
    assert [turns.step(duties) for _ in range(4)] == ["three", "five", "three", "five"]


def test_nothing_to_do_is_nothing(turns: Turns) -> None:
    assert turns.step({}) is None
    assert turns.step({3: lambda: None}) is None


def test_a_broken_job_holds_up_no_other_and_is_said_once(turns: Turns, log_file: Path) -> None:
    duties = {3: broken, 5: lambda: "five"}
    assert [turns.step(duties) for _ in range(3)] == ["five"] * 3
    assert log_file.read_text().count('"event": "job_failed"') == 1


def test_a_broken_job_is_left_alone_for_a_while(turns: Turns) -> None:
    tried = []

    def fail() -> str | None:
        tried.append(1)
        raise Reverted("no")

    for _ in range(5):
        turns.step({3: fail, 5: lambda: None})
    assert len(tried) == 1


def test_when_all_are_broken_the_loop_hears_of_it_each_time(turns: Turns) -> None:
    for _ in range(2):
        with pytest.raises(Reverted, match="too late"):
            turns.step({3: broken})


def test_a_disk_that_is_full_for_one_job_holds_up_no_other(turns: Turns, log_file: Path) -> None:
    """A reveal needs no disk: what was committed to in another job must not wait for room."""

    def full() -> str | None:
        raise JournalFull("no room")

    assert [turns.step({3: full, 5: lambda: "five"}) for _ in range(3)] == ["five"] * 3
    assert log_file.read_text().count('"event": "journal_full"') == 1
    with pytest.raises(JournalFull):
        turns.step({3: full})


def test_what_waiting_cannot_mend_ends_the_agent(turns: Turns) -> None:
    def damaged() -> str | None:
        raise JournalError("damaged")

    with pytest.raises(JournalError):
        turns.step({3: damaged, 5: lambda: "five"})
