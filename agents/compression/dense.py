# SPDX-License-Identifier: Apache-2.0
"""The rule: the pseudo-gradient travels as it is, every fp32 bit of it.

The lossless codec: `decode(encode(x)) == x` bit for bit, and equal gradients have equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from agents.compression import Shapes, register
from agents.compression.container import Layout, pack, size, unpack


@register("dense")
class Dense:
    """The codec `dense`; see `agents.compression.Codec`."""

    def initial_state(self, shapes: Shapes) -> None:
        """None: this codec has no memory."""

    def layout(self, shapes: Shapes) -> Layout:
        """Every model tensor under its own name, as F32."""
        return {name: ("F32", tuple(shape)) for name, shape in shapes.items()}

    def wire_size(self, shapes: Shapes) -> int:
        """4 bytes a number, plus the header."""
        return size(self.layout(shapes))

    def encode(self, gradient: Mapping[str, Tensor], state: None = None) -> tuple[bytes, None]:
        """(payload, None) of an fp32 dict on any device; ValueError if a tensor is not fp32."""
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
        return pack(self.layout(shapes), parts), None

    def decode(self, data: bytes, shapes: Shapes) -> dict[str, Tensor]:
        """New fp32 CPU tensors of a payload; ContainerError if it hasn't exactly these tensors."""
        return {
            name: torch.from_numpy(np.frombuffer(part, "<f4").astype(np.float32)).reshape(
                shapes[name]
            )
            for name, part in unpack(data, self.layout(shapes)).items()
        }
