# SPDX-License-Identifier: Apache-2.0
"""A case that takes long to judge holds no other up, and is not judged twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from agents.verify.long_cases import LongCases


@dataclass
class Member:
    """Judges cases that take so many seconds, by a clock of the test."""

    now: float = 0.0
    judged: list[str] = field(default_factory=list)
    cases: LongCases = field(init=False)

    def __post_init__(self) -> None:
        self.cases = LongCases(lambda: self.now)

    def judge(self, case: str, takes: float, verdict: bool | None = True) -> bool | None:
        def work() -> bool | None:
            self.judged.append(case)
            self.now += takes
            return verdict

        return self.cases.judged(case, work)

    def look(self) -> None:
        """A step in which nothing takes long ends, and another one begins."""
        self.cases.begin()
        self.cases.end()
        self.cases.begin()


def test_after_a_long_case_no_other_is_begun_in_the_step() -> None:
    member = Member()
    member.cases.begin()
    assert member.judge("short", 60) is True and not member.cases.spent
    assert member.judge("long", 61) is True and member.cases.spent
    assert member.judge("next", 1) is None
    member.cases.begin()
    assert member.judge("next", 1) is True and member.judged == ["short", "long", "next"]


def test_a_verdict_that_took_long_is_kept() -> None:
    member = Member()
    for _ in range(3):
        member.cases.begin()
        assert member.judge("innocent", 61, False) is False
        assert member.judge("short", 1) is (None if member.cases.spent else True)
    assert member.judged == ["innocent", "short", "short"]


def test_no_verdict_is_tried_again_after_as_long_as_it_took() -> None:
    member = Member()
    assert member.judge("lost", 1000, None) is None
    member.now = 1999.9
    member.look()
    assert member.judge("lost", 1000, None) is None and member.judged == ["lost"]
    member.now = 2000.0
    assert member.judge("lost", 1, True) is True


def test_and_not_before_all_others_have_been_looked_at() -> None:
    member = Member()
    assert member.judge("lost", 100, None) is None
    member.now = 1000.0
    member.cases.begin()
    assert member.judge("lost", 1, True) is None, "another step has begun, and nothing else"
    member.look()
    assert member.judge("lost", 1, True) is True


@pytest.mark.parametrize("lost", [2, 5, 20])
def test_cases_that_never_end_hold_nobody_up_and_take_half_of_the_time(lost: int) -> None:
    """They come first in each step. Before, two of them took turns for ever."""
    member, begun = Member(), 0.0
    for step in range(60 * lost):
        member.cases.begin()
        for one in range(lost):
            member.judge(f"lost {one}", 90, None)
        verdict = member.judge("plain", 1)
        if not begun and verdict:
            assert step == lost, "each of the others was tried once before"
            begun = member.now
        if not member.cases.spent:
            member.cases.end()
        member.now += 10.0
    assert begun and member.judged.count(f"lost {lost - 1}") > 2
    tries = sum(one.startswith("lost") for one in member.judged)
    assert 90.0 * (tries - 2 * lost) <= member.now / 2


def test_a_final_verdict_is_kept_however_short_it_was() -> None:
    member = Member()
    for _ in range(2):
        assert member.cases.judged("appeal", lambda: member.judged.append("x") or True, final=True)
    assert member.judged == ["x"]


def test_so_is_a_case_that_fails() -> None:
    member = Member()

    def failing() -> bool:
        member.now += 1000
        raise MemoryError("too large")

    with pytest.raises(MemoryError):
        member.cases.judged("hostile", failing)
    assert member.cases.spent
    member.cases.begin()
    assert member.cases.judged("hostile", failing) is None
