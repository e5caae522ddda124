# SPDX-License-Identifier: Apache-2.0
"""Runs a work order: the trainer and the verifier who checks it call the same function."""

from __future__ import annotations

from collections.abc import Callable

from agents.training.assignment import WorkOrder
from agents.training.data import Batches
from agents.training.flat import FlatModel
from agents.training.local import LocalResult, train_local
from agents.training.state import PayloadError, State, model_hash
from agents.training.trace import Trace


def run_task(
    net: FlatModel,
    task: WorkOrder,
    state: State,
    data: Batches,
    on_step: Callable[[int, float], None] | None = None,
    compiled: bool = False,
    inner: State | None = None,
) -> LocalResult:
    """Train the task's batches from ``state``; equal bits within one determinism class.

    Args:
        net: the job's network on the device to use.
        task: what to do.
        state: must be the state whose hash is ``task.model_id``.
        data: the job's data.
        on_step: called as (step, loss) after each step.
        compiled: use ``torch.compile``.
        inner: what the inner optimizer starts from; None: from zero.

    Raises:
        PayloadError: the state is not the one the task starts from, or ``inner`` is no state of the
            inner optimizer.
        FloatingPointError: training diverged.
    """
    if model_hash(state) != task.model_id:
        raise PayloadError("the state is not the model that the task starts from")
    batches = [data.batch(index) for index in task.batches()]
    how = task.hyperparameters, task.rng_seed, on_step, compiled, inner
    return train_local(net, state, batches, *how)


def trace_of(task: WorkOrder, result: LocalResult) -> Trace:
    """The trace to publish for a task's result."""
    return Trace(task.node, result.hashes)
