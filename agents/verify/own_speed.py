# SPDX-License-Identifier: Apache-2.0
"""How long a committee member takes to recompute a result, by those that it has recomputed.

A job's spec says how many operations a result takes. How many this machine does in a second, no
spec says: a GPU does a thousand times as many as a small CPU.

Rule: what counts is the seconds taken over the seconds reckoned at the usual speed: those of the
same job where it has been recomputed here, else the median of all jobs, and 1 before the first. A
job counts once, so no sponsor alone decides what others' jobs are taken for. Only a result that was
found right counts, since a wrong one may show before anything is computed. Of several tries at one
round the longest counts: what the first has computed, the next finds in memory. What is reckoned at
less than a minute says nothing, since reading may take longer.

A sponsor can still make its own job seem longer or shorter than it is. So this decides in which
order cases are judged, and never whether.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median_low
from typing import TypeVar

_LEAST_S = 60.0
_JOBS = 64  # that are remembered, the newest

K = TypeVar("K")
V = TypeVar("V")


class OwnSpeed:
    """One member's, kept in memory. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ratios: dict[int, float] = {}  # by job: seconds taken over seconds reckoned
        self._tries: dict[int, tuple[int, float]] = {}  # by job: the newest round, its longest try

    def expected(self, job_id: int, reckoned: float) -> float:
        """Seconds that a result takes here which is reckoned at so many."""
        if not self._ratios:
            return reckoned
        usual = median_low(self._ratios.values())
        return reckoned * self._ratios.get(job_id, usual)

    def timed(
        self, job_id: int, number: int, reckoned: float, judge: Callable[[], list[str] | None]
    ) -> list[str] | None:
        """What `judge` says of the result of a round, which is noted with the time it took. Raises
        what `judge` raises."""
        began = self._clock()
        try:
            wrong = judge()
        finally:
            before = self._tries.get(job_id, (number, 0.0))
            longest = before[1] if before[0] == number else 0.0
            longest = max(longest, self._clock() - began)
            _keep(self._tries, job_id, (number, longest))
        if wrong == [] and reckoned >= _LEAST_S:
            _keep(self._ratios, job_id, longest / reckoned)
        return wrong


def _keep(of: dict[K, V], key: K, value: V) -> None:
    """Note it as the newest one, and forget the oldest."""
    of.pop(key, None)
    of[key] = value
    while len(of) > _JOBS:
        del of[next(iter(of))]
