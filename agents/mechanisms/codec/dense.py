# SPDX-License-Identifier: Apache-2.0
"""The codec `dense`: the pseudo-gradient travels as it is, every fp32 bit of it.

It is lossless: `decode(encode(x)) == x` bit for bit, and equal gradients have equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from agents.mechanisms.codec import Payload, Shapes, register
from agents.mechanisms.codec.parts.container import Layout, pack, size, unpack


@register("dense")
@dataclass(frozen=True)
class Dense:
    """The codec `dense`; see `agents.mechanisms.codec.Codec`."""

    has_memory: ClassVar[bool] = False
    memory_rounds: ClassVar[int] = 0
    lossless: ClassVar[bool] = True

    def layout(self, shapes: Shapes) -> Layout:
        """Every model tensor under its own name, as F32."""
        return {name: ("F32", tuple(shape)) for name, shape in shapes.items()}

    def wire_size(self, shapes: Shapes) -> int:
        """4 bytes a number, plus the header."""
        return size(self.layout(shapes))

    def encode(self, gradient: Payload, memory: None = None, seed: bytes = b"") -> bytes:
        """The payload of an fp32 dict on any device; ValueError if a tensor is not fp32."""
        for name, tensor in gradient.items():
            if tensor.dtype != torch.float32:
                raise ValueError(
                    f"Tensor {name!r} is {tensor.dtype}; the dense codec needs float32."
                )
        shapes = {name: tuple(tensor.shape) for name, tensor in gradient.items()}
        parts = {
            name: tensor.detach().cpu().contiguous().numpy().astype("<f4", copy=False).tobytes()
            for name, tensor in gradient.items()
        }
        return pack(self.layout(shapes), parts)

    def decode(self, data: bytes, shapes: Shapes, seed: bytes = b"") -> dict[str, Tensor]:
        """New fp32 CPU tensors of a payload; ContainerError if it hasn't exactly these tensors."""
        return {
            name: torch.from_numpy(np.frombuffer(part, "<f4").astype(np.float32)).reshape(
                shapes[name]
            )
            for name, part in unpack(data, self.layout(shapes)).items()
        }

    def remember(self, gradient: Payload, memory: None, decoded: Payload) -> None:
        """None: nothing is lost."""

    def linear(self, gradient: Payload, seed: bytes) -> Tensor:
        """The gradient as one float64 vector [d], tensors in the order of their names."""
        return torch.cat([gradient[name].reshape(-1).double() for name in sorted(gradient)])

    def measured(self, data: bytes, shapes: Shapes, seed: bytes) -> Tensor:
        """The payload's numbers in the space of `linear`."""
        return self.linear(self.decode(data, shapes), seed)

    def rounding_std(self, shapes: Shapes) -> float:
        """0: nothing is rounded."""
        return 0.0
