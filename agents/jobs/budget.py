# SPDX-License-Identifier: Apache-2.0
"""What a job asks of one machine, by its spec and its manifest, before anything is built.

Rule: a spec and a manifest are strangers' files, and each number in them is in range by itself.
What they ask for together is added up here: the memory that training takes, the rows that a round
reads, the bytes that one batch fetches. A job that asks for more than the machine has is refused
with a sentence, and nobody joins it.

The sums are from above, and in whole numbers. A linear layer keeps what goes in and what comes out
of it for the backward pass; norms, attention and activations keep about as much again twice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from agents.training.data import Dataset
from agents.training.optimizers import chosen
from agents.training.order import MAX_SIZE
from agents.training.private import CHUNK
from agents.training.slices import Slices
from agents.training.spec import JobSpec, SpecError
from agents.training.state import Shapes

MAX_ROUND_ROWS = 2**24
"""Sequences that a round reads in all. Validators keep the set of them."""

MAX_BATCH_FETCH = 4 * 2**30
"""Bytes of shards that one batch may make a node fetch."""

_FLOAT = 4
_TOKEN = 8
_STATES = 3  # weights, gradient, where the round started
_KEPT = 3  # numbers kept by a token, in numbers that go through the linear layers
_LOGITS = 4  # logits, their exponentials, and the gradients of both
_CODES = 6  # a code, its gradient, their messages and roundings, in numbers of a code
_WHOLE = 4  # who evaluates: weights, room for gradients, the state they come from, the update
_VELOCITY = 2  # of an outer step with momentum, before and after it
_READ = 6  # of a published state, the file and its tensors: weights and two moments each
_OWED = 2  # of compressed sharing, what is owed and what a payload says
_BATCHES = 2  # the inputs and the targets of the batch in hand, beside the round's
# Of the machine's memory. The rest is for everything else that runs there, also for what waits at a
# miner's post, which is bounded in bytes (`agents.pipeline.mailbox`, `agents.pipeline.held`).
_SHARE = 0.75
_GIB = 2**30
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Needs:
    """Bytes that a node takes for a job.

    Attributes:
        weights: the model, its gradient and the optimizer's state.
        activations: what the backward pass needs of a batch.
        batches: the tokens of a round, all of which are one node's when it is alone.
    """

    weights: int
    activations: int
    batches: int

    @property
    def memory(self) -> int:
        """All of it."""
        return self.weights + self.activations + self.batches


def needs(spec: JobSpec, shapes: Shapes, per_example: bool = False) -> Needs:
    """What a node takes. `shapes`: of the model's tensors; `per_example`: with a gradient for each
    example of a chunk, as differential privacy of examples needs them."""
    parameters = sum(math.prod(shape) for shape in shapes.values())
    through = sum(shape[0] + shape[1] for shape in shapes.values() if len(shape) == 2)
    rows, length = spec.optimizer.batch_size, spec.optimizer.seq_len
    copies = _STATES + (CHUNK if per_example else 0)
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    return Needs(
        weights=_FLOAT * (copies * parameters + inner.numbers(shapes)),
        activations=_FLOAT * rows * length * (_KEPT * through + _LOGITS * spec.model.vocab_size),
        batches=_TOKEN * rows * (length + 1) * (spec.batches_per_round + _BATCHES),
    )


def stage_needs(spec: JobSpec, slices: Slices, index: int, shapes: Shapes) -> Needs:
    """What a miner of one stage takes. `shapes`: of the stage's tensors.

    Counted from above: as many samples wait for their gradient as one step takes, also at the last
    stage, which keeps its logits and goes back at once if its miner is honest. A verifier replays
    the log of one that is not, and reads a published state where epochs are audited by segments.
    """
    assert spec.pipeline is not None
    rows, length = spec.optimizer.batch_size, spec.optimizer.seq_len
    whole = needs(spec, shapes)
    fixed = spec.model.vocab_size * spec.model.d_model if slices.boundary.table == "fixed" else 0
    logits = 0 if index == slices.last else _LOGITS * spec.model.vocab_size
    codes = _CODES * slices.code_shape(rows, length)[-1] if slices.last else 0
    sample = whole.activations + _FLOAT * rows * length * (codes - logits)
    owed = 0
    if spec.full_every > 1:
        owed = _OWED * sum(math.prod(shape) for shape in shapes.values())
    if spec.segment:
        owed += _READ * sum(math.prod(shape) for shape in shapes.values())
    return Needs(
        weights=whole.weights + _FLOAT * (fixed + owed),
        activations=spec.pipeline.local_batch * sample,
        batches=whole.batches,
    )


def check_stages(spec: JobSpec, slices: Slices, stages: Sequence[Shapes], memory: int) -> None:
    """Raise SpecError if a machine can't hold every single stage in `memory` bytes: the seed of a
    round may give a node any of them. Where nodes declare their memory, one stage is enough.

    `stages`: shapes of each stage's tensors. Who evaluates holds them all: see `check_whole`.
    """
    assert spec.pipeline is not None
    asked = [stage_needs(spec, slices, index, shapes) for index, shapes in enumerate(stages)]
    choose = min if spec.pipeline.declared_memory else max
    index, most = choose(enumerate(asked), key=lambda one: one[1].memory)
    _refuse_beyond(f"training stage {index}", most, memory)
    _check_rows(spec)


def check_whole(spec: JobSpec, shapes: Shapes, memory: int) -> None:
    """Raise SpecError if a machine can't evaluate all stages of a split model together.

    `shapes`: of all stages' tensors. Counted from above: no gradient is taken, so activations
    are fewer than those of a training step.
    """
    parameters = sum(math.prod(shape) for shape in shapes.values())
    step = needs(spec, shapes)
    copies = _WHOLE + (_VELOCITY if spec.outer_momentum else 0)
    asked = Needs(_FLOAT * copies * parameters, step.activations, step.batches)
    _refuse_beyond("evaluating all stages together", asked, memory)


def check_spec(spec: JobSpec, asked: Needs, memory: int) -> None:
    """Raise SpecError if a machine can't train this in `memory` bytes. `asked`: what it takes."""
    _refuse_beyond("training", asked, memory)
    _check_rows(spec)


