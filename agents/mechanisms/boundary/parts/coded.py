# SPDX-License-Identifier: Apache-2.0
"""What boundaries have in common whose sender makes a code of fewer channels."""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.boundary.parts.wire import Wire
from agents.mechanisms.options import check_choice, check_int

MAX_WIDTH = 32_768
FORMS = ("bf16", "fp8", "fp6", "fp4", "int8", "int4")


@dataclass(frozen=True, kw_only=True)
class Coded:
    """Options of a narrow code.

    Attributes:
        width: channels of the code, 1 to 32,768 and at most the model's.
        code: bf16, fp8, fp6, fp4, int8 or int4: the form of codes.
        gradient: one of them, for gradients; by default that of codes.
        block: channels per scale of int8 and int4, or per power of fp4; 0 is all of a token's.
    """

    width: int = 16
    code: str = "bf16"
    gradient: str | None = None
    block: int = 0

    def __post_init__(self) -> None:
        check_int("width", self.width, 1, MAX_WIDTH)
        check_choice("code", self.code, FORMS)
        if self.gradient is not None:
            check_choice("gradient", self.gradient, FORMS)
        check_int("block", self.block, 0, MAX_WIDTH)

    @property
    def codes(self) -> Wire:
        return Wire(self.code, self.block)

    @property
    def gradients(self) -> Wire:
        return Wire(self.gradient or self.code, self.block)

    def code_width(self, d_model: int) -> int:
        """`width`; ValueError if the model has fewer channels."""
        if self.width > d_model:
            raise ValueError(f"width {self.width} must not exceed d_model {d_model}.")
        return self.width
