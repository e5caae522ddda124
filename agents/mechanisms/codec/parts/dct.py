# SPDX-License-Identifier: Apache-2.0
"""Cosine transforms with integer matrices, so that decoding gives the same bits on every machine.

The orthonormal DCT-II of n numbers is the matrix c[u, x] = s(u) cos(pi (2x + 1) u / 2n) with
s(0) = sqrt(1/n) and s(u) = sqrt(2/n); its inverse is its transpose. Decoding multiplies integer
codes by that matrix rounded to integers of 2^-bits. As long as k * top * a * b < 2^53, for k codes
of at most `top` in a block and entries of at most a and b, every partial sum in any order is an
integer that float64 holds exactly, so no BLAS, thread count or fused multiply-add can change a bit.
Encoding needs no such care and multiplies the true matrix in fp32.

No entry of an integer matrix lies near a tie between two integers (a test looks at all of them), so
every cosine that is right to a few units in the last place rounds to the same integer.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

MAX_SIDE = 128
LEAST_BITS = 10
MOST_BITS = 20
_EXACT = 1 << 53


def entry(n: int, u: int, x: int) -> float:
    """c[u, x] in float64, to within a few units in the last place."""
    angle = (2 * x + 1) * u % (4 * n)  # in units of pi / 2n
    if angle > 2 * n:
        angle = 4 * n - angle
    sign = 1.0
    if angle > n:
        angle, sign = 2 * n - angle, -1.0
    if angle == n:
        return 0.0
    return sign * math.sqrt((1 if u == 0 else 2) / n) * math.cos(math.pi * angle / (2 * n))


@lru_cache(maxsize=256)
def basis(n: int) -> Tensor:
    """The fp32 [n, n] matrix of the transform, for encoding."""
    return torch.tensor([[entry(n, u, x) for x in range(n)] for u in range(n)]).float()


@lru_cache(maxsize=256)
def integers(n: int, bits: int) -> Tensor:
    """The matrix times 2^bits, rounded to integers, as float64 [n, n]."""
    scale = 1 << bits
    rows = [[float(round(entry(n, u, x) * scale)) for x in range(n)] for u in range(n)]
    return torch.tensor(rows, dtype=torch.float64)


def bits_for(height: int, width: int, codes: int, top: int) -> int:
    """The most bits, up to 20, with which `codes` codes of at most `top` stay exact in a block.

    ValueError if fewer than 10 are left.
    """
    for bits in range(MOST_BITS, LEAST_BITS - 1, -1):
        if codes * top * _largest(height, bits) * _largest(width, bits) < _EXACT:
            return bits
    raise ValueError(f"A block of {height} by {width} is too large to be decoded exactly.")


def _largest(n: int, bits: int) -> int:
    """Upper bound on an entry of `integers(n, bits)`."""
    return math.isqrt((2 << 2 * bits) // n) + 2 if n > 1 else 1 << bits
