# SPDX-License-Identifier: Apache-2.0
"""How much a task may ask for: counted in whole numbers, so every node gives the same answer.

Operations are counted as usual (arXiv 2001.08361, section 2.1): 2 per parameter and token forward,
three times that with the backward pass, and 4 * length * d_model per layer and token for attention,
whose mask is not made use of. Half of the paid time is for computing and half for reading inputs,
each at the class's rate from below, so what passes here is done in time.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.tasks.classes import Limits
from agents.tasks.errors import TaskError
from agents.training.spec import ModelSpec

SMALLEST_READ = 256 * 1024
"""Bytes that any file counts for: a task of many small files waits for each."""

_FLOAT = 4
_START_US = 1_000_000  # a network, a plan, a first call
_FILE_COPIES = 8  # read, parse, check, copy, hash, save, publish, and one over
_STEP_COPIES = 24  # passes of AdamW, the gradient's norm and the trace over the weights


@dataclass(frozen=True)
class Work:
    """What a task needs.

    Attributes:
        flops: fp32 operations.
        copied: bytes of weights copied, hashed or updated.
        layers: layer passes of a batch, forward or backward (which counts as two).
        rows: sequences cut out of a dataset.
        memory: bytes.
    """

    flops: int
    copied: int
    layers: int
    rows: int
    memory: int

    def microseconds(self, limits: Limits) -> int:
        """Time on the slowest node of a class, rounded up."""
        computing = -(-self.flops * 1_000_000 // limits.flops)
        copying = -(-self.copied * 1_000_000 // limits.copied)
        calling = self.layers * limits.layer_us + self.rows * limits.row_us
        return _START_US + computing + copying + calling


def forward_work(
    model: ModelSpec, parameters: int, batches: int, rows: int, length: int, tokens: int
) -> Work:
    """Forward passes over at most `batches` batches of `rows` sequences of at most `length` tokens,
    `tokens` in all."""
    layers = model.n_layers + 1
    return Work(
        flops=tokens * _token_flops(model, parameters, length),
        copied=_FILE_COPIES * _FLOAT * parameters,
        layers=batches * layers,
        rows=batches * rows,
        memory=_memory(model, parameters, 4, rows * length, length, 2) + 16 * tokens,
    )


def training_work(model: ModelSpec, parameters: int, steps: int, rows: int, length: int) -> Work:
    """AdamW steps over batches of `rows` sequences of `length` tokens."""
    layers = model.n_layers + 1
    tokens = steps * rows * length
    return Work(
        flops=3 * tokens * _token_flops(model, parameters, length),
        copied=(_FILE_COPIES + _STEP_COPIES * steps) * _FLOAT * parameters,
        layers=3 * steps * layers,
        rows=steps * rows,
        memory=_memory(model, parameters, 16, rows * length, length, model.n_layers)
        + 16 * (tokens + steps * rows),
    )


def _token_flops(model: ModelSpec, parameters: int, length: int) -> int:
    return 2 * parameters + 4 * model.n_layers * length * model.d_model


def _memory(
    model: ModelSpec, parameters: int, copies: int, tokens: int, length: int, layers: int
) -> int:
    """Bytes: `copies` of the weights, the activations of `layers` layers, logits, position tables.

    The attention matrix is counted, whether or not a kernel of the class keeps it.
    """
    activation = layers * (16 * model.d_model + 8 * model.d_ff + 3 * model.n_heads * length)
    logits = 4 * model.vocab_size
    tables = 4 * model.max_seq_len * (model.d_model // model.n_heads)
    return _FLOAT * (copies * parameters + tokens * (activation + logits) + tables)


class Budget:
    """What one task may use up; everything that does not fit is refused, never tried."""

    def __init__(self, limits: Limits, run_s: int) -> None:
        """`run_s`: whole seconds between the draw and the deadline, from the chain."""
        self._limits = limits
        self._half_us = max(0, run_s) * 500_000
        self._unread = min(limits.inputs, self._half_us * limits.fetched // 1_000_000)

    def readable(self) -> int:
        """Bytes that the next file may have; TaskError if no further file may be read."""
        if self._unread < SMALLEST_READ:
            raise TaskError("too_large", "the task reads more than half of the paid time allows")
        return self._unread

    def read(self, count: int) -> None:
        """Note a file of `count` bytes, at most `readable`."""
        self._unread -= max(count, SMALLEST_READ)

    def allow(self, work: Work) -> None:
        """Raise TaskError unless a node of the class does the work in half of the time."""
        if work.memory > self._limits.memory:
            raise TaskError(
                "too_large",
                f"the task needs about {work.memory} bytes of memory, its class has "
                f"{self._limits.memory}",
            )
        needed = work.microseconds(self._limits)
        if needed > self._half_us:
            raise TaskError(
                "too_long",
                f"the task may take {needed} microseconds in its class; half of the paid time is "
                f"{self._half_us}: pay for more seconds, or ask for less",
            )
