# SPDX-License-Identifier: Apache-2.0
"""The live jobs as the chain and the store have them, for `agents.jobs.choice` to rank.

What trainers have at stake decides what a verifier must do again, and whether a job's terms deter a
lie: one whose terms don't is refused, and so is one whose results can't be recomputed while they
are disputed. What is at stake is read once a minute for all jobs together.

A spec is a stranger's file: it is read for those jobs only that would be among the best without it.
It comes beside the node's other work, with the files that it names: these may have 16 MiB each, and
whoever serves them slowly takes minutes for one, in which a node would miss its own reveal. A
distant store searches long for what nobody has: a look begins one such search and no more, and the
pause that follows is the longer the more specs can't be had. Else who creates jobs without a spec
would hold every agent up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agents.jobs.at_stake import AtStake, Watched
from agents.jobs.choice import (
    FLOP_PER_UNIT,
    USUAL_SPEED,
    Offer,
    Rated,
    hourly,
    looked_at,
    ranked,
    refusal,
)
from agents.jobs.hidden_riders import riders_hidden
from agents.jobs.live_jobs import LiveJobs
from agents.jobs.own_data import shown_openly
from agents.jobs.riders import riders_paid
from agents.protocol.network import Network
from agents.protocol.numbers import BPS, Phase, Role
from agents.protocol.structs import Bounds, Job, Terms, read
from agents.runtime.chain import Head
from agents.runtime.config import AgentSettings
from agents.runtime.errors import AgentError
from agents.runtime.logs import Log
from agents.runtime.slow_calls import SlowCalls
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.spec import SpecError

if TYPE_CHECKING:  # who only asks what jobs pay does not load torch
    from agents.jobs.job import JobContext

_PAUSE_MIN_S = 0.25  # until a spec that can't be had is asked for again
_PAUSE_MAX_S = 600.0
_SEARCH_S = 0.5  # a spec that can't be used, or worked on, after so long ends this look's reading
_WAIT_S = 2.0  # that a spec and its files are waited for; they are taken at a later look
_MOST_COMING = 16  # specs that are coming
_SHARE = 8  # in the end no more than one part of so many of the time goes on such searches
_NOT_YET = "its spec is yet to be read: another one took long, and in vain"
_COMING = "its spec, or a file that it names, is still coming"
_CROWDED = "its spec is yet to be read: too many others are still coming"
_SCORE_SCALE = 1_000_000  # of NodeBenchmarks: a score is units per second times this
_HOUR = 3_600  # after which the places for new jobs are drawn again


class _Coming(Exception):
    """What a job is read from is not there yet."""


class Offers:
    """What the live jobs offer one node. `live`: their ids.

    `proven`: what an hour of those that have paid in their last rounds pays, without the time to
    compute. `reasons`: why it does not work on some of them. `job_of`: reads a job's spec; raises
    SpecError or StoreError. `fetch`: has the store get the files of a spec, by its digest, in any
    thread; raises the same. `clock`: seconds.
    """

    def __init__(
        self,
        network: Network,
        settings: AgentSettings,
        log: Log,
        role: Role,
        job_of: Callable[[int], JobContext],
        fetch: Callable[[bytes], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reasons: dict[int, str] = {}
        self.proven: dict[int, float] = {}
        self.stakes = Watched(network)
        self._barred: dict[int, tuple[int, str]] = {}  # until when (chain time), why
        self._network = network
        self._settings = settings
        self._log = log
        self._role = role
        self._job_of = job_of
        self._fetch = fetch
        self._clock = clock
        self._live = LiveJobs(network, clock)
        self._seen: dict[int, Offer] = {}  # what live jobs offered when they were last asked about
        self._unread: dict[bytes, tuple[float, float, str]] = {}  # specs by digest: the same, why
        self._had: set[bytes] = set()  # specs that could be read
        self._coming = SlowCalls[bytes, tuple[Exception | None, float]](_WAIT_S, "spec")
        self._took = 0.0  # seconds that the files of the newest spec took to come
        self._searched = False  # in vain, or for what is still coming, in this look
        self._looked_at: tuple[int, bytes] | None = None
        self._rated: list[Rated] = []

    @property
    def live(self) -> set[int]:
        return set(self._live.jobs)

    def rated(
        self, head: Head, node: int, keep: Collection[int] = (), known: Collection[int] = ()
    ) -> list[Rated]:
        """The jobs that the node may work on, the best first; `settings.max_jobs` and those of
        `keep` that are among them. Logs what is new about the others. `known`: others that it
        serves, so that they are asked about."""
        if self._looked_at != (head.number, head.hash):
            self._rated = self._look(head, node, keep, known)
            self._looked_at = head.number, head.hash
        return self._rated

    def by_pay(self, head: Head) -> list[tuple[Offer, float]]:
        """Every live job with what an hour of it pays a node of usual speed, the best first.

        For people who ask where a job stands: specs, and what they cost to compute, are left out.
        """
        offers = self._offers(head, None)
        paid = [(offer, hourly(offer, USUAL_SPEED)) for offer in offers]
        return sorted(paid, key=lambda one: (-one[1], one[0].job_id))

    def bar(self, job_id: int, until: int, why: str) -> None:
        """Refuse a job until a point of chain time, by the node's own experience."""
        self._barred[job_id] = until, why
        self._looked_at = None

    def _look(
        self, head: Head, node: int, keep: Collection[int], known: Collection[int]
    ) -> list[Rated]:
        speed, least = self._speed(node), self._settings.least_pay
        offers = self._offers(head, {one.job_id for one in self._rated}.union(keep, known))
        live = self._live.jobs
        self.proven = {one.job_id: hourly(one, speed) for one in offers if one.has_paid}
        if self._role == Role.TRAINER:  # it works in one
            offers.sort(key=lambda o: (o.job_id not in keep, -hourly(o, speed), o.job_id))
        else:
            hour = head.timestamp // _HOUR
            offers = looked_at(offers, speed, keep, self._settings.max_jobs, node, hour)
        specs = {job.terms.spec for job in live.values()}
        self._unread = {spec: miss for spec, miss in self._unread.items() if spec in specs}
        self._had &= specs
        self._coming.drop_ended(specs)
        self._searched = False
        found: list[Rated] = []
        reasons: dict[int, str] = {}
        for offer in offers:
            if len(found) >= self._settings.max_jobs and offer.job_id not in keep:
                break
            began, spec = self._clock(), live[offer.job_id].terms.spec
            offer = self._with_spec(offer, live[offer.job_id])
            took = self._clock() - began
            why = refusal(offer, speed, least, head.timestamp)
            if why is not None and took > _SEARCH_S and spec in self._had:
                self._missed(spec, took, why)  # it may be forgotten, and is not read at each look
            if why is None:
                found.append(Rated(offer.job_id, hourly(offer, speed)))
            else:
                reasons[offer.job_id] = why
        for job_id, why in reasons.items():
            if self.reasons.get(job_id) != why:
                self._log.info("job_refused", job=job_id, why=why)
        self.reasons = reasons
        return ranked(found)

    # -- chain ---------------------------------------------------------------------------------

    def _offers(self, head: Head, served: Collection[int] | None) -> list[Offer]:
        """What the live jobs offer. `served`: as for `LiveJobs.ask`."""
        bounds, nodes = self._network.bounds(), self._nodes()
        live = self._live.jobs
        for job_id in self._live.ask(served):
            self._seen[job_id] = self._offer(job_id, live[job_id], nodes, bounds, head)
        self._seen = {job_id: offer for job_id, offer in self._seen.items() if job_id in live}
        return list(self._seen.values())

    def _nodes(self) -> int:
        """How many nodes may share a round: all that have the role."""
        network = self._network
        count = read(int, network.chain.call(network.registry, "role_count", int(self._role)))
        return max(1, count)

    def _speed(self, node: int) -> float:
        score = self._network.node(node).benchmark_score if node else 0
        return score / _SCORE_SCALE * FLOP_PER_UNIT or USUAL_SPEED

    def _offer(self, job_id: int, job: Job, nodes: int, bounds: Bounds, head: Head) -> Offer:
        terms = job.terms
        past, running = self._live.rounds(job_id, job, head)
        late = 0 if running is None else max(0, head.timestamp - running.deadline)
        refused = bounds.broken_by(terms)
        trains = running is not None and running.phase in (Phase.COMMIT, Phase.REVEAL)
        if self._role == Role.TRAINER and job_id in self._live.ending and not trains:
            refused = "it has ended, or its escrow does not pay for another round"
        until, why = self._barred.get(job_id, (0, ""))
        if head.timestamp < until:
            refused = refused or why
        return Offer(
            job_id=job_id,
            pay=self._pay(terms),
            nodes=nodes,
            windows_s=terms.commit_s + terms.reveal_s + terms.aggregate_s + terms.challenge_s,
            past=past,
            overdue_s=late if self._role == Role.TRAINER else 0,  # the others are there to end it
            refused=refused,
        )

    def _pay(self, terms: Terms) -> int:
        """What a round pays all nodes of the role together."""
        reward = terms.reward_per_round
        if self._role == Role.VERIFIER:
            return reward * terms.verifier_bps // BPS
        if self._role == Role.AGGREGATOR:
            return reward * terms.aggregator_bps // BPS
        return reward * (BPS - terms.verifier_bps - terms.aggregator_bps) // BPS

    # -- store ---------------------------------------------------------------------------------

    def _with_spec(self, offer: Offer, listed: Job) -> Offer:
        """The offer with the work that the job's spec asks for."""
        if offer.refused is not None:
            return offer
        terms, began = listed.terms, self._clock()
        again, _, why = self._unread.get(terms.spec, (0.0, 0.0, ""))
        if began < again:
            return replace(offer, refused=why)
        if self._searched and not self._at_hand(terms.spec):
            # Noted, so that those that were searched for wait until it was tried as well.
            self._unread.setdefault(terms.spec, (0.0, 0.0, _NOT_YET))
            return replace(offer, refused=why or _NOT_YET)
        self._took = 0.0
        try:
            self._take(terms.spec)
            return self._judged(offer, listed)
        except _Coming as coming:
            return replace(offer, refused=str(coming))
        except (AgentError, StoreUnavailable):
            raise  # the chain or the store itself is down: that says nothing about the job
        except Exception as error:  # a stranger's job must not keep this node from all others
            kind = "" if isinstance(error, SpecError | StoreError) else type(error).__name__ + ": "
            why = f"its spec can't be used: {kind}{error}"[:500]
            self._missed(terms.spec, max(self._clock() - began, self._took), why)
            return replace(offer, refused=why)

    def _at_hand(self, spec: bytes) -> bool:
        """Whether reading a spec takes no search."""
        return spec in self._had or (spec in self._coming and self._coming.ended(spec))

    def _take(self, spec: bytes) -> None:
        """Have the files of a spec in the store. Raises what getting them gave, or _Coming."""
        if spec in self._had:
            return
        if spec not in self._coming:
            if len(self._coming) >= _MOST_COMING:
                raise _Coming(_CROWDED)
            self._coming.run({spec: partial(self._fetched, spec)})
            self._searched = not self._coming.ended(spec)
        if not self._coming.ended(spec):
            raise _Coming(_COMING)
        error, self._took = self._coming.take(spec)
        if error is not None:
            raise error

    def _fetched(self, spec: bytes) -> tuple[Exception | None, float]:
        """What getting the files of a spec gave, in a thread of its own, and how long it took."""
        began, error = self._clock(), None
        try:
            self._fetch(spec)
        except Exception as raised:
            error = raised
        return error, self._clock() - began

    def _judged(self, offer: Offer, listed: Job) -> Offer:
        """The same, where nothing speaks against reading the spec. Raises whatever it gives."""
        from agents.jobs.judgeable import unjudgeable

        terms = listed.terms
        job = self._job_of(offer.job_id)
        too_long = unjudgeable(job, terms)
        self._unread.pop(terms.spec, None)
        self._had.add(terms.spec)
        if scored := self._scored_by_nobody(job, offer.job_id):
            return replace(offer, refused=scored)
        at_stake = self.stakes.now()
        if undeterred := at_stake.undeterred(terms, job.spec):
            return replace(offer, refused=undeterred)
        if too_long:
            return replace(offer, refused=too_long)
        if self._role == Role.TRAINER and (unfit := self._unfit(job)):
            return replace(offer, refused=unfit)
        return replace(offer, flop=self._flop(job, listed, at_stake, offer.nodes))

    def _scored_by_nobody(self, job: JobContext, job_id: int) -> str | None:
        """Why scores may decide what a job pays that no rule gives; None if they can't."""
        if job.verification.validators_score or not self._network.is_scored(job_id):
            return None
        return (
            "its sponsor adopted ScoreConsensus, and its score is "
            f'"{job.spec.score}": verifiers with half of the weight can reveal any scores, and '
            "these pay"
        )

    def _missed(self, spec: bytes, took: float, why: str) -> None:
        """Note that a spec can't be used, which took so long to learn."""
        self._searched = self._searched or took > _SEARCH_S
        before = self._unread.get(spec, (0.0, 0.0))[1]
        all_of_them = took * len(self._unread.keys() | {spec})
        pause = max(2 * before, all_of_them, _PAUSE_MIN_S)
        pause = min(pause, max(_SHARE * all_of_them, _PAUSE_MAX_S))
        self._unread[spec] = self._clock() + pause, pause, why

    def _flop(self, job: JobContext, listed: Job, at_stake: AtStake, nodes: int) -> float:
        """Operations that a round takes all `nodes` of the role together."""
        from agents.jobs.workload import training, verifying

        if self._role != Role.VERIFIER:
            return training(job, len(at_stake.stakes[: listed.terms.max_nodes]))
        retained = min(listed.rounds_done, listed.terms.retain_rounds)
        found = at_stake.checking(listed.terms, job.spec.audit_sample, retained)
        return nodes * verifying(job, found)  # every verifier does all of it

    def _unfit(self, job: JobContext) -> str | None:
        """Why this node does not train in a job, whatever it pays; None if it does."""
        settings = self._settings
        trainer = settings.trainer
        if paid := riders_paid(job.spec, trainer) or riders_hidden(job, trainer):
            return paid
        if job.spec.access == "local" and settings.trainer.local_data is None:
            return "its nodes bring their own data, and trainer.local_data is not set"
        if shown := shown_openly(job, settings):
            return shown
        if not job.spec.classes:
            return None
        from agents.jobs.classes import barred
        from agents.training.local import device_of

        device = device_of(settings.device)
        return barred(job, device, settings.trainer.compile)
