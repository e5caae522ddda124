# SPDX-License-Identifier: Apache-2.0
"""One look at a job: the job, its newest round and the round's snapshot, read together.

Rule: a role's step begins with one `observe` and decides on that alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.protocol.network import JobStatus, Network, Phase, Snapshot
from agents.runtime.chain import Head

_EMPTY = Snapshot((), (), {}, ())


@dataclass(frozen=True)
class View:
    """What the chain says about a job now. `round` is None before the first round."""

    job_id: int
    job: Any
    round_id: int
    round: Any
    phase: Phase
    snapshot: Snapshot
    now: int  # chain time of the head, seconds
    block: int  # number of the head

    @property
    def active(self) -> bool:
        """Whether more rounds may be opened."""
        return bool(self.job.status == JobStatus.ACTIVE)

    @property
    def overdue(self) -> bool:
        """Whether the phase's deadline has passed."""
        return self.now > int(self.round.deadline)


def observe(network: Network, job_id: int, head: Head, round_id: int | None = None) -> View:
    """Read a job and a round of it, by default the newest.

    Raises ChainMoved in the middle of a reorg.
    """
    job = network.job(job_id)
    if round_id is None:
        round_id = int(job.rounds_opened)
    if round_id == 0:
        return View(job_id, job, 0, None, Phase.NONE, _EMPTY, head.timestamp, head.number)
    round_ = network.round(job_id, round_id)
    snapshot = network.snapshot(job_id, round_id, int(round_.opened_block))
    phase = Phase(round_.phase)
    return View(job_id, job, round_id, round_, phase, snapshot, head.timestamp, head.number)
