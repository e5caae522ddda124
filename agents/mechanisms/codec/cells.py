# SPDX-License-Identifier: Apache-2.0
"""The codec `cells`: names the largest number of each cell that a node draws, and its sign.

It is for the fewest bytes. A tensor is read as a row and cut into cells of `cell` numbers; a node
draws `share` of them by its own seed in the round, one from each stratum (`strata`), so no place is
sent of what is drawn. Of a drawn cell its largest number is named, log2(cell) bits and one for the
sign, and one BF16 number a tensor is the magnitude of all: their mean, times `gain`. What was not
sent is kept and added to the next update (error feedback, `arXiv 1901.09847`). To name the largest
of a cell is the nearest vertex of a cross-polytope (vqSGD, `arXiv 1911.07971`).

Of Gaussian numbers, which Muon's updates are like, a payload with cells of 256 says 1.00 of their
mean square for each bit; `sparse` says 0.78 with 8 of 4096 and 1 bit, 0.74 with 43 and 2. Where all
numbers have nearly one magnitude, as in AdamW's updates of an output head, to name the largest is a
waste of bits: the tensors of `fine` have cells of one number, of which `fine_share` are drawn and
nothing but the sign is sent. Eight nodes with 1/8 each move two thirds of such a tensor in a round.

Decoded, a payload is zero almost everywhere, and nodes draw different cells. So only a rule that
averages can merge them.

The payload holds of each tensor, by name, the scale and the codes: the place in the cell, and
`cell` more for a negative number. It is accepted in one spelling only: of a scale of 0 all codes
are 0, and no place is past a tensor's end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.codec import Payload, Shapes, register
from agents.mechanisms.codec.parts.bits import (
    from_bf16,
    layout_of,
    pack_bits,
    packed_bytes,
    read_bf16,
    to_bf16,
    unpack_bits,
    unwrap,
    wrap,
    wrapped_size,
)
from agents.mechanisms.codec.parts.chunks import PIECE
from agents.mechanisms.codec.parts.container import ContainerError, Layout
from agents.mechanisms.codec.parts.edges import means
from agents.mechanisms.codec.parts.strata import drawn
from agents.mechanisms.codec.parts.support import Support
from agents.mechanisms.codec.parts.vector import left, total
from agents.mechanisms.options import LONG_MEMORY_ROUNDS, check_choice, check_float, check_int

_SCALE_POWER = 64  # scales are below 2^64
_CELLS = tuple(2**n for n in range(1, 13))
_LEAST_SHARE = 1e-4
_TEXT = 64  # characters of a spec's option


@dataclass(frozen=True)
class _Part:
    """What is sent of one tensor of `size` numbers: of `sent` cells of `cell` numbers each."""

    name: str
    size: int
    cell: int
    cells: int
    sent: int

    @property
    def width(self) -> int:
        """Bits of a code."""
        return self.cell.bit_length()

    @property
    def nbytes(self) -> int:
        """Bytes of scale and codes."""
        return 2 + packed_bytes(self.sent, self.width)

    def drawn(self, seed: bytes) -> NDArray[np.int64]:
        """The cells that are sent, ascending."""
        return drawn(self.cells, self.sent, seed, f"cells {self.name}")[0]


@register("cells")
@dataclass(frozen=True, kw_only=True)
class Cells:
    """The codec `cells`; see `agents.mechanisms.codec.Codec` and `SupportCodec`.

    Attributes:
        cell: numbers of which one is named, a power of two from 2 to 4096.
        share: of the cells of a tensor, how many a node sends a round, from 0.0001 to 1.
        fine: names of tensors, separated by commas, that are sent by signs. Names that a model has
            not are no error here: a split model has them in one stage only.
        fine_share: of the numbers of such a tensor.
        gain: factor on the magnitude, 0.1 to 4; error feedback takes back what was too much.
        decay: factor on what is kept, from 0 (no error feedback) to 1.
        memory_rounds: memory starts empty every so many rounds, 1 to 65,536.
    """

    cell: int = 256
    share: float = 1.0
    fine: str = ""
    fine_share: float = 0.125
    gain: float = 1.0
    decay: float = 0.9
    memory_rounds: int = 20

    lossless: ClassVar[bool] = False
    mostly_zero: ClassVar[bool] = True  # what a coordinate-wise rule can make nothing of
    own_seed: ClassVar[bool] = True  # nodes draw different cells

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, _CELLS)
        check_float("share", self.share, _LEAST_SHARE, 1.0)
        if not isinstance(self.fine, str) or len(self.fine) > _TEXT:
            raise ValueError(f"fine must be names of tensors in {_TEXT} characters, {self.fine!r}.")
        check_float("fine_share", self.fine_share, _LEAST_SHARE, 1.0)
        check_float("gain", self.gain, 0.1, 4.0)
        check_float("decay", self.decay, 0.0, 1.0)
        check_int("memory_rounds", self.memory_rounds, 1, LONG_MEMORY_ROUNDS)

    @property
    def has_memory(self) -> bool:
        """Whether anything is kept."""
        return self.decay > 0

    @property
    def fine_names(self) -> tuple[str, ...]:
        """The tensors that are sent by signs."""
        return tuple(name for name in self.fine.split(",") if name)

    def layout(self, shapes: Shapes) -> Layout:
        """One U8 tensor `q`: per tensor scale and codes."""
        return layout_of(self._nbytes(shapes))

    def wire_size(self, shapes: Shapes) -> int:
        """log2(cell) + 1 bits a cell that is sent, 2 bytes a tensor, the header's 72 or so."""
        return wrapped_size(self._nbytes(shapes))

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 dict.

        ValueError if a tensor is not fp32 or not finite, or if a number is far too large.
        """
        parts = []
        for part, index, named in self._largest(gradient, memory, seed):
            level = self.gain * total(np.abs(named)) / part.sent
            if not level < 2.0 ** (_SCALE_POWER - 1):
                raise ValueError("The gradient's numbers are far too large for the cells codec.")
            scale = to_bf16(np.array([level]))
            codes = index + part.cell * (named < 0) if scale[0] else np.zeros_like(index)
            parts += [scale.tobytes(), pack_bits(codes, part.width)]
        return wrap(b"".join(parts))

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> dict[str, Tensor]:
        """New fp32 CPU tensors; ContainerError for bytes that break the rules above."""
        out = {name: torch.from_numpy(np.zeros(shape, "<f4")) for name, shape in shapes.items()}
        for part, places, numbers in self._read(data, shapes, seed):
            out[part.name].numpy().reshape(-1)[places] = numbers
        return out

    def least_change(
        self, gradient: Payload, memory: Payload | None, data: bytes, seed: bytes
    ) -> float:
        """How far the numbers are from being the largest of their cells, having these signs, and
        having this mean magnitude."""
        shapes = {name: tuple(tensor.shape) for name, tensor in gradient.items()}
        moved, scaled = 0.0, 0.0
        said = self._read(data, shapes, seed)
        for (part, index, named), (_, places, numbers) in zip(
            self._largest(gradient, memory, seed), said, strict=True
        ):
            own, scale = np.abs(named), np.abs(numbers).astype(np.float64)
            if not numbers.any():
                moved += total(np.square(own))
                continue
            cells = part.drawn(seed) * part.cell
            theirs = self._row(part, gradient, memory)[places].astype(np.float64)
            along = np.where(numbers < 0, -theirs, theirs)
            # Of the one named rightly the sign must turn; another one must meet the largest.
            costs = np.where(
                places == cells + index,
                np.square(np.minimum(along, 0.0)),
                np.square(own - along) / 2,
            )
            moved += total(costs)
            mean = np.array([self.gain * total(np.maximum(along, 0.0)) / part.sent])
            scaled += means(mean, scale[:1], np.array([float(part.sent)]), self.gain) ** 2
        return math.sqrt(max(moved, scaled))

    def remember(
        self, gradient: Payload, memory: Payload | None, decoded: Payload
    ) -> dict[str, Tensor] | None:
        """decay * (gradient + memory - decoded), one fp32 operation each; None for decay 0."""
        return left(gradient, memory, decoded, self.decay) if self.has_memory else None

    def support(self, data: bytes, shapes: Shapes, seed: bytes) -> Support:
        """Which numbers a payload sends, with signs; ContainerError as `decode`.

        Numbers are counted tensor by tensor, by name.
        """
        found, negative = [], []
        start = 0
        for part, places, numbers in self._read(data, shapes, seed):
            if numbers.any():
                found.append(start + places)
                negative.append(numbers < 0)
            start += part.size
        empty = np.zeros(0, np.int64)
        return Support(np.concatenate([*found, empty]), np.concatenate([*negative, empty > 0]))

    def _parts(self, shapes: Shapes) -> list[_Part]:
        """By name; a tensor without numbers has none."""
        found = []
        for name in sorted(shapes):
            size = math.prod(shapes[name])
            cell, share = (
                (1, self.fine_share) if name in self.fine_names else (self.cell, self.share)
            )
            cells = -(-size // cell)
            if cells:
                found.append(_Part(name, size, cell, cells, max(1, math.ceil(share * cells))))
        return found

    def _nbytes(self, shapes: Shapes) -> int:
        return sum(part.nbytes for part in self._parts(shapes))

    def _row(self, part: _Part, gradient: Payload, memory: Payload | None) -> NDArray[np.float32]:
        """Gradient and memory of one tensor, one fp32 addition a number."""
        tensor = gradient[part.name]
        if tensor.dtype != torch.float32:
            raise ValueError(
                f"Tensor {part.name!r} is {tensor.dtype}; the cells codec needs float32."
            )
        row = tensor.detach().cpu()
        if memory is not None and self.has_memory:
            row = row + memory[part.name].cpu()
        if not torch.isfinite(row).all():
            raise ValueError("The gradient holds NaN or infinity; nothing can be encoded.")
        numbers: NDArray[np.float32] = row.reshape(-1).numpy()
        return numbers

    def _largest(
        self, gradient: Payload, memory: Payload | None, seed: bytes
    ) -> Iterator[tuple[_Part, NDArray[np.int64], NDArray[np.float64]]]:
        """Per tensor the place in its cell and the value of the largest number of each drawn
        cell."""
        shapes = {name: tuple(tensor.shape) for name, tensor in gradient.items()}
        for part in self._parts(shapes):
            row = self._row(part, gradient, memory)
            full = part.size // part.cell
            table, cells = row[: full * part.cell].reshape(full, part.cell), part.drawn(seed)
            index = np.zeros(part.sent, np.int64)
            # In batches, so that no copy as large as the tensor is made.
            batch = max(1, PIECE // part.cell)
            within = int(np.searchsorted(cells, full))
            for at in range(0, within, batch):
                some = slice(at, min(at + batch, within))
                index[some] = np.abs(table[cells[some]]).argmax(axis=1)
            if within < part.sent:  # the last cell, which is not full
                index[-1] = np.abs(row[full * part.cell :]).argmax()
            yield part, index, row[cells * part.cell + index].astype(np.float64)

    def _read(
        self, data: bytes, shapes: Shapes, seed: bytes
    ) -> list[tuple[_Part, NDArray[np.int64], NDArray[np.float32]]]:
        """Per tensor places and numbers, checked."""
        parts = self._parts(shapes)
        raw = unwrap(data, sum(part.nbytes for part in parts))
        found, start = [], 0
        for part in parts:
            stop = start + part.nbytes
            scale = read_bf16(raw[start : start + 2], _SCALE_POWER)
            codes = unpack_bits(raw[start + 2 : stop], part.sent, part.width).astype(np.int64)
            if not scale[0] and codes.any():
                raise ContainerError(f"The scale of {part.name!r} is 0 but its codes are not.")
            places = part.drawn(seed) * part.cell + codes % part.cell
            if places[-1] >= part.size:
                raise ContainerError(
                    f"A code of {part.name!r} names number {places[-1]} of only {part.size}."
                )
            size = from_bf16(scale)[0]
            numbers = np.where(codes >= part.cell, -size, size) + np.float32(0)
            found.append((part, places, numbers))
            start = stop
        return found
