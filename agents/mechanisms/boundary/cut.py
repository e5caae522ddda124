# SPDX-License-Identifier: Apache-2.0
"""The boundary `cut`: nothing crosses; the control that says what depth is worth.

Every stage has its own embedding, and only the last one's weights have a gradient: it is a shallow
model that trains alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from agents.mechanisms.boundary import Parts, Side, Table, register
from agents.mechanisms.boundary.parts.context import MAX_CONTEXT, Context
from agents.mechanisms.boundary.parts.sides import given
from agents.mechanisms.boundary.parts.wire import Wire
from agents.mechanisms.options import check_int


class _Nothing(Side):
    def forward(self, x: Tensor, base: Tensor | None) -> Tensor:
        return x[..., :0]


class _Afresh(Side):
    def __init__(self, d_model: int, context: int) -> None:
        super().__init__({"context.weight": 0.0} if context else {})
        self.context = Context(d_model, context) if context else nn.Identity()

    def forward(self, code: Tensor, base: Tensor | None) -> Tensor:
        rows: Tensor = self.context(given(base))
        return rows


@register("cut")
@dataclass(frozen=True, kw_only=True)
class Cut:
    """The boundary `cut`; see `agents.mechanisms.boundary.Boundary`.

    Attributes:
        context: tokens before a token that add to its row, as in `residual`, whose control it is.
    """

    context: int = 0

    table: ClassVar[Table] = "own"
    takes_halves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_int("context", self.context, 0, MAX_CONTEXT)

    codes: ClassVar[Wire] = Wire("fp32")
    gradients: ClassVar[Wire] = Wire("fp32")

    def code_width(self, d_model: int) -> int:
        """No channel; headers and ids still cross."""
        return 0

    def sender(self, parts: Parts) -> Side:
        """No parameters."""
        return _Nothing()

    def receiver(self, parts: Parts) -> Side:
        """context * d_model parameters: the stage's own table is the stream."""
        return _Afresh(parts.d_model, self.context)
