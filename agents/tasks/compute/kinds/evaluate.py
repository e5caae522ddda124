# SPDX-License-Identifier: Apache-2.0
"""`evaluate`: the mean loss of a checkpoint over a range of a dataset's sequences.

The loss is `agents.training.evaluate.validation_loss`: fp32 forward passes, summed in fp64. The
result spells it as a hexadecimal float, which is exact.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field, Strict

from agents.storage.canonical import dumps
from agents.tasks.compute.budget import forward_work
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.execution import Execution
from agents.tasks.compute.options import BatchSize, KindOptions, Place, SeqLen, register
from agents.tasks.compute.witness import witnessed
from agents.training.documents import DataError
from agents.training.evaluate import validation_loss
from agents.training.spec import ModelSpec


@register("evaluate")
class Evaluate(KindOptions):
    """Sequences `first` to `first + sequences - 1` of the dataset, in its own order.

    Sequence i is tokens i * seq_len to i * seq_len + seq_len, both included; the first is not
    predicted. They go through the network `batch_size` at a time (part of what the bits depend on).
    """

    first: Place = 0
    sequences: Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
    seq_len: SeqLen
    batch_size: BatchSize = 8

    def fits(self, model: ModelSpec) -> None:
        """Raise ValueError if a sequence is longer than the model's positions."""
        if self.seq_len > model.max_seq_len:
            raise ValueError(
                f"seq_len {self.seq_len} must not exceed model.max_seq_len {model.max_seq_len}"
            )

    def run(self, execution: Execution) -> bytes:
        """Canonical JSON: `kind`, `spec` (digest, hex), `loss` (nats per token, hexadecimal float),
        `tokens` (how many were predicted) and `witness` (`agents.tasks.compute.witness`)."""
        tokens = self.sequences * self.seq_len
        batches = -(-self.sequences // self.batch_size)
        rows = min(self.batch_size, self.sequences)
        model = execution.spec.model
        execution.allow(
            forward_work(model, execution.parameters, batches, rows, self.seq_len, tokens)
        )
        source = execution.source(self.seq_len, batch_size=1)
        total = source.train_sequences + source.val_sequences
        if self.first + self.sequences > total:
            raise TaskError(
                "bad_data",
                f"the dataset has {total} sequences of {self.seq_len}; the task asks for number "
                f"{self.first + self.sequences - 1}",
            )
        numbers = np.arange(self.first, self.first + self.sequences)
        try:
            parts = np.split(numbers, range(self.batch_size, self.sequences, self.batch_size))
            read = [source.sequences(part) for part in parts]
        except DataError as error:
            raise TaskError("bad_data", str(error)) from error
        network = execution.network()
        with witnessed(network.model) as witness:
            loss = validation_loss(network, execution.state(), read)
        if not math.isfinite(loss):
            raise TaskError("not_finite", f"the loss is {loss}")
        return dumps(
            {
                "kind": "evaluate",
                "spec": execution.spec_digest,
                "loss": loss.hex(),
                "tokens": tokens,
                "witness": witness.hexdigest(),
            }
        )
