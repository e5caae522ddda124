# SPDX-License-Identifier: Apache-2.0
"""A piece's chunks are transformed side by side; the way back is exact up to its last rounding.

Encoding takes two fp32 matrix products. In decoding, a coefficient is a whole number times its
chunk's power of two, so all sums are exact in float64 (`dct`) and may be taken in whatever way is
fastest: few coefficients are added row by row, many multiplied as a matrix; and since the cosines
of even number are symmetric and the odd ones antisymmetric, x = E + O and its mirror image E - O
share the halves. The one rounding is that of a result to fp32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.codec.parts.chunks import Group, Piece
from agents.mechanisms.codec.parts.dct import basis, integers

# Coefficients per number of a chunk below which they are added one by one.
_FEW = 1 / 16


def analysis(chunks: Tensor, block: Tensor) -> Tensor:
    """The cosine transform of fp32 [down, height, across, width]; see `selection.Transform`."""
    down, height, across, width = chunks.shape
    times = _product()
    rows = times(chunks.reshape(-1, width), basis(width), None, "none", [], "")
    wide = rows.view(down, height, across * width).transpose(1, 2)
    if down == 1:
        found: Tensor = times(basis(height), wide[0], None, "none", [], "")
        return found.view(chunks.shape)
    for index, result in enumerate(block.view(down, height, across * width)):
        result.copy_(times(basis(height), wide[index], None, "none", [], ""))
    return block


class Synthesis:
    """The inverse of one group's transform, with buffers used again for every piece."""

    def __init__(self, group: Group, bits: int) -> None:
        """`bits`: of the integer matrices, such that sums stay exact (`dct.bits_for`)."""
        self._group = group
        self._across = integers(group.width, bits)
        self._even, self._odd = halves(group.height, bits)
        self._unit = 2.0 ** (-2 * bits)
        size = max(piece.count for piece in group.pieces()) * group.size
        self._rows = torch.empty(size, dtype=torch.float64)
        self._spare = torch.empty(size + size // group.height, dtype=torch.float64)

    def write(
        self, piece: Piece, places: NDArray[np.int64], values: NDArray[np.float64], out: Tensor
    ) -> None:
        """Write the piece's numbers into the fp32 tensor `out`.

        `places`, `values`: [chunks of the piece, k]. A value is a whole number times its chunk's
        power of two.
        """
        height, width = self._group.height, self._group.width
        wide = piece.across * width
        evens = -(-height // 2)
        rows = self._rows[: piece.count * self._group.size].view(-1, width)
        self._sum_rows(piece, places, values * self._unit, rows)
        cut = piece.down * evens * piece.across
        upper = rows[:cut].view(piece.down, evens, wide)
        lower = rows[cut:].view(piece.down, height - evens, wide)
        spare = self._spare[: 2 * piece.down * evens * wide].view(2, piece.down, evens, wide)
        torch.matmul(self._even, upper, out=spare[0])
        torch.matmul(self._odd, lower, out=spare[1])
        even, odd = spare.numpy()
        target = self._group.rows(out, piece).numpy()
        np.add(even, odd, out=target[:, :evens], casting="same_kind")
        mirror = slice(0, height // 2)
        np.subtract(
            even[:, mirror], odd[:, mirror], out=target[:, ::-1][:, mirror], casting="same_kind"
        )
        target += np.float32(0)  # no zero is negative

    def _sum_rows(
        self, piece: Piece, places: NDArray[np.int64], values: NDArray[np.float64], out: Tensor
    ) -> None:
        """Rows of coefficients times the matrix of the width: all even rows, then all odd ones."""
        height, width = self._group.height, self._group.width
        row, column = np.divmod(places, width)
        y, x = np.divmod(np.arange(piece.count)[:, None], piece.across)
        evens, odd = -(-height // 2), row & 1
        first = np.where(odd, piece.down * evens + y * (height // 2), y * evens)
        number = ((first + (row >> 1)) * piece.across + x).reshape(-1)
        if places.shape[1] <= self._group.size * _FEW:
            terms = self._across.index_select(0, torch.from_numpy(column.reshape(-1)))
            terms *= torch.from_numpy(values.reshape(-1, 1))
            out.zero_().index_add_(0, torch.from_numpy(number), terms)
        else:
            table = self._spare[: out.numel()].view(out.shape).zero_()
            table.numpy()[number, column.reshape(-1)] = values.reshape(-1)
            torch.mm(table, self._across, out=out)


@lru_cache(maxsize=64)
def halves(n: int, bits: int) -> tuple[Tensor, Tensor]:
    """The inverse's upper h = ceil(n / 2) rows: even columns [h, h], odd ones [h, n - h]."""
    matrix = integers(n, bits).t()[: -(-n // 2)]
    return matrix[:, ::2].contiguous(), matrix[:, 1::2].contiguous()


@lru_cache(maxsize=1)
def _product() -> Callable[..., Tensor]:
    """x times the transpose of w, called as (x, w, None, "none", [], ""), all fp32.

    Through oneDNN, which is twice as fast as `torch.mm` where MKL avoids AVX-512, or without it.
    Only encoding uses it, so its last bit needs to be the same nowhere else.
    """
    if torch.backends.mkldnn.is_available():
        try:
            fast = torch.ops.mkldnn._linear_pointwise
            fast(torch.ones(2, 4), torch.ones(4, 4), None, "none", [], "")
        except (AttributeError, RuntimeError):
            pass
        else:
            return cast(Callable[..., Tensor], fast)
    return lambda x, w, *_: torch.mm(x, w.t())
