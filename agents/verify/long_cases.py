# SPDX-License-Identifier: Apache-2.0
"""Cases that take a committee member long to judge: none of them holds the others up.

A member judges one case after the other. A stranger's job can make one last for hours, and a case
of another job is lost when its deadline passes.

Rule: after a case that took long no other is judged in the same step, so what has come up meanwhile
is looked at before. A verdict that took long is not worked out again. Where there was none, the
next try waits until all other cases have been looked at, and as long as this one took, and twice as
long as each other such case took. So cases that never end hold nobody up, however many they are,
and a member spends at most half of its time on all of them together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

_LONG_S = 60.0
_OVER_S = 3_600.0  # beyond its rest and what it took: a case that was not asked for so long is over

T = TypeVar("T")


@dataclass(frozen=True)
class _Try:
    """A try without a verdict. `took`: seconds. `due`: when the next one is. `round`: how often all
    cases had been looked at."""

    took: float
    due: float
    round: int

    @property
    def over(self) -> float:
        """When the case is over, if it is not asked for meanwhile."""
        return self.due + self.took + _OVER_S


class LongCases:
    """The cases of one member. `clock`: seconds.

    Attributes:
        spent: whether this step has judged a case that took long.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._verdicts: dict[Hashable, Any] = {}
        self._fruitless: dict[Hashable, _Try] = {}
        self._rounds = 0  # how often all cases were looked at
        self.spent = False

    def begin(self) -> None:
        """Begin a step."""
        self.spent = False
        now = self._clock()
        self._fruitless = {one: t for one, t in self._fruitless.items() if now <= t.over}

    def end(self) -> None:
        """All cases have been looked at in this step."""
        self._rounds += not self.spent

    def knows(self, case: Hashable) -> bool:
        """Whether there is a verdict on a case that is kept."""
        return case in self._verdicts

    def judged(
        self, case: Hashable, judge: Callable[[], T | None], final: bool = False
    ) -> T | None:
        """What `judge` says of a case; None for no verdict yet. Raises what `judge` raises.

        `final`: a verdict is kept however little it took.
        """
        if case in self._verdicts:
            kept: T = self._verdicts[case]
            return kept
        if self.spent or not self._may(case):
            return None
        self._fruitless.pop(case, None)
        began, found = self._clock(), None
        try:
            found = judge()
        finally:
            took = self._clock() - began
            self.spent = took > _LONG_S
            if self.spent and found is None:
                others = sum(one.took for one in self._fruitless.values())
                due = self._clock() + took + 2 * others
                self._fruitless[case] = _Try(took, due, self._rounds)
        if found is not None and (final or self.spent):
            self._verdicts[case] = found
        return found

    def _may(self, case: Hashable) -> bool:
        last = self._fruitless.get(case)
        return last is None or (self._clock() >= last.due and self._rounds > last.round)
