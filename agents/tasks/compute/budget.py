# SPDX-License-Identifier: Apache-2.0
"""How much a task may ask for: counted in whole numbers, so every node gives the same answer.

Operations are counted as usual (arXiv 2001.08361, section 2.1): 2 per parameter and token forward,
three times that with the backward pass. That count leaves out what matters in small or long models,
so it is added: 4 * length * d_model per layer and token for attention, whose mask is not made use
of, and a fixed price for each exponential and each number that goes through a layer. Half of the
paid time is for computing and half for reading inputs, each at the class's rate from below, and a
node may have `AT_ONCE` tasks in hand, each with a share of its machine. So a node finishes in time
whatever passes here, even if it was drawn for other tasks too.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.tasks.compute.classes import Limits
from agents.tasks.compute.errors import TaskError
from agents.training.spec import ModelSpec

AT_ONCE = 2
"""Tasks that a node answers for at once: MAX_OPEN of contracts/modules/executors.vy."""

SHARES = 2 * AT_ONCE
"""Into how many parts a task's paid time is cut; it may compute for one, and read for another."""

SMALLEST_READ = 256 * 1024
"""Bytes that any file counts for: a task of many small files waits for each."""

_FLOAT = 4
_START_US = 1_000_000  # a network, a plan, a first call
_FILE_COPIES = 8  # read, parse, check, copy, hash, save, publish, and one over
_STEP_COPIES = 24  # passes of AdamW, the gradient's norm and the trace over the weights
_EXP_FLOPS = 32  # of a softmax: the exponential, its sum, its maximum, the division
_NUMBER_FLOPS = 8  # of an elementwise operation, which waits for memory
_LAST_COPIES = 2  # of a sequence's last logits, which are looked at for what comes next, and hashed
_START_BYTES = 64 * 2**20  # code and tables that a first call loads


@dataclass(frozen=True)
class Cost:
    """What a task needs.

    Attributes:
        flops: fp32 operations.
        copied: bytes of weights copied, hashed or updated, of last logits and of position tables.
        layers: layer passes of a batch, forward or backward (which counts as two).
        rows: sequences cut out of a dataset.
        memory: bytes.
        scores: bytes of attention scores, where a class keeps them.
    """

    flops: int
    copied: int
    layers: int
    rows: int
    memory: int
    scores: int

    def microseconds(self, limits: Limits) -> int:
        """Time on the slowest node of a class, rounded up."""
        computing = -(-self.flops * 1_000_000 // limits.flops)
        copying = -(-self.copied * 1_000_000 // limits.copied)
        calling = self.layers * limits.layer_us + self.rows * limits.row_us
        return _START_US + computing + copying + calling


def forward_work(
    model: ModelSpec, parameters: int, batches: int, rows: int, length: int, tokens: int
) -> Cost:
    """Forward passes over at most `batches` batches of `rows` sequences of at most `length` tokens,
    `tokens` in all."""
    passes = batches * (model.n_layers + 1)
    return Cost(
        flops=tokens * _token_flops(model, parameters, length),
        copied=_FLOAT
        * (_FILE_COPIES * parameters + _LAST_COPIES * batches * rows * model.vocab_size)
        + _tables(model),
        layers=passes,
        rows=batches * rows,
        memory=_memory(model, 4 * parameters, rows * length, layers=2) + 16 * tokens,
        scores=_scores(model, rows, length, layers=1),
    )


def training_work(model: ModelSpec, parameters: int, steps: int, rows: int, length: int) -> Cost:
    """AdamW steps over batches of `rows` sequences of `length` tokens."""
    passes = steps * (model.n_layers + 1)
    tokens = steps * rows * length
    return Cost(
        flops=3 * tokens * _token_flops(model, parameters, length),
        copied=_FLOAT * (_FILE_COPIES + _STEP_COPIES * steps) * parameters + _tables(model),
        layers=3 * passes,
        rows=steps * rows,
        memory=_memory(model, 16 * parameters, rows * length, model.n_layers)
        + 16 * (tokens + steps * rows),
        scores=_scores(model, rows, length, model.n_layers),
    )


def _numbers(model: ModelSpec) -> int:
    """Numbers that one token leaves behind in one layer, from above."""
    return 24 * model.d_model + 12 * model.d_ff


def _token_flops(model: ModelSpec, parameters: int, length: int) -> int:
    attention = length * (4 * model.d_model + _EXP_FLOPS * model.n_heads)
    layer = attention + _NUMBER_FLOPS * _numbers(model)
    return 2 * parameters + model.n_layers * layer + _EXP_FLOPS * model.vocab_size


def _memory(model: ModelSpec, weights: int, tokens: int, layers: int) -> int:
    """Bytes of `weights` numbers in all, of what `tokens` tokens leave behind in `layers` layers,
    of their logits and of the position tables."""
    left = tokens * (layers * _numbers(model) + 4 * model.vocab_size)
    return _START_BYTES + _FLOAT * (weights + left) + _tables(model)


def _tables(model: ModelSpec) -> int:
    """Bytes of the sines and cosines of all positions while they are made, in double precision."""
    return 4 * _FLOAT * model.max_seq_len * (model.d_model // model.n_heads)


def _scores(model: ModelSpec, rows: int, length: int, layers: int) -> int:
    return 3 * _FLOAT * layers * rows * model.n_heads * length * length


class Budget:
    """What one task may use up; everything that does not fit is refused, never tried."""

    def __init__(self, limits: Limits, run_s: int) -> None:
        """`run_s`: whole seconds between the draw and the deadline, from the chain."""
        self._limits = limits
        self._share_us = max(0, run_s) * 1_000_000 // SHARES
        self._unread = min(limits.inputs, self._share_us * limits.fetched // 1_000_000)

    def readable(self) -> int:
        """Bytes that the next file may have; TaskError if no further file may be read."""
        if self._unread < SMALLEST_READ:
            raise TaskError(
                "too_large", "the task reads more than its share of the paid time allows"
            )
        return self._unread

    def read(self, count: int) -> None:
        """Note a file of `count` bytes, at most `readable`."""
        self._unread -= max(count, SMALLEST_READ)

    def allow(self, work: Cost) -> None:
        """Raise TaskError unless a node of the class does the work in its share of the time."""
        memory = work.memory + (work.scores if self._limits.keeps_scores else 0)
        if memory > self._limits.memory:
            raise TaskError(
                "too_large",
                f"the task needs about {memory} bytes of memory, its class has "
                f"{self._limits.memory}",
            )
        needed = work.microseconds(self._limits)
        if needed > self._share_us:
            raise TaskError(
                "too_long",
                f"the task may take {needed} microseconds in its class; its share of the paid "
                f"time is {self._share_us}: pay for more seconds, or ask for less",
            )
