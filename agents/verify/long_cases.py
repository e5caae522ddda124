# SPDX-License-Identifier: Apache-2.0
"""Cases that take a committee member long to judge: none of them holds the others up.

A member judges one case after the other. A stranger's job can make one last for hours, and a case
of another job is lost when its deadline passes.

Rule: after a case that took long no other is judged in the same step, so what has come up meanwhile
is looked at before. A verdict that took long is not worked out again. Where there was none, the
next try waits as long as that one took: so a member spends at most half of its time on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_LONG_S = 60.0

T = TypeVar("T")


class LongCases:
    """The cases of one member. `clock`: seconds.

    Attributes:
        spent: whether this step has judged a case that took long.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._verdicts: dict[Hashable, Any] = {}
        self._not_before: dict[Hashable, float] = {}
        self.spent = False

    def begin(self) -> None:
        """Begin a step."""
        self.spent = False

    def judged(self, case: Hashable, judge: Callable[[], T | None]) -> T | None:
        """What `judge` says of a case; None for no verdict yet. Raises what `judge` raises."""
        if case in self._verdicts:
            kept: T = self._verdicts[case]
            return kept
        began = self._clock()
        if self.spent or began < self._not_before.get(case, 0.0):
            return None
        found: T | None = None
        try:
            found = judge()
        finally:
            took = self._clock() - began
            if took > _LONG_S:
                self.spent = True
                self._not_before[case] = self._clock() + took
        if found is not None and self.spent:
            self._verdicts[case] = found
        return found
