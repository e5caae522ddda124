# SPDX-License-Identifier: Apache-2.0
"""The boundary `none`: the whole residual stream crosses; the control that loses nothing.

In fp32 the stages together are the unsplit model, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from agents.mechanisms.boundary import Parts, Side, Table, register
from agents.mechanisms.boundary.parts.coded import MAX_WIDTH
from agents.mechanisms.boundary.parts.wire import BITS, Wire
from agents.mechanisms.options import check_choice, check_int


class _Same(Side):
    def forward(self, x: Tensor, base: Tensor | None) -> Tensor:
        return x


@register("none")
@dataclass(frozen=True, kw_only=True)
class NoBoundary:
    """The boundary `none`; see `agents.mechanisms.boundary.Boundary`.

    Attributes:
        code: fp32, or bf16, fp8, fp6, fp4, int8 or int4, which round codes and gradients.
        block: as `Coded` has it.
    """

    code: str = "fp32"
    block: int = 0

    table: ClassVar[Table] = "none"
    takes_halves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_choice("code", self.code, tuple(BITS))
        check_int("block", self.block, 0, MAX_WIDTH)

    @property
    def codes(self) -> Wire:
        return Wire(self.code, self.block)

    @property
    def gradients(self) -> Wire:
        return self.codes

    def code_width(self, d_model: int) -> int:
        """All channels."""
        return d_model

    def sender(self, parts: Parts) -> Side:
        """No parameters."""
        return _Same()

    def receiver(self, parts: Parts) -> Side:
        """No parameters."""
        return _Same()
