# SPDX-License-Identifier: Apache-2.0
"""The codec `directions`: names the nearest of many directions of each cell that a node draws.

It is `cells` with more to choose from: of the same bits it says more, and encoding takes longer.
How a tensor is cut, drawn and written: `parts.cell_codec`. A cell of n numbers is looked at in
m / n orthonormal bases, and of all m directions the one is named along which it is longest: log2(m)
bits, and one for the sign. The first basis is the cell's own numbers, as in `cells`; each other one
is a Walsh-Hadamard transform of the cell with random signs, which follow from the seed (`arXiv
2105.08339` rotates so). That is a random codebook, whose worth for each bit grows with m towards
what no code can exceed (Sakrison 1968, `doi:10.1016/S0019-9958(68)90770-6`).

Of Gaussian numbers a payload with 8192 directions of 128 numbers says 1.06 of their mean square for
each bit, where `cells` of 64, which has as many bits, says 0.96. No code that reads the numbers of
one node alone says more than 1.29 at that length (1 - 2^-2R of their square with R bits each).

Decoded, a payload is a small number everywhere in the cells that were drawn, most of it noise, and
nodes draw other signs. So only a rule that averages can merge them, and which numbers a node sent
can't be asked. A payload may have several spellings: of a tensor's last cell, where that is not
full, directions that differ past its end are the same, and small cells have fewer directions than
codes. Verifiers compare what is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from agents.mechanisms.codec import register
from agents.mechanisms.codec.parts.cell_codec import CellCodec, Codes, Numbers, Part, Row, Said
from agents.mechanisms.codec.parts.chunks import PIECE
from agents.mechanisms.codec.parts.container import ContainerError
from agents.mechanisms.codec.parts.rotation import hadamard_sums
from agents.mechanisms.codec.parts.vector import signs
from agents.mechanisms.options import check_choice

_CELLS = tuple(2**n for n in range(4, 11))
_DIRECTIONS = tuple(2**n for n in range(4, 16))
_BASES = 256  # at most: a spec can't make a node's encoding as long as it likes
_FEW = 1 << 17  # numbers looked at together, in all bases: few enough to stay in a cache


@register("directions")
@dataclass(frozen=True, kw_only=True)
class Directions(CellCodec):
    """The codec `directions`; see `agents.mechanisms.codec.Codec`.

    Attributes:
        cell: numbers of which one direction is named, a power of two from 16 to 1024. A tensor of
            fewer numbers is cut into cells of a power of two of them, of which the largest is
            named.
        directions: of a cell, a power of two from `cell` to 256 times as many, at most 32,768.
    """

    cell: int = 128
    directions: int = 8192

    apart: ClassVar[float] = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("cell", self.cell, _CELLS)
        check_choice("directions", self.directions, _choices(self.cell))

    def cut(self, size: int) -> tuple[int, int]:
        """Cells of `cell` numbers with all directions, or of fewer with their own."""
        if size < self.cell:
            fewer = 1 << (size.bit_length() - 1)
            return fewer, fewer
        return self.cell, self.directions

    def named(self, part: Part, row: Row, seed: bytes) -> tuple[Codes, Numbers]:
        """By elementwise sums in fp32 and in one order, so that each machine finds the same."""
        if part.codes == part.cell:
            return super().named(part, row, seed)
        table, cells, turns = _table(part, row), part.drawn(seed), _turns(part, seed)
        codes, values = np.zeros(part.sent, np.int64), np.zeros(part.sent)
        with np.errstate(over="ignore", invalid="ignore"):  # `encode` refuses what is too large
            for some in _batches(part, _FEW):
                codes[some], values[some] = _longest(table[cells[some]].T.copy(), turns)
        return codes, values

    def along(self, part: Part, row: Row, codes: Codes, seed: bytes) -> Numbers:
        """In float64."""
        if part.codes == part.cell:
            return super().along(part, row, codes, seed)
        _check_end(part, codes, seed)
        table, cells, turns = _table(part, row), part.drawn(seed), _turns(part, seed)
        found = np.zeros(part.sent)
        for some in _batches(part, PIECE):
            found[some] = (table[cells[some]] * _meant(codes[some], turns)).sum(axis=1)
        return found

    def put(self, said: Said, seed: bytes, out: Row) -> None:
        """A direction times the magnitude, one fp32 product a number."""
        part = said.part
        if part.codes == part.cell:
            super().put(said, seed, out)
            return
        _check_end(part, said.codes, seed)
        cells, turns, table = part.drawn(seed), _turns(part, seed), _table(part, out)
        for some in _batches(part, PIECE):
            numbers = _meant(said.codes[some], turns).astype(np.float32)
            table[cells[some]] = numbers * said.numbers[some, None] + np.float32(0)
        if not np.shares_memory(table, out):
            out[:] = table.reshape(-1)[: part.size]


def _choices(cell: int) -> tuple[int, ...]:
    return tuple(n for n in _DIRECTIONS if cell <= n <= _BASES * cell)


def _batches(part: Part, numbers: int) -> Iterator[slice]:
    """The drawn cells in batches of so many numbers, so that no copy as large as the tensor is
    made."""
    step = max(1, numbers // part.cell)
    for at in range(0, part.sent, step):
        yield slice(at, min(at + step, part.sent))


def _check_end(part: Part, codes: Codes, seed: bytes) -> None:
    """ContainerError if the last code names, by its place, a number past the tensor's end."""
    last = int(codes[-1])
    if last < part.cell and part.drawn(seed)[-1] * part.cell + last >= part.size:
        raise ContainerError(
            f"A code of {part.name!r} names a number past the end of only {part.size}."
        )


