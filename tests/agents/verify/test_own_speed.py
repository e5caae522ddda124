# SPDX-License-Identifier: Apache-2.0
"""A member reckons with what it took itself, and nothing that is no measure counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from agents.verify.own_speed import OwnSpeed


@dataclass
class Member:
    """Recomputes results that take so many seconds, by a clock of the test."""

    now: float = 0.0
    speed: OwnSpeed = field(init=False)

    def __post_init__(self) -> None:
        self.speed = OwnSpeed(lambda: self.now)

    def recompute(
        self, job: int, number: int, reckoned: float, takes: float, wrong: list[str] | None
    ) -> None:
        def work() -> list[str] | None:
            self.now += takes
            return wrong

        assert self.speed.timed(job, number, reckoned, work) == wrong


def test_before_the_first_result_it_is_as_reckoned() -> None:
    assert Member().speed.expected(1, 500.0) == 500.0


def test_a_job_goes_by_its_own_results_and_another_one_by_the_median() -> None:
    member = Member()
    member.recompute(1, 1, 1_000.0, 10.0, [])
    assert member.speed.expected(1, 500.0) == member.speed.expected(2, 500.0) == 5.0
    member.recompute(2, 1, 1_000.0, 100_000.0, [])
    member.recompute(3, 1, 1_000.0, 20.0, [])
    assert member.speed.expected(2, 500.0) == 50_000.0
    assert member.speed.expected(9, 500.0) == 10.0


@pytest.mark.parametrize("wrong", [None, ["its report can't be had"]])
def test_what_was_not_found_right_is_no_measure(wrong: list[str] | None) -> None:
    """It may have ended before anything was computed."""
    member = Member()
    member.recompute(1, 1, 1_000.0, 0.0, wrong)
    assert member.speed.expected(1, 500.0) == 500.0


def test_what_is_reckoned_at_seconds_is_no_measure() -> None:
    member = Member()
    member.recompute(1, 1, 1.0, 30.0, [])
    assert member.speed.expected(1, 500.0) == 500.0


def test_of_several_tries_at_a_round_the_longest_counts() -> None:
    """The others find in memory what it has computed."""
    member = Member()
    member.recompute(1, 1, 1_000.0, 10.0, None)
    member.recompute(1, 1, 1_000.0, 0.0, [])
    assert member.speed.expected(1, 500.0) == 5.0
    member.recompute(1, 2, 1_000.0, 4.0, [])
    assert member.speed.expected(1, 500.0) == 2.0


def test_so_it_does_where_one_failed() -> None:
    member = Member()

    def failing() -> list[str]:
        member.now += 10.0
        raise MemoryError("too large")

    with pytest.raises(MemoryError):
        member.speed.timed(1, 1, 1_000.0, failing)
    member.recompute(1, 1, 1_000.0, 0.0, [])
    assert member.speed.expected(1, 500.0) == 5.0


def test_old_jobs_are_forgotten() -> None:
    member = Member()
    for job in range(1, 200):
        member.recompute(job, 1, 1_000.0, 10.0, [])
    assert len(member.speed._ratios) == len(member.speed._tries) == 64
    assert 199 in member.speed._ratios
