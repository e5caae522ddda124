# SPDX-License-Identifier: Apache-2.0
"""What every kind of task has in common: bounded options, and a result that they decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from agents.training.spec import ModelSpec

if TYPE_CHECKING:
    from agents.tasks.execution import Execution

MAX_SEQ_LEN = 131_072

SeqLen = Annotated[int, Strict(), Field(ge=1, le=MAX_SEQ_LEN)]
BatchSize = Annotated[int, Strict(), Field(ge=1, le=4_096)]
Place = Annotated[int, Strict(), Field(ge=0, le=2**40)]
Seed = Annotated[int, Strict(), Field(ge=0, le=2**63 - 1)]


class KindOptions(BaseModel):
    """Base of the kinds: a kind is a class of options that can be carried out."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def fits(self, model: ModelSpec) -> None:
        """Raise ValueError, in a sentence, unless the options go with the model."""
        raise NotImplementedError

    def run(self, execution: Execution) -> bytes:
        """The payload: the same bytes on every node of the class.

        Raises:
            TaskError: the task is refused.
            StoreError: an input cannot be had now.
        """
        raise NotImplementedError
