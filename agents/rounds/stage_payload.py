# SPDX-License-Identifier: Apache-2.0
"""A miner's payload: the change of its stage, whole at a full synchronisation, else by a codec.

Rule: what the codec of compressed sharing did not say of a change stays owed, as the codec's memory
of this node and stage. At a full synchronisation the payload is the round's change and all that is
owed, and nothing is owed after it. Miner and verifier call the same function, so from one change
and one memory they get one payload.
"""

from __future__ import annotations

from agents.jobs.job import JobContext
from agents.rounds.plan import Plan
from agents.training.state import State


def packed(
    job: JobContext, plan: Plan, node: int, change: State, owed: State | None
) -> tuple[bytes, State | None]:
    """The payload of a stage's change, and what is owed after it.

    `owed`: since the last full synchronisation; None for nothing.
    """
    codec = job.codec_at(plan.step)
    seed = plan.codec_seed(codec, node)
    if job.spec.is_full(plan.step):
        whole = change if owed is None else {n: change[n] + owed[n] for n in sorted(change)}
        return codec.encode(whole, None, seed), None
    payload = codec.encode(change, owed, seed)
    shapes = {name: tuple(tensor.shape) for name, tensor in change.items()}
    return payload, codec.remember(change, owed, codec.decode(payload, shapes, seed))


def as_sent(job: JobContext, plan: Plan, node: int, change: State, owed: State | None) -> State:
    """What a node's payload says if this was its change."""
    codec = job.codec_at(plan.step)
    payload, _ = packed(job, plan, node, change, owed)
    shapes = {name: tuple(tensor.shape) for name, tensor in change.items()}
    return codec.decode(payload, shapes, plan.codec_seed(codec, node))
