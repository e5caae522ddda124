# SPDX-License-Identifier: Apache-2.0
"""How a round's payloads are looked for, some of which nobody serves.

Rule: what is missing is looked for side by side, since a distant store searches a minute for each.
What was not there is looked for again after a pause as long as the whole reading took, of which
each search is a part: so a process spends at most half of its time on it, and sees at once what
comes to a store that answers at once. Else a third of a round's nodes that publish nothing would
hold every reader up until its time is over, one search after the other.

No payload is waited for longer than a search may take. What is still coming then counts as
unavailable for now: its reading goes on, and what it brings is taken when it is there. Else one
node that serves its payload slowly, but never so slowly that the store gives up, would hold every
reader up as long as it likes. Neither does it keep others from being read: it no longer counts as
one of those that are read at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

from agents.protocol.structs import Reveal
from agents.rounds.report import UNAVAILABLE
from agents.rounds.submissions import Submission

_WIDTH = 16  # artefacts that are read at once
_LONGEST_S = 60.0  # that a payload is waited for: a search of an IPFS store, by default
_KEPT_S = 3600.0  # after the pause is over; rounds that ended leave nothing behind
_COMING = f"{UNAVAILABLE}it is still coming"

_T = TypeVar("_T")
_Read = tuple[Submission, float]  # what was found, and when to look again if it is unavailable


def side_by_side(calls: Sequence[Callable[[], _T]], name: str) -> list[_T]:
    """What these return, in their order, each in a thread of its own; what one raises is raised.

    `name`: of the threads. One call alone is made in this thread.
    """
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(_WIDTH, name) as pool:
        return list(pool.map(lambda call: call(), calls))


class Searches:
    """The searches of one process. `clock`: seconds. `longest_s`: that a payload is waited for."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, longest_s: float = _LONGEST_S
    ) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._again_at: dict[Reveal, float] = {}
        self._coming: dict[Reveal, Future[_Read]] = {}

    def due(self, reveal: Reveal, kept: Submission | None) -> bool:
        """Whether to read a reveal now. `kept`: what was found of the node so far."""
        if kept is None or kept.reveal != reveal:
            return True
        if reveal in self._coming:
            return self._coming[reveal].done()
        return kept.unavailable and self._clock() >= self._again_at.get(reveal, 0.0)

    def forget(self) -> None:
        """Drop what is still coming: the same reveal would be read as something else now."""
        self._coming = {}

    def read(
        self,
        reveals: Sequence[Reveal],
        fetching: Callable[[Reveal], Callable[[], Submission]],
        together: bool = True,
    ) -> list[Submission]:
        """Read these, in their order. Raises StoreUnavailable when the store itself is down.

        `fetching`: makes, in this thread, what reads one. `together`: it may run in another.
        """
        began = self._clock()
        self._again_at = {one: at for one, at in self._again_at.items() if at >= began - _KEPT_S}
        if together:
            self._begin([(one, fetching(one)) for one in reveals if one not in self._coming])
            found = [self._taken(reveal) for reveal in reveals]
        else:
            found = [self._noted(self._timed(fetching(reveal))) for reveal in reveals]
        self._rest(found, began)
        return found

    def _begin(self, searches: Sequence[tuple[Reveal, Callable[[], Submission]]]) -> None:
        """Read these in threads of their own, a few at a time, and wait until all have ended or
        have taken too long."""
        running: dict[Future[_Read], float] = {}  # until when it is waited for, by real time
        due = list(reversed(searches))
        while due or running:
            while due and len(running) < _WIDTH:
                reveal, fetch = due.pop()
                self._coming[reveal] = begun = _in_thread(partial(self._timed, fetch))
                running[begun] = time.monotonic() + self._longest_s
            left = max(0.0, min(running.values()) - time.monotonic())
            wait(running, left, FIRST_COMPLETED)
            now = time.monotonic()
            running = {one: end for one, end in running.items() if not one.done() and end > now}

    def _rest(self, found: Sequence[Submission], began: float) -> None:
        """Look for nothing that was missing in this reading before it has rested as long as it
        took: else the first searches are due again when the last are over, and it never rests."""
        ended = self._clock()
        for reveal in [one.reveal for one in found if one.unavailable]:
            own = self._again_at.get(reveal, 0.0)
            self._again_at[reveal] = max(own, ended + (ended - began))

    def _taken(self, reveal: Reveal) -> Submission:
        """What the search for a payload brought, or that it is still coming."""
        if not self._coming[reveal].done():
            return Submission(reveal, None, _COMING)
        return self._noted(self._coming.pop(reveal).result())

    def _timed(self, fetch: Callable[[], Submission]) -> _Read:
        began = self._clock()
        found = fetch()
        ended = self._clock()
        return found, ended + (ended - began)

    def _noted(self, read: _Read) -> Submission:
        """Note, in the caller's thread, when to look again for what was not there."""
        found, again_at = read
        if found.unavailable:
            self._again_at[found.reveal] = again_at
        else:
            self._again_at.pop(found.reveal, None)
        return found


def _in_thread(call: Callable[[], _T]) -> Future[_T]:
    """What a call in a thread of its own will return or raise."""
    promised: Future[_T] = Future()

    def run() -> None:
        try:
            promised.set_result(call())
        except BaseException as error:
            promised.set_exception(error)

    # A daemon: a payload that is still coming must never keep a stopped agent alive.
    threading.Thread(target=run, name="payload", daemon=True).start()
    return promised
