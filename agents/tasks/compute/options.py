# SPDX-License-Identifier: Apache-2.0
"""What all kinds of task have in common: bounded options, their results, and the register.

A kind is found by the name of its file in `agents.tasks.compute.kinds`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from agents.mechanisms.registry import MechanismRegistry
from agents.tasks.compute.execution import Execution
from agents.training.spec import ModelSpec

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


_registry = MechanismRegistry(f"{__package__}.kinds", "kind of task")
register = _registry.register
get = _registry.get
names = _registry.names
