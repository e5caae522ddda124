# SPDX-License-Identifier: Apache-2.0
"""How a round's payloads are looked for, some of which nobody serves.

Rule: what is missing is looked for side by side, since a distant store searches a minute for each.
What was not there is looked for again after a pause as long as the whole reading took, of which
each search is a part: so a process spends at most half of its time on it, and sees at once what
comes to a store that answers at once. Else a third of a round's nodes that publish nothing would
hold every reader up until its time is over, one search after the other.

No payload is waited for longer than a search may take (`agents.runtime.slow_calls`). What is still
coming then counts as unavailable for now, and what it brings is taken when it is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from agents.protocol.structs import Reveal
from agents.rounds.report import UNAVAILABLE
from agents.rounds.submissions import Submission
from agents.runtime.slow_calls import SlowCalls

_LONGEST_S = 60.0  # that a payload is waited for: a search of an IPFS store, by default
_KEPT_S = 3600.0  # after the pause is over; rounds that ended leave nothing behind
_COMING = f"{UNAVAILABLE}it is still coming"

_Read = tuple[Submission, float]  # what was found, and when to look again if it is unavailable


class Searches:
    """The searches of one process. `clock`: seconds. `longest_s`: that a payload is waited for."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, longest_s: float = _LONGEST_S
    ) -> None:
        self._clock = clock
        self._again_at: dict[Reveal, float] = {}
        self._coming = SlowCalls[Reveal, _Read](longest_s, "payload")

    def due(self, reveal: Reveal, kept: Submission | None) -> bool:
        """Whether to read a reveal now. `kept`: what was found of the node so far."""
        if kept is None or kept.reveal != reveal:
            return True
        if reveal in self._coming:
            return self._coming.ended(reveal)
        return kept.unavailable and self._clock() >= self._again_at.get(reveal, 0.0)

    def forget(self) -> None:
        """Drop what is still coming: the same reveal would be read as something else now."""
        self._coming.forget()

    def read(
        self,
        reveals: Sequence[Reveal],
        fetching: Callable[[Reveal], Callable[[], Submission]],
    ) -> list[Submission]:
        """Read these, in their order. Raises StoreUnavailable when the store itself is down.

        `fetching`: makes, in this thread, what reads one in another.
        """
        began = self._clock()
        self._again_at = {one: at for one, at in self._again_at.items() if at >= began - _KEPT_S}
        fresh = (one for one in reveals if one not in self._coming)
        self._coming.run({one: partial(self._timed, fetching(one)) for one in fresh})
        found = [self._taken(reveal) for reveal in reveals]
        self._rest(found, began)
        return found

    def _rest(self, found: Sequence[Submission], began: float) -> None:
        """Look for nothing that was missing in this reading before it has rested as long as it
        took: else the first searches are due again when the last are over, and it never rests."""
        ended = self._clock()
        for reveal in [one.reveal for one in found if one.unavailable]:
            own = self._again_at.get(reveal, 0.0)
            self._again_at[reveal] = max(own, ended + (ended - began))

    def _taken(self, reveal: Reveal) -> Submission:
        """What the search for a payload brought, or that it is still coming."""
        if not self._coming.ended(reveal):
            return Submission(reveal, None, _COMING)
        return self._noted(self._coming.take(reveal))

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
