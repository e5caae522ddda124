# SPDX-License-Identifier: Apache-2.0
"""Whether a segment of a miner's epoch, done again, ends in the state that the miner published.

Within one determinism class the last step's hash has said so already: it binds weights and
optimizer. Across classes both are compared by the job's tolerances: the update that the segment's
steps make, each kind of the optimizer's buffers, and what a step without a gradient would do from
either state. The last one is for numbers that are small and divide: a second moment of zero in the
place of a tiny one is near, and the next step would leap there.

All of it is per segment. Both sides begin with the same published numbers, so rounding has the
steps of one segment to grow, not an epoch's.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from agents.jobs.job import JobContext
from agents.pipeline.checkpoint import joined, parted
from agents.pipeline.work import StageWork, change
from agents.rounds.mined import Mined, last_weights, read_state
from agents.storage.content_store import ContentStore
from agents.training.norms import distance
from agents.training.state import PayloadError, State
from agents.verify.reexecution import Comparison, Tolerances, compare


def compare_ends(
    work: StageWork,
    start: State,
    mined: Mined,
    job: JobContext,
    store: ContentStore,
    tolerances: Tolerances,
) -> Comparison:
    """The first thing that is too far off, else the update. `start`: the weights before. Where the
    update is too far off, `change` is the length of what it is off by.

    `work` is at the segment's end, and of another class than the miner. It is used up. Raises
    StoreError, or PayloadError for a published state that is none.
    """
    assert mined.segment is not None
    optimizer = None
    if not mined.segment.end_step:
        weights = start
    elif mined.segment.ends:
        weights = last_weights(mined, job, store)
    else:
        weights, optimizer = read_state(mined, job, store, mined.segment.index)
    here = _kept(joined(work.state(), work.optimizer()))
    own, gathered = parted(here)
    mine, theirs = change(start, own), change(start, weights)
    found = compare(mine, theirs, False, tolerances)
    if not found.ok:
        return replace(found, change=distance(mine, theirs))
    if optimizer is None:
        return found
    try:
        ahead = _leap(work, own, optimizer)
        sound = all(bool(torch.isfinite(tensor).all()) for tensor in ahead.values())
        wrong = "" if sound else "the next step from it is not finite"
    except PayloadError as error:
        wrong = str(error)
    if wrong:
        reason = f"The optimizer's state after the segment: {wrong}."
        return replace(found, ok=False, reason=reason, rel_l2=math.inf, change=math.inf)
    exact = found.exact
    for kind in sorted({name.partition(".")[0] for name in optimizer}):
        mine, theirs = _of_kind(kind, gathered), _of_kind(kind, optimizer)
        buffers = compare(mine, theirs, False, tolerances)
        exact = exact and buffers.exact
        if not buffers.ok:
            return replace(buffers, reason=f"The optimizer's {kind}: {buffers.reason}")
    next_step = compare(_leap(work, own, gathered), ahead, False, tolerances)
    if not next_step.ok:
        return replace(next_step, reason=f"The next step from the optimizer: {next_step.reason}")
    return replace(found, exact=exact)


def _of_kind(kind: str, state: State) -> State:
    return {name: state[name] for name in state if name.partition(".")[0] == kind}


def _kept(state: State) -> State:
    return {name: tensor.clone() for name, tensor in state.items()}


def _leap(work: StageWork, weights: State, optimizer: State) -> State:
    """What a step without a gradient changes, from this state of the optimizer."""
    work.go_on(weights, optimizer, work.steps)
    work.coast()
    return change(weights, _kept(work.state()))
