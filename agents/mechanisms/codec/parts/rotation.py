# SPDX-License-Identifier: Apache-2.0
"""A seeded orthogonal map of d numbers to d numbers, with the same bits on every machine.

A randomised Hadamard transform (Ailon and Chazelle 2009, `doi:10.1137/060673096`) mixes a vector so
that each number becomes a sum of thousands with random signs, nearly Gaussian whatever came in. It
needs a power of two, and padding to one would cost bytes and make the rows of a subset no longer
orthonormal. So it is done twice, over overlapping parts that together are everything:

    y = D2 x', x' = D1 x with the first m numbers Hadamard-mixed, then the last m of y mixed,

D1 and D2 random signs, m the largest multiple of the block length B not above d, and B the largest
power of four not above min(d, 4096). The m numbers are B rows of m/B; the transform runs down the
columns, so each of the m/B blocks takes numbers from everywhere. Each step is orthogonal, hence so
is the whole. It is nothing but additions in a fixed order and products with powers of two:
elementwise float64 operations, which IEEE 754 fixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.vector import Vector, signs

_MAX_BLOCK = 4096  # a power of four, so that 1/sqrt(B) is a power of two


@dataclass(frozen=True)
class Rotation:
    """The orthogonal map of a public seed on vectors of `length` numbers."""

    length: int
    seed: bytes

    def forward(self, vector: Vector) -> Vector:
        """Q x: float64 [d] -> float64 [d]."""
        block, mixed = self._sizes()
        out = vector * signs(self.seed, "signs 1", self.length)
        _hadamard(out[:mixed], block)
        out *= signs(self.seed, "signs 2", self.length)
        _hadamard(out[self.length - mixed :], block)
        return out

    def transpose(self, vector: Vector) -> Vector:
        """Q^T y, the inverse: float64 [d] -> float64 [d]."""
        block, mixed = self._sizes()
        out = vector.copy()
        _hadamard(out[self.length - mixed :], block)
        out *= signs(self.seed, "signs 2", self.length)
        _hadamard(out[:mixed], block)
        out *= signs(self.seed, "signs 1", self.length)
        return out

    def _sizes(self) -> tuple[int, int]:
        block = 1
        while block * 4 <= min(self.length, _MAX_BLOCK):
            block *= 4
        return block, self.length // block * block


def _hadamard(vector: Vector, block: int) -> None:
    """Orthonormal Walsh-Hadamard transform down the columns of [block, size / block], in place."""
    hadamard_sums(vector, block)
    vector *= 1.0 / np.sqrt(float(block))


def hadamard_sums(vector: NDArray[Any], block: int) -> None:
    """The same, sqrt(block) times as long: sums and differences alone, in the vector's own type."""
    columns = vector.size // block
    half = 1
    while half < block:
        pairs = vector.reshape(-1, 2, half * columns)
        upper, lower = pairs[:, 0], pairs[:, 1]
        difference = upper - lower
        upper += lower
        lower[...] = difference
        half *= 2
