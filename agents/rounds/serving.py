# SPDX-License-Identifier: Apache-2.0
"""The jobs that a verifier or an aggregator serves: several at once, each with its own state.

Rule: with `job_id` set, that job alone. Else every live job that the rule in `agents.jobs.choice`
accepts, the best paid first, `max_jobs` at a time. A job that was served stays until what is left
of it is done (slashes, reports). One whose running round counts on the node stays until that round
is over, whatever else pays more by then: else jobs made for the purpose could lure all verifiers
away from a lie. Of more than `max_jobs` such rounds those come first in which the node has
something to do now, and then those whose jobs have paid the most; the others are looked at again
at each step. One whose round holds an open commitment of the node stays as well. Without any live
job, the newest one is served, for what may be left of it. The jobs are on disk, so that a restart
leaves none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from agents.jobs.choice import lot
from agents.jobs.job import JobContexts
from agents.jobs.offers import Offers
from agents.protocol.network import Network
from agents.protocol.numbers import Phase, ReportStatus, Role
from agents.protocol.view import View, observe
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.errors import JournalFull
from agents.runtime.turns import Turns
from agents.storage.content_store import ContentStore

_WAITING = (ReportStatus.OPEN, ReportStatus.CONFIRMED, ReportStatus.APPEALED)
_COUNTED = "its running round counts on the node"
_LEFT = 4  # jobs that are no longer live, the latest, looked at for what is left of them
_KEY = "jobs-served"
_REMEMBERED = 4  # times `max_jobs`: jobs whose rounds count on the node, and no more of them


class InJob(Protocol):
    """What a node does in one job."""

    def step(self, view: View, node: int) -> str | None:
        """The next action there; what was done."""
        ...


Duty = TypeVar("Duty", bound=InJob)


class Serving(Generic[Duty]):
    """The jobs of one node. `make`: its duty in a job, from a context whose log names the job.

    `open_in`: jobs in which the node's journal holds commitments.
    """

    def __init__(
        self,
        network: Network,
        context: Context,
        store: ContentStore,
        role: Role,
        make: Callable[[Context], Duty],
        open_in: Callable[[], set[int]] = set,
    ) -> None:
        self._network = network
        self._context = context
        self._role = role
        self._make = make
        self._open_in = open_in
        specs = JobContexts(network, store, memory=context.settings.memory)
        read = specs.context, specs.fetch
        self.offers = Offers(network, context.settings, context.log, role, *read)
        self._duties: dict[int, Duty] = {}
        self._served: dict[int, str] = {}  # why, by job, in the order in which they came
        self._known: list[int] | None = None  # those, and those that it has no place for now
        self._turns = Turns(context.log, context.metrics)

    @property
    def in_hand(self) -> frozenset[int]:
        """The jobs in which the node has had a duty since the last step."""
        return frozenset(self._duties)

    def in_job(self, job_id: int) -> Duty:
        """The duty in a job; made when it is first asked for."""
        if job_id not in self._duties:
            log = self._context.log.bind(job=job_id)
            self._duties[job_id] = self._make(replace(self._context, log=log))
        return self._duties[job_id]

    def step(self, head: Head, node: int) -> str | None:
        """The next action in one of the jobs."""
        jobs = self._jobs(head, node)
        for job_id in self._duties.keys() - jobs:
            del self._duties[job_id]
            self._context.metrics.forget_job(job_id)
        return self._turns.step({job: partial(self._step, job, head, node) for job in jobs})

    def _step(self, job_id: int, head: Head, node: int) -> str | None:
        view = observe(self._network, job_id, head)
        self._context.metrics.see_round(job_id, view.round_id, view.phase)
        did = self.in_job(job_id).step(view, node)
        return did if did is None or self._context.settings.job_id else f"{did} (job {job_id})"

    def _jobs(self, head: Head, node: int) -> dict[int, str]:
        """The jobs to serve, the best first, and why each."""
        count = self._network.job_count()
        configured = self._context.settings.job_id
        if configured or not count:
            return {configured: "configured"} if 0 < configured <= count else {}
        committed = {job for job in self._open_in() if job <= count}
        rated = self.offers.rated(head, node, committed, self._known or ())
        jobs = {one.job_id: str(one) for one in rated}
        self._context.metrics.see_pay({one.job_id: one.pays for one in rated})
        live = self.offers.live
        if self._known is None:
            self._known = self._remembered(head)
        left = [job for job in self._known if job <= count and job not in live][-_LEFT:]
        if not jobs and not left and count not in live:
            left = [count]
        jobs |= dict.fromkeys(left, "what is left of it is done")
        running = [job for job in self._known if job in live and job not in jobs]
        counted = self._counted(running, head, node)
        most = self._context.settings.max_jobs
        jobs |= dict.fromkeys(counted[:most], _COUNTED)
        held = "the node has yet to open a commitment there"
        jobs |= dict.fromkeys(sorted(committed & live - jobs.keys()), held)
        before, order = self._served, [*self._served, *jobs]
        self._served = {job: jobs[job] for job in order if job in jobs}
        self._known = list(dict.fromkeys([*self._served, *counted[: _REMEMBERED * most]]))
        self._tell(before, jobs, self._known)
        self._keep(self._known)
        return jobs

    def _remembered(self, head: Head) -> list[int]:
        """The jobs of before a restart: those of the journal, and those whose reports wait."""
        kept = self._context.journal.get(_KEY, [])
        return list(dict.fromkeys([*kept, *(self._reported() - self.offers.live)]))

    def _keep(self, jobs: list[int]) -> None:
        """Have a restart know these jobs. A full disk takes the node from none of them."""
        if set(jobs) != set(self._context.journal.get(_KEY, [])):
            with suppress(JournalFull):
                self._context.journal.put(_KEY, jobs)

    def _counted(self, jobs: Iterable[int], head: Head, node: int) -> list[int]:
        """Those whose newest round is not over and took the node into its snapshot, the ones to be
        served first before others."""
        views = [observe(self._network, job, head) for job in jobs]
        found = [view for view in views if _counts_on(view, node)]
        if len(found) > self._context.settings.max_jobs:
            due = {view.job_id for view in found if self._is_due(view, node)}
            pays = self.offers.proven

            def place(view: View) -> tuple[bool, float, bytes]:
                job = view.job_id
                return job not in due, -pays.get(job, 0.0), lot(node, job, view.round_id)

            found.sort(key=place)
        return [view.job_id for view in found]

    def _is_due(self, view: View, node: int) -> bool:
        """Whether the node has something to do in a round that it may not put off: a result that it
        has not attested, or one to propose."""
        if self._role == Role.AGGREGATOR:
            return view.phase == Phase.AGGREGATE
        if view.phase not in (Phase.CHALLENGE, Phase.DISPUTED):
            return False
        return node not in self._network.attesters(view.job_id, view.round_id, view.round)

    def _reported(self) -> set[int]:
        """Jobs with reports that are to be carried out or dismissed; what a restart forgets."""
        ids = self._network.open_reports()
        return {
            found.job_id for found in map(self._network.report, ids) if found.status in _WAITING
        }

    def _tell(self, served: dict[int, str], jobs: dict[int, str], known: list[int]) -> None:
        """Say which jobs are served and why, and which no longer are. `known`: also those whose
        rounds wait for a place."""
        for job_id in jobs.keys() - served.keys():
            self._context.log.info("job_served", job=job_id, why=jobs[job_id])
        for job_id in served.keys() - jobs.keys():
            why = self.offers.reasons.get(job_id, "other live jobs pay more")
            if job_id in known:
                why = "more rounds count on the node than max_jobs"
            self._context.log.info("job_left", job=job_id, why=why)


def _counts_on(view: View, node: int) -> bool:
    """Whether a round is not over and took the node into its snapshot."""
    over = view.phase == Phase.VOID or (view.phase == Phase.FINALIZED and view.round.settled)
    snapshot = view.snapshot
    return not over and (node in snapshot.verifiers or node in snapshot.aggregators)
