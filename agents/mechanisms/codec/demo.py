# SPDX-License-Identifier: Apache-2.0
"""The codec `demo`: sends the largest coefficients of each block's cosine transform.

DeMo (Peng, Quesnelle, Kingma, "DeMo: Decoupled Momentum Optimization", `arXiv 2411.19870`), as
Gauntlet's jobs use it (`arXiv 2505.21684`): the memory is a momentum, m <- decay * m + gradient. Of
its chunked, orthonormal, two-dimensional DCT-II the `per_chunk` coefficients of largest magnitude
leave the node, and what they decode to leaves the momentum. The merge that belongs to it is
`demo_sign`: the transform is orthonormal and linear, so norms and sums of decoded payloads are
those of the encoded ones.

On the wire a chunk is a BF16 scale, its places (`places`) and a code of `value_bits` bits for each:
magnitude - 1 and, as highest bit, the sign; the coefficient is sign * magnitude * scale, magnitude
from 1 to 2^(value_bits - 1). Payload: for each group of chunks of equal shape (`chunks`) all
scales, all places, all codes. Decoding multiplies integers exactly and rounds last (`dct`).

A payload is accepted in one spelling only. Either a scale is 0, then its places are the first ones
and its codes 0; or it is positive, below 2^40, and the largest magnitude is the largest there is.
So one set of coefficients has one spelling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.codec import Payload, Shapes, register
from agents.mechanisms.codec.parts.bits import (
    from_bf16,
    layout_of,
    pack_bits,
    packed_bytes,
    read_bf16,
    unpack_bits,
    unwrap,
    wrap,
    wrapped_size,
)
from agents.mechanisms.codec.parts.chunks import Group, cut
from agents.mechanisms.codec.parts.container import ContainerError, Layout
from agents.mechanisms.codec.parts.dct import MAX_SIDE, bits_for
from agents.mechanisms.codec.parts.edges import crossed, outside, swapped, worse
from agents.mechanisms.codec.parts.even_levels import even_levels
from agents.mechanisms.codec.parts.places import PlaceCode, place_code
from agents.mechanisms.codec.parts.selection import Source
from agents.mechanisms.codec.parts.stretch import Stretch, of_means, of_steps
from agents.mechanisms.codec.parts.support import Support
from agents.mechanisms.codec.parts.transform import Synthesis, analysis
from agents.mechanisms.codec.parts.vector import left, zeros
from agents.mechanisms.options import LONG_MEMORY_ROUNDS, check_choice, check_float, check_int

_SCALE_POWER = 40  # scales are below 2^40
_VALUE_BITS = (1, 2, 3, 4, 5, 6, 7, 8, 16)


@register("demo")
@dataclass(frozen=True, kw_only=True)
class Demo:
    """The codec `demo`; see `agents.mechanisms.codec.Codec` and `SupportCodec`.

    Attributes:
        chunk: side of a matrix's blocks and length of a vector's runs, at most; 4 to 128.
        per_chunk: coefficients sent of a chunk, or all if it has fewer; 1 to chunk^2.
        decay: factor on the momentum that is kept, 0 (none) to 1.
        value_bits: of a coefficient, 1 to 8 or 16.
        memory_rounds: the momentum starts empty every so many rounds, 1 to 65,536.
    """

    chunk: int = 64
    per_chunk: int = 32
    decay: float = 0.999
    value_bits: int = 8
    memory_rounds: int = LONG_MEMORY_ROUNDS

    lossless: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_int("chunk", self.chunk, 4, MAX_SIDE)
        check_int("per_chunk", self.per_chunk, 1, self.chunk * self.chunk)
        check_float("decay", self.decay, 0.0, 1.0)
        check_choice("value_bits", self.value_bits, _VALUE_BITS)
        check_int("memory_rounds", self.memory_rounds, 1, LONG_MEMORY_ROUNDS)

    @property
    def has_memory(self) -> bool:
        """Whether anything is kept."""
        return self.decay > 0

    @property
    def stretch(self) -> Stretch:
        """A coefficient is off by one step at most, and a step is a chunk's largest over `top`;
        with one magnitude that is their mean."""
        if self._top == 1:
            return of_means(1.0, self.decay)
        return of_steps(math.sqrt(self.per_chunk) / self._top, self.decay)

    @property
    def _top(self) -> int:
        return 1 << (self.value_bits - 1)

    def layout(self, shapes: Shapes) -> Layout:
        """One U8 tensor `q`: per group scales, places, codes."""
        return layout_of(self._nbytes(shapes))

    def wire_size(self, shapes: Shapes) -> int:
        """2 bytes a chunk, about 17 bits a coefficient (9 say where), the header's 72 or so."""
        return wrapped_size(self._nbytes(shapes))

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 dict; `seed` is not used.

        ValueError if a tensor is not fp32 or not finite, or if a number is far too large.
        """
        source = Source(gradient, memory if self.has_memory else None, "demo")
        parts = []
        for group in cut(source.shapes, self.chunk, self.chunk):
            code = self._places(group)
            places, values = source.largest(group, code.sent, analysis)
            scales, codes = self._quantise(values)
            empty = scales == 0
            places[empty] = np.arange(code.sent)
            parts += [
                scales.tobytes(),
                code.pack(places),
                pack_bits(codes.reshape(-1), self.value_bits),
            ]
        return wrap(b"".join(parts))

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> dict[str, Tensor]:
        """New fp32 CPU tensors; ContainerError for bytes that break the rules above."""
        out = zeros(shapes)
        for group, scales, places, levels in self._read(data, shapes):
            self._write(group, scales, places, levels, out)
        return out

    def least_change(
        self, gradient: Payload, memory: Payload | None, data: bytes, seed: bytes
    ) -> float:
        """How far the coefficients are from being the largest of their chunks, having these signs,
        and rounding to these magnitudes of these scales."""
        source = Source(gradient, memory if self.has_memory else None, "demo")
        costs = []
        for group, scales, places, levels in self._read(data, source.shapes):
            _, own = source.largest(group, group.size, analysis)
            named = np.take_along_axis(own, places, axis=1).astype(np.float64)
            kept, _ = source.largest(group, self._places(group).sent, analysis)
            own = np.take_along_axis(own, kept, axis=1)
            sent = scales > 0
            costs.append(np.sqrt(np.square(own[~sent].astype(np.float64)).sum()))
            chosen = np.abs(own[sent].astype(np.float64)), places[sent], np.abs(named[sent])
            costs.append(swapped(kept[sent], *chosen, group.size))
            costs.append(crossed(named[sent], levels[sent] < 0))
            costs += self._rounding_change(np.abs(named[sent]), scales[sent], np.abs(levels[sent]))
        return float(max(costs))

    def _rounding_change(
        self,
        magnitudes: NDArray[np.float64],
        scales: NDArray[np.float64],
        said: NDArray[np.int64],
    ) -> tuple[float, float]:
        """How far magnitudes are from these multiples of these scales, and these scales from those
        that would be taken. The largest is said as the highest whatever it is."""
        if not len(said):
            return 0.0, 0.0
        step, top = scales[:, None], self._top
        low = np.where(said == 1, 0.0, (said - 0.5) * step)
        high = np.where(said == top, np.inf, (said + 0.5) * step)
        # A scale is BF16: what is said of its half steps is off by as much.
        slack = said * step * 2.0**-8
        rounded = outside(magnitudes, low - slack, high + slack)
        taken, best = even_levels(magnitudes.astype(np.float32), top, 2.0 ** (_SCALE_POWER - 1))
        theirs = np.sqrt(np.square(magnitudes - said * step).sum(axis=1))
        ours = np.sqrt(
            np.square(magnitudes - best * from_bf16(taken).astype(np.float64)[:, None]).sum(axis=1)
        )
        room = np.sqrt(np.square(said * step * 2.0**-8).sum(axis=1))  # of the scales' own rounding
        return rounded, worse(theirs - room, ours)

    def remember(
        self, gradient: Payload, memory: Payload | None, decoded: Payload
    ) -> dict[str, Tensor] | None:
        """decay * (gradient + memory - decoded), one fp32 operation each; None for decay 0."""
        return left(gradient, memory, decoded, self.decay) if self.has_memory else None

    def support(self, data: bytes, shapes: Shapes, seed: bytes) -> Support:
        """Which coefficients a payload sends, with signs; ContainerError as `decode`.

        Coefficients are numbered group by group, chunk by chunk.
        """
        found, negative = [], []
        start = 0
        for group, scales, places, levels in self._read(data, shapes):
            numbers = start + np.arange(group.count)[:, None] * group.size + places
            sent = np.broadcast_to((scales > 0)[:, None], places.shape)
            found.append(numbers[sent])
            negative.append(levels[sent] < 0)
            start += group.count * group.size
        return Support(np.concatenate(found), np.concatenate(negative))

    def _places(self, group: Group) -> PlaceCode:
        return place_code(group.size, min(self.per_chunk, group.size))

    def _sizes(self, group: Group) -> tuple[int, int, int]:
        """Bytes of a group's scales, places and codes."""
        code = self._places(group)
        codes = packed_bytes(group.count * code.sent, self.value_bits)
        return 2 * group.count, code.nbytes(group.count), codes

    def _nbytes(self, shapes: Shapes) -> int:
        return sum(sum(self._sizes(group)) for group in cut(shapes, self.chunk, self.chunk))

    def _quantise(
        self, values: NDArray[np.float32]
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """BF16 scales [count] and codes [count, sent] of coefficients."""
        try:
            scales, levels = even_levels(np.abs(values), self._top, 2.0 ** (_SCALE_POWER - 1))
        except OverflowError as error:
            raise ValueError(
                "The gradient's numbers are far too large for the demo codec."
            ) from error
        codes = levels - 1 + np.where(values < 0, self._top, 0)
        codes[scales == 0] = 0
        return scales, codes

    def _write(
        self,
        group: Group,
        scales: NDArray[np.float64],
        places: NDArray[np.int64],
        levels: NDArray[np.int64],
        out: dict[str, Tensor],
    ) -> None:
        """Write the group's decoded chunks into `out`."""
        # A BF16 number is a whole number below 2^8 times a power of two.
        bits = bits_for(group.height, group.width, places.shape[1], self._top << 8)
        synthesis = Synthesis(group, bits)
        for piece in group.pieces():
            chosen = np.concatenate([np.arange(span.start, span.stop) for span in piece.spans])
            values = levels[chosen] * scales[chosen, None]
            synthesis.write(piece, places[chosen], values, out[piece.region.name])

    def _read(
        self, data: bytes, shapes: Shapes
    ) -> list[tuple[Group, NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]]:
        """Per group scales [count], places and signed magnitudes [count, sent], checked."""
        groups = cut(shapes, self.chunk, self.chunk)
        raw = unwrap(data, self._nbytes(shapes))
        found, start = [], 0
        for group in groups:
            ends = start + np.cumsum(self._sizes(group))
            code = self._places(group)
            bits = read_bf16(raw[start : ends[0]], _SCALE_POWER)
            places = code.unpack(raw[ends[0] : ends[1]], group.count)
            codes = unpack_bits(raw[ends[1] : ends[2]], places.size, self.value_bits)
            found.append((group, *self._checked(bits, places, codes.reshape(places.shape))))
            start = int(ends[2])
        return found

    def _checked(
        self, bits: NDArray[np.uint16], places: NDArray[np.int64], codes: NDArray[np.uint16]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        empty = bits == 0
        if codes[empty].any() or (places[empty] != np.arange(places.shape[1])).any():
            raise ContainerError("A chunk's scale is 0 but its places or codes are not the first.")
        magnitude = (codes & (self._top - 1)).astype(np.int64) + 1
        if (magnitude.max(axis=1) != self._top)[~empty].any():
            raise ContainerError("A chunk's largest magnitude is not the largest there is.")
        levels = np.where(codes >= self._top, -magnitude, magnitude)
        levels[empty] = 0
        return from_bf16(bits).astype(np.float64), places, levels
