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
    member.cases.begin()
    assert member.judge("lost", 1000, None) is None and member.judged == ["lost"]
    member.now = 2000.0
    assert member.judge("lost", 1, True) is True


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
