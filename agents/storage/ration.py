# SPDX-License-Identifier: Apache-2.0
"""How long a distant store may search for what it does not find.

A search that finds nothing lasts as long as it may, and whoever asks waits. A stranger that names
what nobody has would so hold a reader up, once for each such name. So fruitless searches share a
credit of seconds. It is as much as two of the longest, and comes back at a quarter of a second a
second. A search may last as long as half of what is left, and `FLOOR_S` in any case: what an honest
node serves is found in that time, whatever strangers named before.

What was not found is searched for `LEAST_S` for a while: as long as the search lasted, then four
times as long, never longer than the longest search. It is asked for in any case, since a stranger
may name content before its maker publishes it. Such short searches count for nothing.

With searches of 60 s, twenty names that nobody has take 60, 30 and then 15 s each, once.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

FLOOR_S: Final = 15.0
LEAST_S: Final = 2.0
_SHORT_S: Final = 0.5  # a search that costs nothing
_CREDIT: Final = 2.0  # of the longest search
_BACK: Final = 0.25  # seconds of credit a second
_LONGER: Final = 4.0  # times, each further pause
_KEPT: Final = 4_096  # names


class Ration:
    """What is left for the searches of one store; threads may share it.

    longest_s: of one search.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest = longest_s
        self._credit = self._all = _CREDIT * longest_s
        self._at = time.monotonic()
        self._counted = 0.0  # until when fruitless searches are counted: some go side by side
        self._missed: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def length(self, name: bytes) -> float:
        """Seconds that a search for something may last which begins now."""
        with self._lock:
            self._refill()
            if self._rests(name, time.monotonic()):
                return min(self._longest, LEAST_S)
            return min(self._longest, max(FLOOR_S, self._credit / 2))

    def missed(self, name: bytes, began: float) -> None:
        """Count a search that found nothing. ``began``: by `time.monotonic`."""
        now = time.monotonic()
        if now - began < _SHORT_S:
            return
        with self._lock:
            if self._rests(name, began):
                return
            self._refill()
            self._credit = max(0.0, self._credit - max(0.0, now - max(began, self._counted)))
            self._counted = now
            _, before = self._missed.pop(name, (0.0, 0.0))
            rest = min(self._longest, _LONGER * before if before else now - began)
            self._missed[name] = now + rest, rest
            while len(self._missed) > _KEPT:
                self._missed.popitem(last=False)

    def found(self, name: bytes) -> None:
        """All of it is there."""
        with self._lock:
            self._missed.pop(name, None)

    def _rests(self, name: bytes, at: float) -> bool:
        return at < self._missed.get(name, (0.0, 0.0))[0]

    def _refill(self) -> None:
        now = time.monotonic()
        self._credit = min(self._all, self._credit + _BACK * (now - self._at))
        self._at = now
