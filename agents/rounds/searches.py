# SPDX-License-Identifier: Apache-2.0
"""How a round's payloads are looked for, some of which nobody serves.

Rule: what is missing is looked for side by side, since a distant store searches a minute for each.
What was not there is looked for again after a pause as long as its search took: so a process spends
at most half of its time on it, and sees at once what comes to a store that answers at once. Else a
third of a round's nodes that publish nothing would hold every reader up until its time is over, one
search after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from agents.protocol.structs import Reveal
from agents.rounds.submissions import Submission

_WIDTH = 16  # artefacts that are read at once
_KEPT_S = 3600.0  # after the pause is over; rounds that ended leave nothing behind

_T = TypeVar("_T")


def side_by_side(calls: Sequence[Callable[[], _T]], name: str) -> list[_T]:
    """What these return, in their order, each in a thread of its own; what one raises is raised.

    `name`: of the threads. One call alone is made in this thread.
    """
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(_WIDTH, name) as pool:
        return list(pool.map(lambda call: call(), calls))


class Searches:
    """The searches of one process. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._again_at: dict[Reveal, float] = {}

    def due(self, reveal: Reveal, kept: Submission | None) -> bool:
        """Whether to read a reveal now. `kept`: what was found of the node so far."""
        if kept is None or kept.reveal != reveal:
            return True
        return kept.unavailable and self._clock() >= self._again_at.get(reveal, 0.0)

    def read(
        self,
        reveals: Sequence[Reveal],
        fetching: Callable[[Reveal], Callable[[], Submission]],
        together: bool = True,
    ) -> list[Submission]:
        """Read these, in their order. Raises StoreUnavailable when the store itself is down.

        `fetching`: makes, in this thread, what reads one. `together`: it may run in another.
        """

        def read(fetch: Callable[[], Submission]) -> Submission:
            began = self._clock()
            found = fetch()
            now = self._clock()
            if found.unavailable:
                self._again_at[found.reveal] = now + (now - began)
            else:
                self._again_at.pop(found.reveal, None)
            return found

        oldest = self._clock() - _KEPT_S
        self._again_at = {one: at for one, at in self._again_at.items() if at >= oldest}
        calls = [fetching(reveal) for reveal in reveals]
        if not together:
            return [read(call) for call in calls]
        return side_by_side([partial(read, call) for call in calls], "payloads")
