# SPDX-License-Identifier: Apache-2.0
"""Explanations of a job's rounds for the page, by `agents.audit.explain`.

Rule: they are read from the chain, not from the index: what the page says about a payment does not
rest on how the index folds events. They are kept until the index has seen a further event, and
made by one thread at a time for each job. So many threads at most are at it or wait for it: the
server's others go on answering what costs little.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

import sqlalchemy as sa

from agents.audit.explain import Explainer
from agents.audit.sources.record import Record
from agents.runtime.errors import AgentError
from scripts._web.api.site import Site
from scripts._web.index.reading import Reading
from scripts._web.index.tables import EVENTS

_MOST = 32  # jobs whose explanations are kept
_AT_ONCE = 16  # requests of all jobs; the server has 40 threads


class TooManyExplanations(AgentError):
    """Nobody else is told reasons at the moment."""


@dataclass
class _Kept:
    """The explainer of a job, as of the event `version`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    version: Hashable = None
    explainer: Explainer | None = None


_jobs: OrderedDict[tuple[str, str, int], _Kept] = OrderedDict()
_guard = threading.Lock()
_turns = threading.BoundedSemaphore(_AT_ONCE)


class Explaining:
    """The explainer of a job, which one thread may use while it is entered."""

    def __init__(self, site: Site, look: Reading, job_id: int) -> None:
        self._site, self._job_id = site, job_id
        newest = sa.select(EVENTS.c.block, EVENTS.c.log_index, EVENTS.c.tx)
        newest = newest.order_by(EVENTS.c.block.desc(), EVENTS.c.log_index.desc()).limit(1)
        row = look.one(newest)
        self._version = None if row is None else tuple(row.values())
        key = (site.identity, str(site.engine.url), job_id)
        with _guard:
            self._kept = _jobs.setdefault(key, _Kept())
            _jobs.move_to_end(key)
            while len(_jobs) > _MOST:
                _jobs.popitem(last=False)

    def __enter__(self) -> Explainer:
        """Raises AgentError: the chain can't be read, or too many ask."""
        if not _turns.acquire(blocking=False):
            raise TooManyExplanations("Too many ask for reasons; try again in a moment.")
        self._kept.lock.acquire()
        try:
            if self._kept.explainer is None or self._kept.version != self._version:
                self._kept.explainer = Explainer(Record(self._site.network, self._job_id))
                self._kept.version = self._version
            return self._kept.explainer
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *reason: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._kept.lock.release()
        _turns.release()
