# SPDX-License-Identifier: Apache-2.0
"""Jobs whose results a committee member can't recompute while they are disputed.

Rule: a result of a job, with as many trainers as its terms have seats, is recomputed at the usual
speed in half of its dispute window. Where it takes longer, agents leave the job and `ape run job
create` refuses it: who challenges a wrong result there may get no ruling, and lose its bond. All
seats count, because whoever wants a result to take long registers trainers.
"""

from __future__ import annotations

import math
from typing import Protocol

from agents.jobs.choice import USUAL_SPEED
from agents.jobs.job import DataLocked, JobContext
from agents.jobs.workload import evaluating, recomputing

_MOST = 0.5  # of the dispute window


class Disputed(Protocol):
    """The terms of a job that decide it."""

    @property
    def max_nodes(self) -> int: ...
    @property
    def dispute_s(self) -> int: ...


def unjudgeable(job: JobContext, terms: Disputed) -> str | None:
    """Why a job is neither created nor worked on: what to change of it, as a sentence without its
    subject. None where its results can be recomputed in time, or where nobody can tell without the
    key of its data. Raises StoreError."""
    most_s = _MOST * terms.dispute_s
    if evaluating(job, terms.max_nodes) / USUAL_SPEED <= most_s:
        return None  # before its data is looked at
    try:
        takes_s = recomputing(job, terms.max_nodes) / USUAL_SPEED
    except DataLocked:
        return None
    if takes_s <= most_s:
        return None
    found = "; ".join(_changes(job, terms, takes_s))
    return (
        f"a result with max_nodes {terms.max_nodes} takes a committee member of usual speed "
        f"{takes_s / 3_600:.3g} hours to recompute, and half of its dispute window is "
        f"{most_s / 3_600:.3g}: a wrong one may stand. What helps: {found}"
    )


def _changes(job: JobContext, terms: Disputed, takes_s: float) -> list[str]:
    """Each of what would make it judgeable, alone."""
    most_s = _MOST * terms.dispute_s
    found = [f"a dispute window of {math.ceil(takes_s / _MOST)} s"]
    there = math.ceil(job.data.val_sequences / job.spec.optimizer.batch_size)
    if batches := int(min(job.spec.eval_batches, there) * most_s / takes_s):
        found.append(f"eval_batches {batches}")
    if job.score.needs_gains:
        none, one = (recomputing(job, n) / USUAL_SPEED for n in (0, 1))
        if (seats := int((most_s - none) / (one - none))) > 0:
            found.append(f"max_nodes {seats}")
        if none <= most_s:
            found.append(
                f'a score that does not try each update, such as "shares", instead of '
                f'"{job.spec.score}"'
            )
    return found
