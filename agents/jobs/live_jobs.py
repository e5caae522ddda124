# SPDX-License-Identifier: Apache-2.0
"""Which jobs are live, and what a look asks the chain about them.

A job is live while a round of it is running or not settled, or while it is active and its escrow
pays for another round. Every job that was ever created is looked at: nobody can push a job out of
sight by creating others. One that was not live is asked again after a growing pause, so that old
jobs, and jobs that nobody funded, cost next to nothing.

Rule: of the live ones a look asks about those that the node serves, and some others in turn; the
rest are as they were last seen, since escrow is paid back and who funds a thousand jobs would have
every agent ask about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from agents.jobs.choice import PAST_ROUNDS, PastRound
from agents.protocol.network import Network
from agents.protocol.numbers import JobStatus, Phase
from agents.protocol.structs import Job, Round, read
from agents.runtime.chain import Head

_BATCH = 200  # calls in a request
_IN_TURN = 32  # live jobs that the node does not serve, asked about at a look
_PAUSE_MIN_S = 0.25  # until a job that is not live is asked again
_PAUSE_MAX_S = 600.0
_OVER = (Phase.FINALIZED, Phase.VOID)
_AT_ONCE = PAST_ROUNDS + 1  # of a job's rounds read in a request: the running one, and those before
_BACK = 8 * _AT_ONCE  # rounds looked through for those with work: anyone may open empty ones


class LiveJobs:
    """Attributes:
    jobs: the live ones by id; who was asked about longest ago comes first.
    ending: those of them that can't pay for another round.
    """

    def __init__(self, network: Network, clock: Callable[[], float]) -> None:
        """`clock`: seconds."""
        self.jobs: dict[int, Job] = {}
        self.ending: set[int] = set()
        self._network = network
        self._clock = clock
        self._again: dict[int, tuple[float, float]] = {}  # dead jobs: the next look, the pause
        self._past: dict[tuple[int, int], Round] = {}  # over, by job and number

    def ask(self, served: Collection[int] | None) -> list[int]:
        """Ask about the jobs that are due; those of them that are live.

        `served`: those that are due in any case, None for all of them.
        """
        now = self._clock()
        count = self._network.job_count()
        for job_id in [job_id for job_id in self.jobs if job_id > count]:  # by a reorg
            del self.jobs[job_id]
        due = [
            job_id
            for job_id in range(1, count + 1)
            if job_id not in self.jobs and now >= self._again.get(job_id, (0,))[0]
        ]
        others = [i for i in self.jobs if served is not None and i not in served]
        resting = set(others[_IN_TURN:])
        due += [job_id for job_id in self.jobs if job_id not in resting]
        live = []
        for first in range(0, len(due), _BATCH):
            for job_id, job, escrow in self._read(due[first : first + _BATCH]):
                pays = job.status == JobStatus.ACTIVE and escrow >= job.terms.reward_per_round
                (self.ending.discard if pays else self.ending.add)(job_id)
                self.jobs.pop(job_id, None)
                if pays or self._has_round(job_id, job):
                    self.jobs[job_id] = job
                    self._again.pop(job_id, None)
                    live.append(job_id)
                else:
                    before = self._again.get(job_id, (0.0, 0.0))[1]
                    pause = min(max(_PAUSE_MIN_S, 2 * before), _PAUSE_MAX_S)
                    self._again[job_id] = now + pause, pause
        self._past = {place: kept for place, kept in self._past.items() if place[0] in self.jobs}
        return live

    def _read(self, jobs: list[int]) -> list[tuple[int, Job, int]]:
        """These jobs with their escrows. Their newest rounds come along, so that nobody has to wait
        for those of one job after another's."""
        network = self._network
        calls = [(network.jobs, "job", (job_id,)) for job_id in jobs]
        money = [(network.pool, "escrow", (job_id,)) for job_id in jobs]
        answers = network.chain.call_many([*calls, *money])
        found = [
            (job_id, read(Job, job), read(int, escrow))
            for job_id, job, escrow in zip(
                jobs, answers[: len(jobs)], answers[len(jobs) :], strict=True
            )
        ]
        newest = [(i, job.rounds_opened) for i, job, _ in found if job.rounds_opened]
        network.chain.call_many([(network.rounds, "round", place) for place in newest])
        return found

    def _has_round(self, job_id: int, job: Job) -> bool:
        """Whether a round of the job is running or not settled."""
        if not job.rounds_opened:
            return False
        newest = self._network.round(job_id, job.rounds_opened)
        return not (
            newest.phase == Phase.VOID or (newest.phase == Phase.FINALIZED and newest.settled)
        )

    def rounds(
        self, job_id: int, job: Job, head: Head
    ) -> tuple[tuple[PastRound, ...], Round | None]:
        """The rounds that are over, back to the one that is number `PAST_ROUNDS` of those that
        somebody worked in; and the running one."""
        end, worked, found = head.timestamp, 0, []
        running: Round | None = None
        for number, round_ in self._back(job_id, job.rounds_opened):
            if round_.phase in _OVER:
                paid, lasted = round_.phase == Phase.FINALIZED, end - round_.opened_at
                found.append(PastRound(round_.opened_at, lasted, paid, bool(round_.n_committed)))
                worked += found[-1].worked
            elif number == job.rounds_opened:
                running = round_
            if worked == PAST_ROUNDS:
                break
            end = round_.opened_at
        return tuple(reversed(found)), running

    def _back(self, job_id: int, newest: int) -> Iterator[tuple[int, Round]]:
        """A job's rounds, the newest first, `_BACK` at most. They are read as they are asked for,
        and those that are over once."""
        oldest = max(1, newest - _BACK + 1)
        self._past.pop((job_id, oldest - 1), None)
        for last in range(newest, oldest - 1, -_AT_ONCE):
            numbers = range(last, max(oldest, last - _AT_ONCE + 1) - 1, -1)
            unknown = [n for n in numbers if (job_id, n) not in self._past]
            answers = self._network.chain.call_many(
                [(self._network.rounds, "round", (job_id, n)) for n in unknown]
            )
            now = {n: read(Round, answer) for n, answer in zip(unknown, answers, strict=True)}
            over = {n: round_ for n, round_ in now.items() if n < newest and round_.phase in _OVER}
            self._past |= {(job_id, n): round_ for n, round_ in over.items()}
            for number in numbers:
                yield number, now.get(number) or self._past[job_id, number]
