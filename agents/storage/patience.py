# SPDX-License-Identifier: Apache-2.0
"""How long and how often one operation on a distant store may try.

Time and tries are used up. Bytes that move win back time, bytes received also tries, up to what the
operation had at its start. So an operation ends soon after its bytes stop or come too slowly, and
in any case after its time plus what its bytes take at the least rate. It also ends when nobody
waits for it any more: else whoever sends at that rate has each operation of a reader that has gone
on hold what came, one beside the other.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LEAST_RATE: Final = 64 << 10  # bytes a second that a transfer must keep up
BYTES_A_TRY: Final = 1 << 20  # bytes that pay for one more request

_waiting = threading.local()  # .given_up: for what this thread begins


@contextmanager
def ends_with(given_up: threading.Event) -> Iterator[None]:
    """What this thread begins inside has no time left once `given_up` is set."""
    _waiting.given_up = given_up
    try:
        yield
    finally:
        del _waiting.given_up


class Patience:
    """What is left of one operation.

    seconds: how long nothing at all may move. tries: how many requests may bring nothing.
    pause_s: the pause after the first fruitless request; it doubles with each one.
    until: when the operation ends whatever moves, as `time.monotonic` counts.

    Attributes:
        seconds: as given.
        doubtful: whether the newest request may have failed for what was asked for, and not for who
            was asked: nothing came in time, the answer was a reason in words, or the server broke
            off as often as it was asked, also once it was seen to work.
        looks_again: whether there is one more request, once the server is seen to work.
    """

    def __init__(self, seconds: float, tries: int, pause_s: float, until: float = math.inf) -> None:
        self.seconds = seconds
        self._until = until
        self._end = min(time.monotonic() + seconds, until)
        self._tries = self._all_tries = float(tries)
        self._pause_s = pause_s
        self._given_up: threading.Event | None = getattr(_waiting, "given_up", None)
        self.doubtful = self.looks_again = False

    @property
    def given_up(self) -> bool:
        """Whether nobody waits for the operation any more."""
        return self._given_up is not None and self._given_up.is_set()

    def left(self) -> float:
        """Seconds until the operation has to end; 0 when it is over."""
        if self.given_up:
            return 0.0
        return max(0.0, self._end - time.monotonic())

    def reach(self) -> int:
        """Bytes that take no longer than the time left, if they come at the least rate."""
        return int(self.left() * LEAST_RATE)

    def sent(self, count: int) -> None:
        """Count bytes that were sent. They win no tries: another try sends them all again."""
        latest = min(time.monotonic() + self.seconds, self._until)
        self._end = min(latest, self._end + count / LEAST_RATE)

    def received(self, count: int) -> None:
        """Count bytes that were received."""
        self.sent(count)
        self._tries = min(self._all_tries, self._tries + count / BYTES_A_TRY)

    def again(self) -> bool:
        """Use up one try; whether there are another one and time for it."""
        self._tries -= 1
        return self._tries >= 1 and self.left() > 0

    def pause(self) -> None:
        """Wait before the next try, at most as long as time is left."""
        spent = max(1, round(self._all_tries - self._tries))
        time.sleep(min(self._pause_s * 2 ** (spent - 1), self.left()))
