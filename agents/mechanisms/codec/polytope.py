# SPDX-License-Identifier: Apache-2.0
"""The codec `polytope`: names the largest of every `cell` rotated numbers, and its sign.

It is meant for public jobs. With cells of 16 a payload is 100 times shorter, and the model learns
as with `dense` (docs/compression.md). After a seeded rotation (`rotation`) a gradient's numbers are
nearly Gaussian. Each cell of m of them is replaced by the nearest vertex of a cross-polytope,
+-e_i: log2(m) bits say which, one bit the sign (vqSGD, `arXiv 1911.07971`). One fp32 scale serves
all:

    A = gain * ||x||^2 / sum of the named magnitudes,

with which the decoded vector's component along x is gain * x, and so is its mean over all rotations
(the scale of DRIVE and EDEN, `arXiv 2105.08339`, theorem 1); over the seeds' rotations nearly so.
For Gaussian numbers and m = 16 one payload has cosine 0.52; errors of different nodes differ and
average out in the merge. So no error feedback is needed, and a verifier who checks a round needs no
earlier one.

The payload is the scale, then the cells' codes: index + m * (1 if negative). All bits of a payload
of scale 0 are zero, and no index points past the end, so one content has one encoding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from agents.mechanisms.codec import Payload, Shapes, register
from agents.mechanisms.codec.parts.bits import layout_of as byte_layout
from agents.mechanisms.codec.parts.bits import (
    pack_bits,
    packed_bytes,
    read_scale,
    unpack_bits,
    unwrap,
    wrap,
    wrapped_size,
)
from agents.mechanisms.codec.parts.container import ContainerError, Layout
from agents.mechanisms.codec.parts.rotation import Rotation
from agents.mechanisms.codec.parts.vector import flatten, length, split, total
from agents.mechanisms.options import check_choice, check_float

_MAX_SCALE = float(2.0**40)  # no decoded number then reaches 2^64
_CELLS = tuple(2**n for n in range(1, 13))


@register("polytope")
@dataclass(frozen=True, kw_only=True)
class Polytope:
    """The codec `polytope`; see `agents.mechanisms.codec.Codec`.

    Attributes:
        cell: m, a power of two from 2 to 4096. Bits a number: (log2(m) + 1) / m.
        gain: factor on the unbiased scale, from 0.01 to 4.
    """

    cell: int = 16
    gain: float = 1.0

    has_memory: ClassVar[bool] = False
    memory_rounds: ClassVar[int] = 0
    lossless: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, _CELLS)
        check_float("gain", self.gain, 0.01, 4.0)

    @property
    def _width(self) -> int:
        return self.cell.bit_length()

    def _cells(self, count: int) -> int:
        return -(-count // self.cell)

    def _nbytes(self, shapes: Shapes) -> int:
        return 4 + packed_bytes(self._cells(length(shapes)), self._width)

    def layout(self, shapes: Shapes) -> Layout:
        """One U8 tensor `q`: the scale, then the codes."""
        return byte_layout(self._nbytes(shapes))

    def wire_size(self, shapes: Shapes) -> int:
        """4 bytes, (log2(m) + 1) bits a cell, and the header's 72 or so."""
        return wrapped_size(self._nbytes(shapes))

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 dict; `memory` is not used.

        ValueError if a tensor is not fp32 or not finite, or if the numbers are far too large.
        """
        vector = flatten(gradient, "polytope")
        cells = np.zeros((self._cells(vector.size), self.cell))
        cells.reshape(-1)[: vector.size] = Rotation(vector.size, seed).forward(vector)
        index = np.abs(cells).argmax(axis=1)
        named = np.take_along_axis(cells, index[:, None], axis=1).reshape(-1)
        size = total(np.abs(named))
        exact = self.gain * (total(vector * vector) / size) if size else 0.0
        if not exact <= _MAX_SCALE:
            raise ValueError("The gradient's numbers are far too large for the polytope codec.")
        scale = np.float32(exact)
        codes = index + self.cell * (named < 0) if scale else np.zeros_like(index)
        return wrap(scale.astype("<f4").tobytes() + pack_bits(codes, self._width))

    def least_change(
        self, gradient: Payload, memory: Payload | None, data: bytes, seed: bytes
    ) -> float:
        """How far the rotated numbers are from having these as their cells' largest, or, if that is
        more, from this scale: it moves no faster than its slope, to the first order."""
        vector = flatten(gradient, "polytope")
        cells = np.zeros((self._cells(vector.size), self.cell))
        cells.reshape(-1)[: vector.size] = Rotation(vector.size, seed).forward(vector)
        raw = unwrap(data, 4 + packed_bytes(len(cells), self._width))
        scale = read_scale(raw[:4], _MAX_SCALE)
        codes = unpack_bits(raw[4:], len(cells), self._width).astype(np.int64)
        largest = np.abs(cells).max(axis=1)
        size, squares = total(largest), total(vector * vector)
        if not size:
            return math.inf if scale else 0.0  # from zeros no small change leads to a payload
        if not scale:
            return math.sqrt(squares)
        place = (codes % self.cell)[:, None]
        said = np.take_along_axis(cells, place, axis=1).reshape(-1)
        said = np.where(codes < self.cell, said, -said)
        apart = np.sqrt(np.square(largest - said).sum() / 2)
        slope = self.gain * (2 * math.sqrt(squares) / size)
        slope += self.gain * squares * math.sqrt(len(cells)) / (size * size)
        off = abs(scale - self.gain * squares / size) - scale * 2.0**-22
        return max(float(apart), off / slope, 0.0)

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> dict[str, Tensor]:
        """New fp32 CPU tensors.

        ContainerError unless scale, indices and spare bits are as described above.
        """
        count = length(shapes)
        raw = unwrap(data, self._nbytes(shapes))
        scale = read_scale(raw[:4], _MAX_SCALE)
        codes = unpack_bits(raw[4:], self._cells(count), self._width)
        if scale == 0.0 and codes.any():
            raise ContainerError("The payload's scale is 0 but its codes are not.")
        place = np.arange(codes.size) * self.cell + codes % self.cell
        if place[-1] >= count:
            raise ContainerError(f"The last cell names number {place[-1]} of only {count}.")
        rotated = np.zeros(count)
        rotated[place] = np.where(codes < self.cell, scale, -scale)
        return split(Rotation(count, seed).transpose(rotated), shapes)

    def remember(self, gradient: Payload, memory: Payload | None, decoded: Payload) -> None:
        """None: nothing is kept."""
