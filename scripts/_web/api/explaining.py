# SPDX-License-Identifier: Apache-2.0
"""Explanations of a job's rounds for the page, by `agents.audit.explain`.

Rule: they are read from the chain, not from the index: what the page says about a payment does not
rest on how the index folds events. They are kept until the index has seen a further event, and
made by one thread at a time for each job. Who waits for it counts as one that asks the chain
(`Site.asked`), and waits for so long.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import ExitStack
from dataclasses import dataclass, field

import sqlalchemy as sa

from agents.audit.explain import Explainer
from agents.audit.sources.record import Record
from agents.runtime.errors import AgentError
from scripts._web.api.site import Site
from scripts._web.index.reading import Reading
from scripts._web.index.tables import EVENTS

_MOST = 32  # jobs whose explanations are kept
_PATIENCE_S = 20.0  # for whoever is told reasons of the same job


class Busy(AgentError):
    """Another reader is being told reasons of the same job, and it takes long."""


@dataclass
class _Kept:
    """The explainer of a job, as of the event `version`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    version: Hashable = None
    explainer: Explainer | None = None


_jobs: OrderedDict[tuple[str, str, int], _Kept] = OrderedDict()
_guard = threading.Lock()


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
        with ExitStack() as entered:
            network = entered.enter_context(self._site.asked())
            if not self._kept.lock.acquire(timeout=_PATIENCE_S):
                raise Busy("Others are told reasons of this job; try again in a moment.")
            entered.callback(self._kept.lock.release)
            if self._kept.explainer is None or self._kept.version != self._version:
                self._kept.explainer = Explainer(Record(network, self._job_id))
                self._kept.version = self._version
            self._entered = entered.pop_all()
            return self._kept.explainer

    def __exit__(self, *reason: object) -> None:
        self._entered.close()
