# SPDX-License-Identifier: Apache-2.0
"""Several duties of one agent take turns; what one of them fails at holds up no other.

Rule: the duties are tried in the order given, but the one that acted last is tried last, so that a
job that keeps its nodes busy takes no more than its turn. A duty that fails is left alone for a
while, with growing pauses. If no duty acts and none is left that works, the first error is raised,
for the loop to report and to wait on. A full disk is such a failure of one duty too: what another
one has to reveal is on disk already, and costs stake if it waits for room.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping

from agents.runtime.errors import (
    AgentError,
    ConfigError,
    JournalError,
    JournalFull,
    Stopped,
    WalletError,
)
from agents.runtime.logs import Log
from agents.runtime.metrics import Metrics
from agents.storage.errors import StoreError

Duty = Callable[[], str | None]

_ENDING = (Stopped, ConfigError, WalletError, JournalError)  # they end the agent
_PAUSE_MIN_S = 0.5
_PAUSE_MAX_S = 30.0


class Turns:
    """The turns of duties, each known by its job's id."""

    def __init__(self, log: Log, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics
        self._last = 0
        self._trouble: dict[int, tuple[str, float, float]] = {}  # what, pause, until when

    def step(self, duties: Mapping[int, Duty]) -> str | None:
        """Do the first thing that one of the duties finds to do; what was done."""
        self._trouble = {job: t for job, t in self._trouble.items() if job in duties}
        error: Exception | None = None
        working = 0
        for job in sorted(duties, key=lambda job: job == self._last):
            wait_until = self._trouble.get(job, ("", 0.0, 0.0))[2]
            if len(duties) > 1 and time.monotonic() < wait_until:
                continue
            try:
                did = duties[job]()
            except Exception as caught:
                if isinstance(caught, _ENDING) and not isinstance(caught, JournalFull):
                    raise
                error = error or caught
                self._note(job, caught, len(duties) > 1)
                continue
            working += 1
            self._trouble.pop(job, None)
            if did is not None:
                self._last = job
                return did
        if error is not None and not working:
            raise error
        return None

    def _note(self, job: int, error: Exception, several: bool) -> None:
        """Remember the trouble; say it once, unless the loop will (there is one duty only)."""
        what = f"{type(error).__name__}: {error}"
        before, pause, _ = self._trouble.get(job, ("", 0.0, 0.0))
        pause = min(max(2 * pause, _PAUSE_MIN_S), _PAUSE_MAX_S)
        self._trouble[job] = (what, pause, time.monotonic() + pause)
        if not several:
            return
        self._metrics.error(type(error).__name__, str(error))
        if what == before:
            return
        if isinstance(error, JournalFull):
            self._log.error("journal_full", job=job, why=str(error))
        elif isinstance(error, AgentError | StoreError):
            self._log.warning("job_failed", job=job, why=what)
        else:
            where = traceback.format_exc(limit=-6)
            self._log.error("job_failed", job=job, why=what, traceback=where)
