# SPDX-License-Identifier: Apache-2.0
"""What a round of a job takes a node to compute, in operations, as jobs are ranked by it.

A trainer trains. A verifier does the work of some trainers again, as many as the job's terms and
the trainers' stakes make it draw (`agents.jobs.deterrence`), and evaluates what the round gave.
Where a pipeline's epochs are audited by segments, it does one segment of each again. Where nodes
take something from round to round, it does their rounds before again as well.
Where validators measure losses, it evaluates the updates of those it draws instead. A forward pass
takes 2 operations for each parameter and token, a step 6.
"""

from __future__ import annotations

from agents.jobs.deterrence import Checking
from agents.jobs.job import JobContext
from agents.jobs.verifying_pay import done_again, part_done_again
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.training.assignment import equal_share

_STEP, _FORWARD = 6.0, 2.0


def training(job: JobContext, trainers: int) -> float:
    """Of a round's training, all nodes together."""
    batches = job.spec.batches_per_round
    if job.verification.equal_shares and trainers:
        batches = trainers * equal_share(job.spec, trainers)
    return _STEP * batches * _batch(job)


def evaluating(job: JobContext, trainers: int) -> float:
    """Of finding the validation losses that a result states, by whoever merges or recomputes it."""
    models = 2 + (trainers if job.score.needs_gains else 0)
    return _FORWARD * models * job.spec.eval_batches * _batch(job)


def recomputing(job: JobContext, trainers: int) -> float:
    """As `evaluating`, on no more validation text than there is. Raises DataLocked, StoreError."""
    batches = job.spec.eval_batches * job.spec.optimizer.batch_size
    return min(1.0, job.data.val_sequences / batches) * evaluating(job, trainers)


def measuring(job: JobContext, trainers: int) -> float:
    """Of a validator's primary evaluation (`agents.gauntlet.primary_evaluation`); 0 without one.

    Each update is tried on the random batches, whole and by two parts, and on those of everybody
    who is evaluated, each sequence by a part.
    """
    if not isinstance(job.score, Gauntlet) or not trainers:
        return 0.0
    most, evaluated = job.score.eval_batches, min(job.score.evaluated, trainers)
    own = equal_share(job.spec, trainers) * (1 + job.score.extra)
    random = (1 + 3 * evaluated) * most
    return _FORWARD * (random + (1 + evaluated) * evaluated * own) * _batch(job)


def verifying(job: JobContext, found: Checking) -> float:
    """Of one verifier's round. `found`: what checking the round's trainers takes."""
    trainers = len(found.exposed)
    redone = 0.0
    if job.verification.redone and trainers:
        spec = job.spec
        part = part_done_again(spec.pipeline, spec.batches_per_round, trainers)
        drawn = (found.redone / trainers).limit_denominator(10**6)
        spans = max(1, job.looked_back)
        again = done_again([drawn] * spans) / spans
        redone = float(part * again) * training(job, trainers)
    return redone + measuring(job, trainers) + evaluating(job, trainers)


def _batch(job: JobContext) -> float:
    """Parameters times the tokens of a batch."""
    optimizer = job.spec.optimizer
    return float(job.parameters * optimizer.batch_size * optimizer.seq_len)
