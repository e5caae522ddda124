# SPDX-License-Identifier: Apache-2.0
"""Slow work beside the loop, in threads of its own.

Rule: the loop never waits for it. At every step the loop names what it wants done, most urgent
first, and takes what has finished. A job that fails is tried again after a pause, which doubles
each time. A job that a step no longer names is dropped.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_PAUSE_S = 2.0
_PAUSE_MAX_S = 60.0


class Background:
    """`wake` is called when a job ends; `on_error(name, error)` in the loop's thread by `take`."""

    def __init__(
        self, wake: Callable[[], None], on_error: Callable[[str, Exception], None]
    ) -> None:
        self._wake = wake
        self._on_error = on_error
        self._running: set[str] = set()
        self._pauses: dict[str, tuple[float, float]] = {}  # name -> pause, since when
        self._queue: queue.SimpleQueue[tuple[str, Callable[[], Any]]] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[str, Any, Exception | None]] = queue.SimpleQueue()
        self._threads = 0

    @property
    def running(self) -> frozenset[str]:
        """The jobs in hand, those too that have ended and were not taken yet."""
        return frozenset(self._running)

    def want(
        self,
        jobs: Mapping[str, Callable[[], Any]],
        width: int = 1,
        longest: Mapping[str, float] | None = None,
    ) -> None:
        """Start the first of these jobs that may be tried now, while fewer than `width` run.

        `longest`: seconds by job that its pause lasts at most, whatever it has doubled to.
        """
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in jobs}
        now = time.monotonic()
        for name, job in jobs.items():
            if len(self._running) >= width:
                return
            pause, begun = self._pauses.get(name, (0.0, now))
            due = begun + min(pause, (longest or {}).get(name, pause))
            if name not in self._running and now >= due:
                self._running.add(name)
                if self._threads < len(self._running):
                    self._threads += 1
                    # A daemon: it must never keep a stopped agent alive.
                    threading.Thread(target=self._serve, daemon=True).start()
                self._queue.put((name, job))

    def take(self) -> tuple[str, Any] | None:
        """Name and outcome of a job that ended well and was not taken yet; None if there is none.

        A job that failed on the way there is reported and will be tried again.
        """
        while True:
            try:
                name, outcome, error = self._ended.get_nowait()
            except queue.Empty:
                return None
            self._running.discard(name)
            if error is None:
                self._pauses.pop(name, None)
                return name, outcome
            pause = min(2 * self._pauses.get(name, (_PAUSE_S / 2, 0.0))[0], _PAUSE_MAX_S)
            self._pauses[name] = (pause, time.monotonic())
            self._on_error(name, error)

    def _serve(self) -> None:
        while True:
            name, job = self._queue.get()
            outcome, failure = None, None
            try:
                outcome = job()
            except Exception as error:
                failure = error
            self._ended.put((name, outcome, failure))
            self._wake()
