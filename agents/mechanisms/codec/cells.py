# SPDX-License-Identifier: Apache-2.0
"""The codec `cells`: names the largest number of each cell that a node draws, and its sign.

It is for the fewest bytes. How a tensor is cut, drawn and written: `parts.cell_codec`. A code is a
place in a cell, log2(cell) bits and one for the sign. To name the largest of a cell is the nearest
vertex of a cross-polytope (vqSGD, `arXiv 1911.07971`).

Of Gaussian numbers, which Muon's updates are like, a payload with cells of 256 says 1.00 of their
mean square for each bit; `sparse` says 0.78 with 8 of 4096 and 1 bit, 0.74 with 43 and 2.

Decoded, a payload is zero almost everywhere, and nodes draw different cells. So only a rule that
averages can merge them. It is accepted in one spelling only: no place is past a tensor's end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agents.mechanisms.codec import Shapes, register
from agents.mechanisms.codec.parts.cell_codec import CellCodec, places
from agents.mechanisms.codec.parts.support import Support
from agents.mechanisms.options import check_choice

_CELLS = tuple(2**n for n in range(1, 13))


@register("cells")
@dataclass(frozen=True, kw_only=True)
class Cells(CellCodec):
    """The codec `cells`; see `agents.mechanisms.codec.Codec` and `SupportCodec`.

    Attributes:
        cell: numbers of which one is named, a power of two from 2 to 4096.
    """

    cell: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("cell", self.cell, _CELLS)

    def cut(self, size: int) -> tuple[int, int]:
        """A code is a place."""
        return self.cell, self.cell

    def support(self, data: bytes, shapes: Shapes, seed: bytes) -> Support:
        """Which numbers a payload sends, with signs; ContainerError as `decode`.

        Numbers are counted tensor by tensor, by name.
        """
        found, negative = [], []
        start = 0
        for said in self.read(data, shapes):
            if said.numbers.any():
                found.append(start + places(said.part, said.codes, seed))
                negative.append(said.numbers < 0)
            start += said.part.size
        empty = np.zeros(0, np.int64)
        return Support(np.concatenate([*found, empty]), np.concatenate([*negative, empty > 0]))
