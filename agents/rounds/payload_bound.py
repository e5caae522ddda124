# SPDX-License-Identifier: Apache-2.0
"""What a payload can be at most where nodes train the whole model, whatever their data was.

Rule: a node makes a step for each batch that it was assigned, and what so many steps can move
follows from the job's inner optimizer and the model that the round starts from
(`agents.training.most_moved`). Where the inner optimizer's state is kept it comes at most from all
batches of the rounds since it was zero. What is beyond that is no payload, for everybody alike. It
is not merged, and a finding by itself, like a number that is not finite. So the bound is for what
steps can prove, and never for what is merely usual.

Under noise that a node adds itself each number is bounded by the clipped update and the longest
draw. The whole is bounded by the clipped update and a length that noise of that many numbers has
with a chance below 2^-120.

A payload that a codec has made is not looked at. Where the codec keeps what it did not say, an
honest payload may say much of many rounds at once, and in few numbers: such a bound would let pass
what spoils a model. Nor are payloads that are clipped before they are merged (privacy `aggregate`),
mean gradients, which nothing bounds, and those of nodes that start where they like.
`agents.jobs.combinations.payloads.sizes` says so to a sponsor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from agents.jobs.job import JobContext
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.parts.noise import TAIL
from agents.rounds.plan import Plan
from agents.training.most_moved import check_change, length
from agents.training.optimizers import chosen
from agents.training.spec import Hyperparameters
from agents.training.state import PayloadError, State

Bound = Callable[[State], None]
"""Raises PayloadError for a decoded payload that no honest work gives."""

_BEYOND = 13.0  # deviations of a number that noise's length is above its root mean square
_ROUNDING = 1.01  # of clipping in fp32, and of noise that is rounded to a grid


def no_bound(payload: State) -> None:
    """Lets everything pass."""


def bound_of(job: JobContext, plan: Plan, node: int, before: Callable[[], State]) -> Bound:
    """The bound on a node's payload of the round of `plan`. `before`: gives the model that the
    round starts from; asked only where the bound depends on it."""
    assignment = plan.manifest.of(node)
    if assignment is None or job.verification.own_start or job.sealed or not job.codec.lossless:
        return no_bound
    if isinstance(job.privacy, Gaussian):
        privacy = job.privacy
        return lambda payload: _check_noised(payload, privacy)
    hyper = Hyperparameters.of(job.spec, plan.step)
    inner = chosen(hyper.inner, hyper.inner_options)
    rounds = plan.step % job.inner_rounds if job.inner_rounds else 0
    earlier = rounds * job.spec.batches_per_round
    most = inner.most_moved(job.shapes, job.hidden, hyper, assignment.batches, earlier)
    if not most:
        return no_bound
    weights = before()
    return lambda payload: check_change(payload, weights, most)


def _check_noised(payload: State, privacy: Gaussian) -> None:
    count = sum(tensor.numel() for tensor in payload.values())
    number = _ROUNDING * (privacy.clip + TAIL * privacy.sigma)
    longest = _ROUNDING * (privacy.clip + privacy.sigma * (math.sqrt(count) + _BEYOND))
    for name, tensor in sorted(payload.items()):
        if tensor.numel() and float(tensor.abs().max()) > number:
            raise PayloadError(
                f"Tensor {name!r} holds a number above {number:.3g}, which no clipped update under "
                "the job's noise has."
            )
    found = math.hypot(*map(length, payload.values()))
    if found > longest:
        raise PayloadError(
            f"The payload is {found:.3g} long, and a clipped update under the job's noise "
            f"{longest:.3g} at most."
        )
