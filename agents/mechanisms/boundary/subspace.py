# SPDX-License-Identifier: Apache-2.0
"""The boundary `subspace`: a fixed subspace of the stream less the token embedding.

After arXiv 2506.01260, simplified. Each stage has a fixed table of tokens, the embedding's first
bits; the sender takes its rows off the stream, the receiver adds them. What is left crosses as its
coordinates in a fixed subspace; here that is spanned by the first `width` channels, whose
coordinates need no arithmetic. The paper also keeps the weights that write into the stream inside
the subspace, which is not done here: what they write outside is lost, and has no gradient. A
boundary sees the stream alone; to keep weights inside, stages and inner optimizers would have to
project matrices and their state at each step. docs/pipeline.md says what that means for its tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional

from agents.mechanisms.boundary import Parts, Side, Table, register
from agents.mechanisms.boundary.parts.coded import Coded
from agents.mechanisms.boundary.parts.sides import given


class _Sender(Side):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor, base: Tensor | None) -> Tensor:
        return (x - given(base))[..., : self.width]


class _Receiver(Side):
    def __init__(self, spare: int) -> None:
        super().__init__()
        self.spare = spare

    def forward(self, code: Tensor, base: Tensor | None) -> Tensor:
        return given(base) + functional.pad(code, (0, self.spare))


@register("subspace")
@dataclass(frozen=True, kw_only=True)
class Subspace(Coded):
    """The boundary `subspace`; see `agents.mechanisms.boundary.Boundary` and `Coded`."""

    table: ClassVar[Table] = "fixed"
    takes_halves: ClassVar[bool] = False

    def sender(self, parts: Parts) -> Side:
        """No parameters."""
        return _Sender(self.code_width(parts.d_model))

    def receiver(self, parts: Parts) -> Side:
        """No parameters."""
        return _Receiver(parts.d_model - self.code_width(parts.d_model))
