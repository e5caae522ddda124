# SPDX-License-Identifier: Apache-2.0
"""The boundary `cut`: nothing crosses; the control that says what depth is worth.

Every stage has its own embedding, and only the last one's weights have a gradient: it is a shallow
model that trains alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from agents.mechanisms.boundary import Parts, Side, Table, register
from agents.mechanisms.boundary.parts.coded import OnWire
from agents.mechanisms.boundary.parts.sides import given
from agents.mechanisms.boundary.parts.wire import Wire


class _Nothing(Side):
    def forward(self, x: Tensor, base: Tensor | None) -> Tensor:
        return x[..., :0]


class _Afresh(Side):
    def forward(self, code: Tensor, base: Tensor | None) -> Tensor:
        return given(base)


@register("cut")
@dataclass(frozen=True, kw_only=True)
class Cut(OnWire):
    """The boundary `cut`; see `agents.mechanisms.boundary.Boundary`. It has no options."""

    table: ClassVar[Table] = "own"
    takes_halves: ClassVar[bool] = False

    @property
    def wire(self) -> Wire:
        return Wire("fp32")

    def code_width(self, d_model: int) -> int:
        """No channel."""
        return 0

    def bytes_per_token(self, d_model: int) -> float:
        """None; headers and ids still cross."""
        return 0.0

    def sender(self, parts: Parts) -> Side:
        """No parameters."""
        return _Nothing()

    def receiver(self, parts: Parts) -> Side:
        """No parameters: the stage's own table is the stream."""
        return _Afresh()
