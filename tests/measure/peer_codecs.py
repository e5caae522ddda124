# SPDX-License-Identifier: Apache-2.0
"""DeMo's and SparseLoCo's codecs as their authors publish them, to be timed beside ours.

Written here from the published algorithms (`arXiv 2411.19870` and its reference `demo.py`;
`arXiv 2508.15706` and its 2-bit quantiser), with the same torch operations: einsum over blocks,
topk, gather, scatter_reduce. Matrices whose sides are multiples of 64 only. As published, payloads
are int64 places and fp32 values or one byte a code; nothing is packed, checked or serialised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SIDE = 64
_BINS = 4
_SIGMAS = 6


@dataclass(frozen=True)
class DemoPeer:
    """DeMo: einsum with the transform's matrix, `topk` per block; scatter, einsum back."""

    per_chunk: int = 32

    def encode(self, matrix: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
        """Places int64, values fp32 [y, x, k], and the shape of the blocks."""
        rows, columns = matrix.shape
        blocks = matrix.view(rows // SIDE, SIDE, columns // SIDE, SIDE).permute(0, 2, 1, 3)
        basis = _cosines()
        found = torch.einsum("yxhw,uh,vw->yxuv", blocks, basis, basis)
        shape = tuple(found.shape)
        flat = found.reshape(shape[0], shape[1], -1)
        places = torch.topk(flat.abs(), k=self.per_chunk, dim=-1, sorted=False).indices
        return places, torch.gather(flat, -1, places), shape

    def decode(self, payload: tuple[Tensor, Tensor, tuple[int, ...]]) -> Tensor:
        places, values, shape = payload
        flat = torch.zeros(shape[0], shape[1], SIDE * SIDE)
        flat.scatter_reduce_(-1, places, values, reduce="mean", include_self=False)
        basis = _cosines()
        blocks = torch.einsum("yxuv,uh,vw->yhxw", flat.view(shape), basis, basis)
        return blocks.reshape(shape[0] * SIDE, shape[1] * SIDE)

    @staticmethod
    def nbytes(payload: tuple[Tensor, Tensor, tuple[int, ...]]) -> int:
        return payload[0].nbytes + payload[1].nbytes


@dataclass(frozen=True)
class SparsePeer:
    """SparseLoCo: `topk` per 64 x 64 block, four bins over six deviations with their means."""

    per_chunk: int = 64

    def encode(self, matrix: Tensor) -> tuple[Tensor, Tensor, Tensor, tuple[int, int]]:
        """Places int64 and codes uint8 [y, x, k], the four values, the blocks' numbers."""
        rows, columns = matrix.shape
        down, across = rows // SIDE, columns // SIDE
        blocks = matrix.view(down, SIDE, across, SIDE).permute(0, 2, 1, 3)
        flat = blocks.reshape(down, across, -1)
        places = torch.topk(flat.abs(), k=self.per_chunk, dim=-1, sorted=False).indices
        values = torch.gather(flat, -1, places)
        shift = values.mean()
        centred = values - shift
        deviation = centred.norm() / math.sqrt(centred.numel() - 1)
        width = _SIGMAS * deviation / _BINS
        codes = (centred / width + _BINS // 2).round().clamp(0, _BINS - 1).to(torch.uint8)
        bins = codes.flatten().long()
        sums = torch.zeros(_BINS).scatter_add_(0, bins, centred.flatten())
        counts = torch.zeros(_BINS).scatter_add_(0, bins, torch.ones_like(centred.flatten()))
        means = torch.where(counts > 0, sums / counts, torch.zeros(_BINS)) + shift
        return places, codes, means, (down, across)

    def decode(self, payload: tuple[Tensor, Tensor, Tensor, tuple[int, int]]) -> Tensor:
        places, codes, means, (down, across) = payload
        flat = torch.zeros(down, across, SIDE * SIDE)
        flat.scatter_reduce_(-1, places, means[codes.long()], reduce="mean", include_self=False)
        blocks = flat.view(down, across, SIDE, SIDE).permute(0, 2, 1, 3)
        return blocks.reshape(down * SIDE, across * SIDE)

    @staticmethod
    def nbytes(payload: tuple[Tensor, Tensor, Tensor, tuple[int, int]]) -> int:
        return payload[0].nbytes + payload[1].nbytes + payload[2].nbytes


def _cosines() -> Tensor:
    u, x = torch.arange(SIDE)[:, None], torch.arange(SIDE)[None, :]
    matrix = torch.cos(math.pi * (2 * x + 1) * u / (2 * SIDE)) * math.sqrt(2 / SIDE)
    matrix[0] /= math.sqrt(2)
    return matrix