def _table(part: Part, row: Row) -> Row:
    """The row as cells: the row itself, or, where its last cell is not full, a copy with zeros."""
    missing = part.cells * part.cell - part.size
    full = np.pad(row, (0, missing)) if missing else row
    return full.reshape(part.cells, part.cell)


def _turns(part: Part, seed: bytes) -> Row:
    """The signs of each basis but the first: [bases - 1, cell]."""
    bases = part.codes // part.cell
    drawn = signs(seed, f"directions {part.name}", (bases - 1) * part.cell)
    return drawn.astype(np.float32).reshape(bases - 1, part.cell)


def _longest(cells: Row, turns: Row) -> tuple[Codes, Numbers]:
    """Of each column of [cell, count] the direction along which it is longest, of equal ones the
    first, and its length there, with its sign."""
    size, count = cells.shape
    length = np.abs(cells)
    codes, column = length.argmax(axis=0), np.arange(count)
    # Transforms are left as long as their sums are, sqrt(cell) times too long.
    values = cells[codes, column] * np.float32(math.sqrt(size))
    best = np.abs(values)
    for basis, turn in enumerate(turns, 1):
        turned = cells * turn[:, None]
        hadamard_sums(turned.reshape(-1), size)
        np.abs(turned, out=length)
        better = np.flatnonzero(length.max(axis=0) > best)
        place = length[:, better].argmax(axis=0)
        codes[better] = basis * size + place
        values[better] = turned[place, better]
        best[better] = length[place, better]
    return codes, values.astype(np.float64) / math.sqrt(size)


def _meant(codes: Codes, turns: Row) -> Numbers:
    """The directions of codes: [count, cell], each of length 1."""
    size = turns.shape[1]
    basis, place = np.divmod(codes, size)
    found: Numbers = _transform(size)[place] * turns[np.maximum(basis, 1) - 1] / math.sqrt(size)
    plain = basis == 0
    found[plain] = place[plain, None] == np.arange(size)
    return found


@cache
def _transform(size: int) -> Numbers:
    """The rows of a Walsh-Hadamard transform, sqrt(size) times too long: [size, size]."""
    rows = np.eye(size)
    hadamard_sums(rows.reshape(-1), size)
    return rows
