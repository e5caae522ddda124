# SPDX-License-Identifier: Apache-2.0
"""One look at a job: the job, its newest round and the round's snapshot, read together.

Rule: a role's step begins with one `observe` and decides on that alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.protocol.network import Network
from agents.protocol.numbers import JobStatus, Phase
from agents.protocol.structs import NO_ROUND, Job, Round, Snapshot
from agents.runtime.chain import Head

_EMPTY = Snapshot((), (), {}, ())


@dataclass(frozen=True)
class View:
    """What the chain says about a job now.

    Before the first round, `round_id` is 0, `round` is `NO_ROUND` (phase NONE) and the snapshot is
    empty. While the seats of a round are to be drawn its snapshot has no trainers.
    """

    job_id: int
    job: Job
    round_id: int
    round: Round
    snapshot: Snapshot
    now: int  # chain time of the head, seconds
    block: int  # number of the head

    @property
    def phase(self) -> Phase:
        """The phase of the round."""
        return self.round.phase

    @property
    def active(self) -> bool:
        """Whether more rounds may be opened."""
        return self.job.status == JobStatus.ACTIVE

    @property
    def unseated(self) -> bool:
        """Whether the round's seats are to be drawn, from more trainers than there are seats."""
        return self.phase == Phase.COMMIT and self.round.n_eligible == 0

    @property
    def overdue(self) -> bool:
        """Whether the phase's deadline has passed."""
        return self.now > self.round.deadline


def observe(network: Network, job_id: int, head: Head, round_id: int | None = None) -> View:
    """Read a job and a round of it, by default the newest.

    Raises ChainMoved in the middle of a reorg.
    """
    job = network.job(job_id)
    if round_id is None:
        round_id = job.rounds_opened
    if round_id == 0:
        return View(job_id, job, 0, NO_ROUND, _EMPTY, head.timestamp, head.number)
    found = network.round(job_id, round_id)
    snapshot = network.snapshot(job_id, round_id, found)
    return View(job_id, job, round_id, found, snapshot, head.timestamp, head.number)