def _refuse_beyond(what: str, asked: Needs, memory: int) -> None:
    if asked.memory > memory:
        raise SpecError(
            f"{what} takes about {_gib(asked.memory)} GiB (model and optimizer "
            f"{_gib(asked.weights)}, activations {_gib(asked.activations)}, a round's batches "
            f"{_gib(asked.batches)}), and this machine has {_gib(memory)} GiB for it; see the "
            "setting `max_memory_gib`"
        )


def _check_rows(spec: JobSpec) -> None:
    rows = spec.batches_per_round * spec.optimizer.batch_size
    if rows > MAX_ROUND_ROWS:
        raise SpecError(
            f"batches_per_round times optimizer.batch_size is {rows} sequences a round, at most "
            f"{MAX_ROUND_ROWS} are allowed"
        )


def check_data(spec: JobSpec, dataset: Dataset) -> None:
    """Raise SpecError if a batch of this dataset makes a node fetch too much."""
    if dataset.tokens > MAX_SIZE:
        raise SpecError(f"the data claims {dataset.tokens} tokens, at most {MAX_SIZE} are allowed")
    # A sequence lies in one shard, or in two; in more only if they are shorter than it is.
    sizes = sorted((shard.tokens for shard in dataset.shards), reverse=True)
    across = 2 + spec.optimizer.seq_len // sizes[-1]
    touched = sizes[: spec.optimizer.batch_size * across]
    fetched = sum(touched) * np.dtype(dataset.dtype).itemsize
    if fetched > MAX_BATCH_FETCH:
        raise SpecError(
            f"one batch of {spec.optimizer.batch_size} sequences may lie in {len(touched)} shards "
            f"with {_gib(fetched)} GiB, at most {_gib(MAX_BATCH_FETCH)} are allowed; pack the data "
            "in smaller shards or take smaller batches"
        )


@cache
def memory_here() -> int:
    """Bytes that a job may take on this machine: three quarters of what the process may have."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in map(Path, _LIMITS):
        text = path.read_text().strip() if path.is_file() else "max"
        if text.isdigit():
            total = min(total, int(text))
    return int(total * _SHARE)


def _gib(count: int) -> str:
    return f"{count / _GIB:.3g}"
