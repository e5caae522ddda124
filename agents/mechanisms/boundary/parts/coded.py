# SPDX-License-Identifier: Apache-2.0
"""What boundaries have in common whose sender makes a code of fewer channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from agents.mechanisms.boundary.parts.wire import Shape, Wire
from agents.mechanisms.options import check_choice, check_int

MAX_WIDTH = 32_768


@dataclass(frozen=True, kw_only=True)
class OnWire(ABC):
    """The part of a boundary that turns codes and gradients into bytes: all asks a `Wire`."""

    @property
    @abstractmethod
    def wire(self) -> Wire:
        """The form of the numbers."""

    @property
    def bytes_per_message(self) -> int:
        """Bytes of a message that are neither its header nor a token's."""
        return self.wire.bytes_per_message

    def pack(self, values: Tensor) -> bytes:
        """The message of a code or of its gradient, [batch, seq, width]; WireError."""
        return self.wire.pack(values)

    def unpack(self, data: bytes, shape: Shape) -> Tensor:
        """The fp32 code or gradient of a message; WireError for bytes that don't hold one."""
        return self.wire.unpack(data, shape)

    def rounded(self, values: Tensor) -> Tensor:
        """What `unpack` gives of `pack(values)`, without the bytes and the checks."""
        return self.wire.rounded(values)


@dataclass(frozen=True, kw_only=True)
class Coded(OnWire):
    """Options of a narrow code.

    Attributes:
        width: channels of the code, 1 to 32,768 and at most the model's.
        code: bf16, fp8, int8 or int4; gradients cross in the same form.
        block: channels per scale of int8 and int4; 0 is one scale a token.
    """

    width: int = 16
    code: str = "bf16"
    block: int = 0

    def __post_init__(self) -> None:
        check_int("width", self.width, 1, MAX_WIDTH)
        check_choice("code", self.code, ("bf16", "fp8", "int8", "int4"))
        check_int("block", self.block, 0, MAX_WIDTH)

    @property
    def wire(self) -> Wire:
        return Wire(self.code, self.block)

    def code_width(self, d_model: int) -> int:
        """`width`; ValueError if the model has fewer channels."""
        if self.width > d_model:
            raise ValueError(f"width {self.width} must not exceed d_model {d_model}.")
        return self.width

    def bytes_per_token(self, d_model: int) -> float:
        """Bytes of a token's code, without header and id."""
        return self.wire.bytes_per_token(self.code_width(d_model))
