# SPDX-License-Identifier: Apache-2.0
"""The one job that a trainer trains in: the choice of `agents.jobs.choice`, kept over restarts.

The job is on disk before the node works in it, so that a restart changes no choice. A journal
without it, such as one of an earlier version, gives a node that has not chosen yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agents.jobs.choice import choose
from agents.jobs.job import JobContext
from agents.jobs.offers import Offers
from agents.protocol.network import Network
from agents.protocol.numbers import Role
from agents.runtime.chain import Head
from agents.runtime.context import Context

_KEY = "job-followed"
_LATE = 2  # rounds in a row that the node finished too late, and the job is left
_LATE_WINDOWS = 16  # for as long
_FOR_EVER = 2**63
_WAITS = 4  # one part of so many of COMMIT: how long work that can't be begun is waited for
_WAITS_MAX_S = 600
_AWAY_S, _AWAY_MAX_S = 600, 86_400  # chain time, until it is tried again; twice as long each time


class Following:
    """The choice of one trainer. `job_of`, `fetch`: as of Offers."""

    def __init__(
        self,
        network: Network,
        context: Context,
        job_of: Callable[[int], JobContext],
        fetch: Callable[[bytes], None],
    ) -> None:
        self._network = network
        self._context = context
        settings, log = context.settings, context.log
        self._offers = Offers(network, settings, log, Role.TRAINER, job_of, fetch)
        self.stakes = self._offers.stakes
        self._waits: dict[int, int] = {}  # by job: since when its work could not be begun
        self._away: dict[int, tuple[int, int]] = {}  # by job: for how long it is left, until when
        self._told = -1
        self._others: set[int] = set()

    def job(self, head: Head, node: int, busy: Collection[int], revealing: bool = False) -> int:
        """The job to train in, 0 if there is none.

        `busy`: jobs in which the node has work that it has yet to open. `revealing`: it may open
        some of it now, so what jobs offer waits: strangers' specs may take a store long.
        """
        configured, count = self._context.settings.job_id, self._network.job_count()
        if configured:
            return configured if configured <= count else 0
        journal, log = self._context.journal, self._context.log
        followed = journal.get(_KEY, 0)
        if followed > count:
            followed = 0  # a reorg took the job away
        if revealing:
            return int(followed)
        rated = self._offers.rated(head, node, {followed})
        self._others = {one.job_id for one in rated}
        self._context.metrics.see_pay({one.job_id: one.pays for one in rated})
        chosen, why = choose(rated, followed, followed in busy)
        if chosen != self._told:
            if followed not in (0, chosen) and (said := self._offers.reasons.get(followed)):
                why = f"{why}; job {followed} was left because {said}"
            log.info("job_followed", job=chosen or None, why=why)
            self._told = chosen
        if chosen and chosen != journal.get(_KEY, 0):
            journal.put(_KEY, chosen)
        return chosen

    def was_late(self, job_id: int, rounds: Sequence[int], late: Collection[int]) -> None:
        """The node has finished its work of the `late` ones of these `rounds` after COMMIT.

        Whoever offers much for work that nobody can do in time would else keep its nodes busy for
        nothing: such a round ends without a commitment, and its reward goes back.
        """
        if len(rounds) < _LATE or not set(rounds[-_LATE:]) <= set(late):
            return
        terms = self._network.job(job_id).terms
        windows = terms.commit_s + terms.reveal_s + terms.aggregate_s + terms.challenge_s
        until = self._network.round(job_id, rounds[-1]).opened_at + _LATE_WINDOWS * windows
        why = (
            f"this node was too late with its work of rounds {rounds[-2]} and {rounds[-1]}; it "
            f"tries again from {until} on (chain time)"
        )
        self._offers.bar(job_id, until, why)

    def unable(self, job_id: int, within_s: int, now: int, why: str) -> bool:
        """The node can't begin its work of a job's running round; True if it leaves the job for a
        while. `within_s`: how long the round's COMMIT is, 0 if waiting can't help; `now`: chain
        time; `why`: as a sentence.

        Such a round ends without a commitment, and its reward goes back. So a job that pays best,
        with a file of it that nobody has, would else keep its nodes for ever and for nothing. What
        is on its way is waited for a little, and the less the more jobs have been left for this:
        else many of them would keep a node as well. It stays where it has no other one to train in.
        """
        if self._context.settings.job_id or self._others <= {job_id}:
            return False
        away, _ = self._away.get(job_id, (0, 0))
        left = sum(until > now for _, until in self._away.values())
        patience = 0 if away else min(within_s // _WAITS, _WAITS_MAX_S) >> left
        if now < self._waits.setdefault(job_id, now) + patience:
            return False
        del self._waits[job_id]
        away = min(max(2 * away, _AWAY_S), _AWAY_MAX_S)
        self._away[job_id] = away, now + away
        tried = f"it is tried again from {now + away} on (chain time)"
        self._offers.bar(job_id, now + away, f"its work can't be begun here: {why}; {tried}")
        return True

    def able(self, job_id: int) -> None:
        """The node has done its work of a round of a job."""
        self._waits.pop(job_id, None)
        self._away.pop(job_id, None)

    def leave(self, job_id: int, why: str) -> bool:
        """Train in a job no more; False if there is no other one to train in."""
        if self._context.settings.job_id or self._others <= {job_id}:
            return False
        self._offers.bar(job_id, _FOR_EVER, why)
        return True
