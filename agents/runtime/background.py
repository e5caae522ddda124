# SPDX-License-Identifier: Apache-2.0
"""Slow work beside the loop: one job at a time, in one thread.

Rule: the loop never waits for it. It names what it wants done, most urgent first, at every step,
and takes what has finished. A job that fails is tried again later, each time after twice the pause;
whether it is still wanted, the next step says.
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
        self._running: str | None = None
        self._ended: tuple[str, Any, Exception | None] | None = None
        self._pauses: dict[str, tuple[float, float]] = {}  # name -> pause, not before
        self._guard = threading.Lock()
        self._queue: queue.SimpleQueue[tuple[str, Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> str | None:
        """The job in hand, also when it has ended and was not taken yet."""
        return self._running

    def want(self, jobs: Mapping[str, Callable[[], Any]]) -> None:
        """Start the first of these jobs that may be tried now, unless one is in hand."""
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in jobs}
        if self._running is not None:
            return
        now = time.monotonic()
        for name, job in jobs.items():
            if now >= self._pauses.get(name, (0.0, 0.0))[1]:
                self._running = name
                if self._thread is None:
                    # A daemon: it must never keep a stopped agent alive.
                    self._thread = threading.Thread(target=self._serve, daemon=True)
                    self._thread.start()
                self._queue.put((name, job))
                return

    def take(self) -> tuple[str, Any] | None:
        """Name and outcome of the job that ended since the last call; None if none did well."""
        with self._guard:
            ended, self._ended = self._ended, None
        if ended is None:
            return None
        name, outcome, error = ended
        self._running = None
        if error is None:
            self._pauses.pop(name, None)
            return name, outcome
        pause = min(2 * self._pauses.get(name, (_PAUSE_S / 2, 0.0))[0], _PAUSE_MAX_S)
        self._pauses[name] = (pause, time.monotonic() + pause)
        self._on_error(name, error)
        return None

    def _serve(self) -> None:
        while True:
            self._run(*self._queue.get())

    def _run(self, name: str, job: Callable[[], Any]) -> None:
        outcome, failure = None, None
        try:
            outcome = job()
        except Exception as error:
            failure = error
        with self._guard:
            self._ended = (name, outcome, failure)
        self._wake()
