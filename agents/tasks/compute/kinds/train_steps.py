# SPDX-License-Identifier: Apache-2.0
"""`train_steps`: a number of AdamW steps from a checkpoint; the result is the new checkpoint.

The steps are those of a round (`agents.training.local`): the optimizer's state starts from zero,
and batch b is the one that every job with this dataset, seed and validation share calls b. The
payload is the state file itself, so the result's digest names a checkpoint that the next task, or a
job, can start from.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from agents.tasks.compute.budget import training_work
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.execution import Execution
from agents.tasks.compute.options import BatchSize, KindOptions, Place, Seed, SeqLen, register
from agents.training.documents import DataError
from agents.training.local import train_local
from agents.training.rng import derive_key
from agents.training.spec import Hyperparameters, ModelSpec
from agents.training.state import PayloadError, save_state

Number = Annotated[float, Strict()]


@register("train_steps")
class TrainSteps(KindOptions):
    """Batches `first` to `first + steps - 1`, one step each, all at learning rate `lr`.

    `seed` fixes the order of the data; `val_fraction`, the last share of the dataset, is never
    trained on. The others are AdamW's (arXiv 1711.05101) and the bound on the gradient's norm.
    """

    first: Place = 0
    steps: Annotated[int, Strict(), Field(ge=1, le=10_000)]
    seq_len: SeqLen
    batch_size: BatchSize = 8
    seed: Seed = 0
    val_fraction: Annotated[Number, Field(ge=1e-6, le=0.5)] = 0.05
    lr: Annotated[Number, Field(ge=1e-8, le=1.0)] = 1e-3
    beta1: Annotated[Number, Field(ge=0.0, le=0.9999)] = 0.9
    beta2: Annotated[Number, Field(ge=0.0, le=0.999999)] = 0.95
    eps: Annotated[Number, Field(ge=1e-12, le=1e-2)] = 1e-8
    weight_decay: Annotated[Number, Field(ge=0.0, le=1.0)] = 0.01
    grad_clip: Annotated[Number, Field(ge=1e-4, le=1e4)] = 1.0

    def fits(self, model: ModelSpec) -> None:
        """Raise ValueError if a sequence is longer than the model's positions."""
        if self.seq_len > model.max_seq_len:
            raise ValueError(
                f"seq_len {self.seq_len} must not exceed model.max_seq_len {model.max_seq_len}"
            )

    def hyperparameters(self) -> Hyperparameters:
        """What `train_local` needs."""
        return Hyperparameters(
            lr=self.lr,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            weight_decay=self.weight_decay,
            grad_clip=self.grad_clip,
            precision="fp32",
        )

    def run(self, execution: Execution) -> bytes:
        """The new checkpoint: a state file of the spec's model."""
        model = execution.spec.model
        execution.allow(
            training_work(model, execution.parameters, self.steps, self.batch_size, self.seq_len)
        )
        source = execution.source(self.seq_len, self.batch_size, self.seed, self.val_fraction)
        try:
            batches = [source.batch(self.first + step) for step in range(self.steps)]
        except DataError as error:
            raise TaskError("bad_data", str(error)) from error
        try:
            result = train_local(
                execution.network(),
                execution.state(),
                batches,
                self.hyperparameters(),
                derive_key("tasks/train_steps", self.seed),
            )
            return save_state(result.state)
        except (FloatingPointError, PayloadError) as error:
            raise TaskError("not_finite", str(error)) from error
