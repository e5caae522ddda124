# SPDX-License-Identifier: Apache-2.0
"""What codecs of drawn cells have in common: all but what one code says of a cell.

A tensor is read as a row and cut into cells. A node draws a share of them by its own seed in the
round, one from each stratum (`strata`), so no place is sent of what is drawn. Of a drawn cell a
code and a sign are sent, and of a tensor one BF16 number, the magnitude of all: their mean, times
`gain`. What was not sent is kept and added to the next update (error feedback, `arXiv
1901.09847`).

Where all numbers have nearly one magnitude, as in AdamW's updates of an output head, to name the
largest is a waste of bits: the tensors of `fine` have cells of one number, of which `fine_share`
are drawn and nothing but the sign is sent. Eight nodes with 1/8 each move two thirds of such a
tensor in a round.

The payload holds of each tensor, by name, the scale and the codes: what is named, and the number of
codes more for a negative one. Of a scale of 0 all codes are 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
from agents.mechanisms.codec.parts.container import ContainerError, Layout, Payload
from agents.mechanisms.codec.parts.edges import means
from agents.mechanisms.codec.parts.strata import drawn
from agents.mechanisms.codec.parts.stretch import Stretch, of_means
from agents.mechanisms.codec.parts.vector import left, total, zeros
from agents.mechanisms.options import LONG_MEMORY_ROUNDS, check_float, check_int

Row = NDArray[np.float32]
Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]
_SCALE_POWER = 64  # scales are below 2^64
_LEAST_SHARE = 1e-4
_TEXT = 64  # characters of a spec's option


@dataclass(frozen=True)
class Part:
    """What is sent of one tensor of `size` numbers: of `sent` cells of `cell` numbers each one of
    `codes` codes, a power of two, and a sign."""

    name: str
    size: int
    cell: int
    codes: int
    cells: int
    sent: int

    @property
    def width(self) -> int:
        """Bits of a code and its sign."""
        return self.codes.bit_length()

    @property
    def nbytes(self) -> int:
        """Bytes of scale and codes."""
        return 2 + packed_bytes(self.sent, self.width)

    def drawn(self, seed: bytes) -> Codes:
        """The cells that are sent, ascending."""
        return drawn(self.cells, self.sent, seed, f"cells {self.name}")[0]


class Said(NamedTuple):
    """What a payload says of a tensor: per drawn cell a code, and the magnitude with its sign."""

    part: Part
    codes: Codes
    numbers: Row


@dataclass(frozen=True, kw_only=True)
class CellCodec(ABC):
    """See `agents.mechanisms.codec.Codec`. A subclass says how a tensor is cut, and what the code
    of a cell means.

    Attributes:
        share: of the cells of a tensor, how many a node sends a round, from 0.0001 to 1.
        fine: names of tensors, separated by commas, that are sent by signs. Names that a model has
            not are no error here: a split model has them in one stage only.
        fine_share: of the numbers of such a tensor.
        gain: factor on the magnitude, 0.1 to 4; error feedback takes back what was too much.
        decay: factor on what is kept, from 0 (no error feedback) to 1.
        memory_rounds: memory starts empty every so many rounds, 1 to 65,536.
    """

    share: float = 1.0
    fine: str = ""
    fine_share: float = 0.125
    gain: float = 1.0
    decay: float = 0.9
    memory_rounds: int = 20

    lossless: ClassVar[bool] = False
    mostly_zero: ClassVar[bool] = True  # what a coordinate-wise rule can make nothing of
    own_seed: ClassVar[bool] = True  # nodes draw different cells
    apart: ClassVar[float] = 2.0
    """The square of the distance between what two codes of a cell say, at most."""

    def __post_init__(self) -> None:
        check_float("share", self.share, _LEAST_SHARE, 1.0)
        if not isinstance(self.fine, str) or len(self.fine) > _TEXT:
            raise ValueError(f"fine must be names of tensors in {_TEXT} characters, {self.fine!r}.")
        check_float("fine_share", self.fine_share, _LEAST_SHARE, 1.0)
        check_float("gain", self.gain, 0.1, 4.0)
        check_float("decay", self.decay, 0.0, 1.0)
        check_int("memory_rounds", self.memory_rounds, 1, LONG_MEMORY_ROUNDS)

    @abstractmethod
    def cut(self, size: int) -> tuple[int, int]:
        """Numbers of a cell and codes of one, both powers of two, of a tensor of `size` numbers.
        Where both are the same, a code is a place in the cell."""

    def named(self, part: Part, row: Row, seed: bytes) -> tuple[Codes, Numbers]:
        """Per drawn cell of a row the code that says most of it, and how much, with its sign."""
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
        return index, row[cells * part.cell + index].astype(np.float64)

    def along(self, part: Part, row: Row, codes: Codes, seed: bytes) -> Numbers:
        """Per drawn cell how much these codes say of it, with its sign."""
        return row[places(part, codes, seed)].astype(np.float64)

    def put(self, said: Said, seed: bytes, out: Row) -> None:
        """Write what a payload says of a tensor in its row of zeros. ContainerError if it says
        something of numbers that the tensor has not."""
        out[places(said.part, said.codes, seed)] = said.numbers

    @property
    def has_memory(self) -> bool:
        """Whether anything is kept."""
        return self.decay > 0

    @property
    def stretch(self) -> Stretch:
        """What is sent of the drawn cells are lengths along directions, written as their mean."""
        return of_means(self.gain, self.decay)

    @property
    def fine_names(self) -> tuple[str, ...]:
        """The tensors that are sent by signs."""
        return tuple(name for name in self.fine.split(",") if name)

    def layout(self, shapes: Mapping[str, tuple[int, ...]]) -> Layout:
        """One U8 tensor `q`: per tensor scale and codes."""
        return layout_of(self._nbytes(shapes))

    def wire_size(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """A code and a sign for each cell that is sent, 2 bytes a tensor, the header's 72 or so."""
        return wrapped_size(self._nbytes(shapes))

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 dict.

        ValueError if a tensor is not fp32 or not finite, or if a number is far too large.
        """
        found = []
        for part, codes, values in self._named(gradient, memory, seed):
            level = self._level(part, np.abs(values))
            if not level < 2.0 ** (_SCALE_POWER - 1):
                raise ValueError(f"The gradient's numbers are far too large for {_name(self)}.")
            scale = to_bf16(np.array([level]))
            signed = codes + part.codes * (values < 0) if scale[0] else np.zeros_like(codes)
            found += [scale.tobytes(), pack_bits(signed, part.width)]
        return wrap(b"".join(found))

    def decode(
        self, data: bytes, shapes: Mapping[str, tuple[int, ...]], seed: bytes
    ) -> dict[str, Tensor]:
        """New fp32 CPU tensors; ContainerError for bytes that break the rules above."""
        out = zeros(shapes)
        for said in self.read(data, shapes):
            self.put(said, seed, out[said.part.name].numpy().reshape(-1))
        return out

    def least_change(
        self, gradient: Payload, memory: Payload | None, data: bytes, seed: bytes
    ) -> float:
        """How far the numbers are from having these codes, or this mean magnitude."""
        shapes = {name: tuple(tensor.shape) for name, tensor in gradient.items()}
        moved, scaled = 0.0, 0.0
        for (part, codes, values), said in zip(
            self._named(gradient, memory, seed), self.read(data, shapes), strict=True
        ):
            own, scale = np.abs(values), np.abs(said.numbers).astype(np.float64)
            if not said.numbers.any():
                moved += total(np.square(own))
                continue
            row = self._row(part, gradient, memory)
            theirs = self.along(part, row, said.codes, seed)
            theirs = np.where(said.numbers < 0, -theirs, theirs)
            # Of the one named rightly the sign must turn; another one must meet the best.
            costs = np.where(
                codes == said.codes,
                np.square(np.minimum(theirs, 0.0)),
                np.square(own - theirs) / self.apart,
            )
            moved += total(costs)
            mean = np.array([self._level(part, np.maximum(theirs, 0.0))])
            scaled += means(mean, scale[:1], np.array([float(part.sent)]), self.gain) ** 2
        return math.sqrt(max(moved, scaled))

    def remember(
        self, gradient: Payload, memory: Payload | None, decoded: Payload
    ) -> dict[str, Tensor] | None:
        """decay * (gradient + memory - decoded), one fp32 operation each; None for decay 0."""
        return left(gradient, memory, decoded, self.decay) if self.has_memory else None

    def read(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Said]:
        """What a payload says, by name; ContainerError for a bad scale or spare bit."""
        parts = self._parts(shapes)
        raw = unwrap(data, _nbytes(parts))
        start = 0
        for part in parts:
            stop = start + part.nbytes
            scale = read_bf16(raw[start : start + 2], _SCALE_POWER)
            codes = unpack_bits(raw[start + 2 : stop], part.sent, part.width).astype(np.int64)
            if not scale[0] and codes.any():
                raise ContainerError(f"The scale of {part.name!r} is 0 but its codes are not.")
            size = from_bf16(scale)[0]
            numbers = np.where(codes >= part.codes, -size, size) + np.float32(0)
            yield Said(part, codes % part.codes, numbers)
            start = stop

    def _parts(self, shapes: Mapping[str, tuple[int, ...]]) -> list[Part]:
        """By name; a tensor without numbers has none."""
        found = []
        for name in sorted(shapes):
            size = math.prod(shapes[name])
            if not size:
                continue
            fine = name in self.fine_names
            cell, codes = (1, 1) if fine else self.cut(size)
            cells = -(-size // cell)
            sent = max(1, math.ceil((self.fine_share if fine else self.share) * cells))
            found.append(Part(name, size, cell, codes, cells, sent))
        return found

    def _nbytes(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return _nbytes(self._parts(shapes))

    def _level(self, part: Part, magnitudes: Numbers) -> float:
        return self.gain * total(magnitudes) / part.sent

    def _named(
        self, gradient: Payload, memory: Payload | None, seed: bytes
    ) -> Iterator[tuple[Part, Codes, Numbers]]:
        shapes = {name: tuple(tensor.shape) for name, tensor in gradient.items()}
        for part in self._parts(shapes):
            yield part, *self.named(part, self._row(part, gradient, memory), seed)

    def _row(self, part: Part, gradient: Payload, memory: Payload | None) -> Row:
        """Gradient and memory of one tensor, one fp32 addition a number."""
        tensor = gradient[part.name]
        if tensor.dtype != torch.float32:
            raise ValueError(
                f"Tensor {part.name!r} is {tensor.dtype}; {_name(self)} needs float32."
            )
        row = tensor.detach().cpu()
        if memory is not None and self.has_memory:
            row = row + memory[part.name].cpu()
        if not torch.isfinite(row).all():
            raise ValueError("The gradient holds NaN or infinity; nothing can be encoded.")
        numbers: Row = row.reshape(-1).numpy()
        return numbers


def places(part: Part, codes: Codes, seed: bytes) -> Codes:
    """Where in the row the numbers are that codes name by their places in the drawn cells;
    ContainerError for one past the row's end."""
    found = part.drawn(seed) * part.cell + codes
    if found[-1] >= part.size:
        raise ContainerError(
            f"A code of {part.name!r} names number {found[-1]} of only {part.size}."
        )
    return found


def _name(codec: CellCodec) -> str:
    return f"the {type(codec).__name__.lower()} codec"


def _nbytes(parts: Iterable[Part]) -> int:
    return sum(part.nbytes for part in parts)
