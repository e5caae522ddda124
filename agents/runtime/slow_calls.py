# SPDX-License-Identifier: Apache-2.0
"""Calls of which some take long, side by side, none of them waited for longer than is stated.

Rule: a call that has not ended by then goes on in its thread, and its result can be taken later. It
no longer counts as one of those that run at once, so it keeps no other from being begun. Else one
node that serves its file slowly, but never so slowly that the store gives up, would hold up whoever
reads it as long as it likes.

What nobody will take any more is told to end (`agents.storage.patience`). Else each such node has
one more thread, and what it has sent, stay with a reader that has gone on, round after round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Generic, TypeVar

from agents.storage.patience import ends_with

WIDTH = 16
"""Calls that run at once."""

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class SlowCalls(Generic[_K, _V]):
    """Calls by key that were begun and whose results were not taken yet.

    longest_s: that one is waited for, by real time. name: of the threads.
    """

    def __init__(self, longest_s: float, name: str) -> None:
        self._longest_s, self._name = longest_s, name
        self._begun: dict[_K, Future[_V]] = {}
        self._given_up = threading.Event()  # of all that were begun since `forget`

    def __contains__(self, key: object) -> bool:
        return key in self._begun

    def __len__(self) -> int:
        return len(self._begun)

    def ended(self, key: _K) -> bool:
        """Whether a call that was begun has ended."""
        return self._begun[key].done()

    def run(self, calls: Mapping[_K, Callable[[], _V]]) -> None:
        """Begin these, a few at a time, and wait until all have ended or have taken too long."""
        running: dict[Future[_V], float] = {}  # until when it is waited for
        due = [*calls.items()][::-1]
        while due or running:
            while due and len(running) < WIDTH:
                key, call = due.pop()
                self._begun[key] = begun = _in_thread(call, self._name, self._given_up)
                running[begun] = time.monotonic() + self._longest_s
            left = max(0.0, min(running.values()) - time.monotonic())
            wait(running, left, FIRST_COMPLETED)
            now = time.monotonic()
            running = {one: end for one, end in running.items() if not one.done() and end > now}

    def wait(self, key: _K, seconds: float) -> None:
        """Wait so long for a call to end, in any thread; not at all if it was taken."""
        begun = self._begun.get(key)
        if begun is not None:
            wait([begun], seconds)

    def take(self, key: _K) -> _V:
        """What a call that has ended returned; what it raised is raised."""
        return self._begun.pop(key).result(timeout=0)

    def take_ended(self) -> dict[_K, _V]:
        """The same of all that have ended."""
        return {key: self.take(key) for key in [*self._begun] if self.ended(key)}

    def drop_ended(self, but: Container[_K]) -> None:
        """Take no result of those that have ended, but of these."""
        for key in [*self._begun]:
            if key not in but and self.ended(key):
                del self._begun[key]

    def forget(self) -> None:
        """Take no result of what was begun until now: what it reads from a store ends."""
        self._given_up.set()
        self._begun, self._given_up = {}, threading.Event()


def _in_thread(call: Callable[[], _V], name: str, given_up: threading.Event) -> Future[_V]:
    promised: Future[_V] = Future()

    def run() -> None:
        try:
            with ends_with(given_up):
                promised.set_result(call())
        except BaseException as error:
            promised.set_exception(error)

    # A daemon: what still runs must never keep a stopped agent alive.
    threading.Thread(target=run, name=name, daemon=True).start()
    return promised
