# SPDX-License-Identifier: Apache-2.0
"""How often somebody may ask for something that costs this machine work.

Rule: each client has so many goes that come back with time, and so have all clients together. The
clients that are remembered are bounded; one that was forgotten has all its goes again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_REMEMBERED = 10_000


@dataclass
class _Bucket:
    goes: float
    at: float


class Goes:
    """`each`, `all`: how many goes a minute one client has, and all together."""

    def __init__(self, each: int, all: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._all, self._clock = each, all, clock
        self._guard = threading.Lock()
        self._everybody = _Bucket(all, clock())
        self._clients: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Take a go: 0 if there was one, else the seconds until there is."""
        with self._guard:
            now = self._clock()
            mine = self._clients.pop(client, None) or _Bucket(self._each, now)
            self._clients[client] = mine
            while len(self._clients) > _REMEMBERED:
                self._clients.popitem(last=False)
            pairs = ((mine, self._each), (self._everybody, self._all))
            for bucket, most in pairs:
                bucket.goes = min(most, bucket.goes + (now - bucket.at) * most / 60)
                bucket.at = now
            wait = max((1 - bucket.goes) * 60 / most for bucket, most in pairs)
            if wait > 0:
                return wait
            for bucket, _ in pairs:
                bucket.goes -= 1
            return 0.0
