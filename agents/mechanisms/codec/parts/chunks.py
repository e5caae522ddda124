# SPDX-License-Identifier: Apache-2.0
"""Every tensor is cut into chunks of nearly equal size; chunks of one shape form a group.

A matrix (a tensor of more than two dimensions is read as its first against all others) is cut into
blocks of at most `side` by `side`, everything else into runs of at most `line` numbers. A dimension
of n numbers has ceil(n / side) parts whose lengths differ by at most one, so that a dimension that
is prime or one above a multiple is no worse off than its neighbours; where `side` divides n, they
are the parts that DeMo's rule "the largest divisor" gives. Chunks are numbered within their group:
tensors in the order of their names, then the longer parts before the shorter, then row by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

# Numbers worked on at once: few enough to stay in a cache.
PIECE = 1 << 18


@dataclass(frozen=True)
class Region:
    """A rectangle of one tensor that holds `down` by `across` chunks of one shape.

    Attributes:
        name: the tensor.
        rows, columns: the tensor's, read as a matrix.
        top, left: the rectangle's corner.
        first: the number of its first chunk in the group.
    """

    name: str
    rows: int
    columns: int
    top: int
    left: int
    down: int
    across: int
    first: int

    @property
    def whole(self) -> Piece:
        """All its chunks."""
        return Piece(self, 0, 0, self.down, self.across)


@dataclass(frozen=True)
class Piece:
    """`down` by `across` chunks of a region from chunk row `y`, chunk column `x` on."""

    region: Region
    y: int
    x: int
    down: int
    across: int

    @property
    def count(self) -> int:
        """How many chunks."""
        return self.down * self.across

    @property
    def spans(self) -> tuple[slice, ...]:
        """The numbers of its chunks in the group, a slice for each row of chunks."""
        region = self.region
        if self.across == region.across:
            start = region.first + self.y * region.across
            return (slice(start, start + self.count),)
        starts = [
            region.first + row * region.across + self.x for row in range(self.y, self.y + self.down)
        ]
        return tuple(slice(start, start + self.across) for start in starts)


@dataclass(frozen=True)
class Group:
    """All chunks of `height` by `width` numbers of a model."""

    height: int
    width: int
    count: int
    regions: tuple[Region, ...]

    @property
    def size(self) -> int:
        """Numbers in a chunk."""
        return self.height * self.width

    def pieces(self, times: int = 1) -> Iterator[Piece]:
        """All chunks, once, in rectangles of about `times` times `PIECE` numbers."""
        most = times * PIECE // self.size
        for region in self.regions:
            across = max(1, min(region.across, most))
            down = max(1, most // across)
            for y in range(0, region.down, down):
                for x in range(0, region.across, across):
                    yield Piece(
                        region,
                        y,
                        x,
                        min(down, region.down - y),
                        min(across, region.across - x),
                    )

    def flat(self, piece: Piece, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where `places`, [chunks of the piece, any], lie in a piece laid out as `view` has it."""
        row, column = np.divmod(places, self.width)
        y, x = np.divmod(np.arange(piece.count)[:, None], piece.across)
        return np.asarray(((y * self.height + row) * piece.across + x) * self.width + column)

    def inside(self, piece: Piece, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where `places`, [chunks of the piece, any], lie in the flattened tensor."""
        region = piece.region
        y, x = np.divmod(np.arange(piece.count)[:, None], piece.across)
        top = region.top + (piece.y + y) * self.height
        left = region.left + (piece.x + x) * self.width
        if self.height == 1:
            return np.asarray(top * region.columns + left + places)
        row, column = np.divmod(places, self.width)
        return np.asarray((top + row) * region.columns + left + column)

    def view(self, tensor: Tensor, piece: Piece) -> Tensor:
        """The piece of a contiguous tensor: a view [down, height, across, width]."""
        view: Tensor = self.rows(tensor, piece).unflatten(2, (piece.across, self.width))
        return view

    def rows(self, tensor: Tensor, piece: Piece) -> Tensor:
        """The piece of a contiguous tensor: a view [down, height, across * width]."""
        region = piece.region
        top = region.top + piece.y * self.height
        left = region.left + piece.x * self.width
        below, right = top + piece.down * self.height, left + piece.across * self.width
        part = tensor.reshape(region.rows, region.columns)[top:below, left:right]
        rows: Tensor = part.unflatten(0, (piece.down, self.height))
        return rows


def cut(shapes: Mapping[str, tuple[int, ...]], side: int, line: int) -> tuple[Group, ...]:
    """The groups of a model, ascending by shape. `side` 0 cuts every tensor into runs.

    ValueError if the shapes hold no number.
    """
    found: dict[tuple[int, int], list[Region]] = {}
    counts: dict[tuple[int, int], int] = {}
    for name in sorted(shapes):
        shape = shapes[name]
        total = math.prod(shape)
        flat = not side or len(shape) < 2 or 1 in (shape[0], total // max(1, shape[0]))
        rows = 1 if flat else shape[0]
        columns = total // max(1, rows)
        for top, height, down in _parts(rows, 1 if flat else side):
            for left, width, across in _parts(columns, line if flat else side):
                key = (height, width)
                first = counts.get(key, 0)
                region = Region(name, rows, columns, top, left, down, across, first)
                found.setdefault(key, []).append(region)
                counts[key] = first + down * across
    if not found:
        raise ValueError("A codec needs at least one number; these shapes hold none.")
    return tuple(
        Group(key[0], key[1], counts[key], tuple(regions)) for key, regions in sorted(found.items())
    )


def _parts(length: int, limit: int) -> list[tuple[int, int, int]]:
    """(start, length of a part, number of parts): the longer ones, then those one shorter."""
    if not length:
        return []
    count = -(-length // limit)
    base, extra = divmod(length, count)
    parts = [(0, base + 1, extra), (extra * (base + 1), base, count - extra)]
    return [part for part in parts if part[2]]
