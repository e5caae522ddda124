# SPDX-License-Identifier: Apache-2.0
"""Several duties of one agent take turns; what one of them fails at holds up no other.

Rule: the duties are tried in the order given, but the one that acted last is tried last, so that a
job that keeps its nodes busy takes no more than its turn. A duty that fails is left alone for a
while, with growing pauses. If no duty acts and none is left that works, the first error is raised,
for the loop to report and to wait on. A full disk is such a failure of one duty too: what another
one has to reveal is on disk already, and costs stake if it waits for room. A duty that takes no
turns, since it always comes before or after the others, fails by itself too (`Aside`).
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
                if _ends(caught):
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
        what = _sentence(error)
        before, pause, _ = self._trouble.get(job, ("", 0.0, 0.0))
        pause = _longer(pause)
        self._trouble[job] = (what, pause, time.monotonic() + pause)
        if several:
            self._metrics.error(type(error).__name__, str(error))
        if several and what != before:
            _say(self._log, "job_failed", error, job=job)


class Aside:
    """One duty of an agent beside its others: what it fails at is logged and held against none of
    them, and it is left alone for a while then. `name`: what the log calls it."""

    def __init__(self, name: str, log: Log, metrics: Metrics) -> None:
        self._name = name
        self._log = log
        self._metrics = metrics
        self._trouble, self._pause, self._until = "", 0.0, 0.0

    def step(self, duty: Duty) -> str | None:
        """Do the duty; what was done. Raises only what ends the agent."""
        if time.monotonic() < self._until:
            return None
        try:
            did = duty()
        except Exception as error:
            if _ends(error):
                raise
            self._note(error)
            return None
        self._trouble, self._pause = "", 0.0
        return did

    def _note(self, error: Exception) -> None:
        before, self._trouble = self._trouble, _sentence(error)
        self._pause = _longer(self._pause)
        self._until = time.monotonic() + self._pause
        self._metrics.error(type(error).__name__, str(error))
        if self._trouble != before:
            _say(self._log, "duty_failed", error, duty=self._name)


def _ends(error: Exception) -> bool:
    """Whether waiting can't mend it."""
    return isinstance(error, _ENDING) and not isinstance(error, JournalFull)


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _longer(pause: float) -> float:
    return min(max(2 * pause, _PAUSE_MIN_S), _PAUSE_MAX_S)


def _say(log: Log, event: str, error: Exception, **whose: int | str) -> None:
    """Log an error that is being handled."""
    if isinstance(error, JournalFull):
        log.error("journal_full", **whose, why=str(error))
    elif isinstance(error, AgentError | StoreError):
        log.warning(event, **whose, why=_sentence(error))
    else:
        where = traceback.format_exc(limit=-6)
        log.error(event, **whose, why=_sentence(error), traceback=where)
