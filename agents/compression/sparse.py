# SPDX-License-Identifier: Apache-2.0
"""The rule: of each chunk the largest numbers are sent, two bits and twelve each; the rest waits.

Chunk top-k with error feedback, as SparseLoCo has it (`arXiv 2508.15706`; error feedback:
Karimireddy et al., `arXiv 1901.09847`). The vector is cut into chunks of 4096 (the last may be
shorter). Of a chunk of c numbers the k = ceil(per_chunk * c / 4096) of largest magnitude are named
by a 12-bit index, ascending; a 2-bit code says sign and one of two magnitudes, and two BF16 numbers
are the chunk's magnitudes: the means of the two classes that Lloyd's iteration finds, rounded. What
was not sent is kept and added to the next round's update.

Decoded, a chunk is zero almost everywhere. So nodes' payloads hardly overlap, and only a rule that
averages can merge them: a coordinate-wise median of sparse payloads is zero.

The payload is all scales (low, high per chunk), then all indices, then all codes (1: high, 2:
negative), bits packed. A stranger's must be spelt as ours: indices ascend within a chunk and stay
in it, 0 <= low <= high, nothing is high where low = high, no zero is negative, spare bits are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agents.compression import Payload, Shapes, register
from agents.compression.bits import (
    layout_of,
    pack_bits,
    packed_bytes,
    unpack_bits,
    unwrap,
    wrap,
    wrapped_size,
)
from agents.compression.container import ContainerError, Layout
from agents.compression.options import MAX_MEMORY_ROUNDS, check_float, check_int
from agents.compression.support import Support
from agents.compression.vector import Vector, add, flatten, length, split

CHUNK = 4096
_INDEX_BITS = 12
_CODE_BITS = 2
_LLOYD_STEPS = 8
_SCALE_LIMIT = 0x5F80  # BF16 of 2^64: the first bits refused


@register("sparse")
@dataclass(frozen=True, kw_only=True)
class Sparse:
    """The codec `sparse`; see `agents.compression.Codec`.

    Attributes:
        per_chunk: numbers sent of a full chunk, 1 to 2048.
        gain: factor on the magnitudes sent, 0.1 to 4; error feedback takes back what was too much.
        decay: factor on what is kept, from 0 (no error feedback) to 1.
        memory_rounds: memory starts empty every so many rounds, 1 to 64.
    """

    per_chunk: int = 89
    gain: float = 1.5
    decay: float = 1.0
    memory_rounds: int = 20

    lossless: ClassVar[bool] = False
    mostly_zero: ClassVar[bool] = True  # what a coordinate-wise rule can make nothing of

    def __post_init__(self) -> None:
        check_int("per_chunk", self.per_chunk, 1, CHUNK // 2)
        check_float("gain", self.gain, 0.1, 4.0)
        check_float("decay", self.decay, 0.0, 1.0)
        check_int("memory_rounds", self.memory_rounds, 1, MAX_MEMORY_ROUNDS)

    @property
    def has_memory(self) -> bool:
        """Whether anything is kept."""
        return self.decay > 0

    def layout(self, shapes: Shapes) -> Layout:
        """One U8 tensor `q`: scales, indices, codes."""
        return layout_of(sum(self._parts(_Cut(length(shapes), self.per_chunk))))

    def wire_size(self, shapes: Shapes) -> int:
        """4 bytes a chunk, 14 bits a number sent, and the header's 72 bytes or so."""
        return wrapped_size(sum(self._parts(_Cut(length(shapes), self.per_chunk))))

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 dict; `seed` is not used.

        ValueError if a tensor is not fp32 or not finite, or if a number is far too large.
        """
        vector = flatten(add(gradient, memory if self.has_memory else None), "sparse")
        cut = _Cut(vector.size, self.per_chunk)
        scales, places, codes = [], [], []
        for start, stop, count in cut.chunks():
            chunk = vector[start:stop]
            place = _largest(np.abs(chunk), count)
            low, high, upper = _two_levels(np.abs(chunk[place]))
            levels = _to_bf16(np.array([low, high]) * self.gain)
            upper &= levels[0] < levels[1]
            negative = (chunk[place] < 0) & (levels[upper.astype(np.intp)] > 0)
            scales.append(levels)
            places.append(place)
            codes.append(upper + 2 * negative)
        return wrap(
            np.concatenate(scales).tobytes()
            + pack_bits(np.concatenate(places), _INDEX_BITS)
            + pack_bits(np.concatenate(codes), _CODE_BITS)
        )

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> dict[str, Tensor]:
        """New fp32 CPU tensors; ContainerError for scales or indices that break the rules above."""
        cut, place, numbers = self._read(data, shapes)
        vector = np.zeros(cut.length)
        vector[place] = numbers
        return split(vector, shapes)

    def support(self, data: bytes, shapes: Shapes, seed: bytes) -> Support:
        """Which coordinates a payload sends, with signs; ContainerError as `decode`."""
        _, place, numbers = self._read(data, shapes)
        sent = numbers != 0
        return Support(place[sent], numbers[sent] < 0)

    def _read(self, data: bytes, shapes: Shapes) -> tuple[_Cut, NDArray[np.int64], Vector]:
        cut = _Cut(length(shapes), self.per_chunk)
        ends = np.cumsum(self._parts(cut))
        raw = unwrap(data, int(ends[-1]))
        scales = _check_scales(np.frombuffer(raw[: ends[0]], "<u2").reshape(-1, 2))
        index = unpack_bits(raw[ends[0] : ends[1]], cut.sent, _INDEX_BITS)
        codes = unpack_bits(raw[ends[1] :], cut.sent, _CODE_BITS)
        chunk = cut.chunk_of()
        place = chunk * CHUNK + index
        if (np.diff(place) <= 0).any():
            raise ContainerError("A chunk's indices don't ascend.")
        if place[-1] >= cut.length:
            raise ContainerError(f"An index names number {place[-1]} of only {cut.length}.")
        magnitude = scales[chunk, codes & 1]
        if (((codes & 1) == 1) & (scales[chunk, 0] == magnitude)).any():
            raise ContainerError("A number is high in a chunk whose scales are equal.")
        if ((codes >= 2) & (magnitude == 0)).any():
            raise ContainerError("A number is negative but its scale is 0.")
        return cut, place, np.where(codes >= 2, -magnitude, magnitude)

    def remember(
        self, gradient: Payload, memory: Payload | None, decoded: Payload
    ) -> dict[str, Tensor] | None:
        """decay * (gradient + memory - decoded), one fp32 operation each; None for decay 0."""
        if not self.has_memory:
            return None
        whole = add(gradient, memory)
        return {name: (whole[name] - decoded[name]) * self.decay for name in whole}

    def _parts(self, cut: _Cut) -> tuple[int, int, int]:
        """Bytes of scales, indices and codes."""
        indices = packed_bytes(cut.sent, _INDEX_BITS)
        return 4 * cut.count, indices, packed_bytes(cut.sent, _CODE_BITS)


@dataclass(frozen=True)
class _Cut:
    """How `length` numbers are cut into chunks, and how many of each are sent."""

    length: int
    per_chunk: int

    @property
    def count(self) -> int:
        return -(-self.length // CHUNK)

    @property
    def last(self) -> int:
        """Numbers sent of the last chunk."""
        return -(-self.per_chunk * (self.length - (self.count - 1) * CHUNK) // CHUNK)

    @property
    def sent(self) -> int:
        return (self.count - 1) * self.per_chunk + self.last

    def chunks(self) -> list[tuple[int, int, int]]:
        """(start, stop, numbers sent) of each chunk."""
        return [
            (n * CHUNK, min((n + 1) * CHUNK, self.length), self._sent_of(n))
            for n in range(self.count)
        ]

    def chunk_of(self) -> NDArray[np.int64]:
        """Which chunk each number sent belongs to."""
        return np.arange(self.sent, dtype=np.int64) // self.per_chunk

    def _sent_of(self, number: int) -> int:
        return self.last if number == self.count - 1 else self.per_chunk


def _largest(magnitudes: Vector, count: int) -> NDArray[np.int64]:
    """Ascending places of the `count` largest; of equals, the first."""
    least = np.partition(magnitudes, -count)[-count]
    above = magnitudes > least
    level = np.flatnonzero(magnitudes == least)[: count - np.count_nonzero(above)]
    above[level] = True
    return np.flatnonzero(above)


def _two_levels(magnitudes: Vector) -> tuple[float, float, NDArray[np.bool_]]:
    """(mean of the smaller, mean of the larger, which are larger), by Lloyd's iteration."""
    # cumsum adds one by one, so the sums have one order everywhere.
    ordered = np.sort(magnitudes)
    sums = np.cumsum(ordered)
    middle = sums[-1] / ordered.size
    for _ in range(_LLOYD_STEPS):
        below = int(np.searchsorted(ordered, middle, "right"))
        if below in (0, ordered.size):
            mean = float(sums[-1] / ordered.size)
            return mean, mean, np.zeros(magnitudes.size, np.bool_)
        low = sums[below - 1] / below
        high = (sums[-1] - sums[below - 1]) / (ordered.size - below)
        middle = (low + high) / 2
    return float(low), float(high), magnitudes > middle


def _to_bf16(values: Vector) -> NDArray[np.uint16]:
    """Bits of non-negative numbers rounded to BF16, ties away from zero."""
    if not (values < 2.0**63).all():
        raise ValueError("The gradient's numbers are far too large for the sparse codec.")
    bits = values.astype("<f4").view("<u4")
    return ((bits + np.uint32(0x8000)) >> np.uint32(16)).astype("<u2")


def _check_scales(bits: NDArray[np.uint16]) -> Vector:
    """float64 [chunks, 2] of the wire's BF16 pairs."""
    if (bits >= _SCALE_LIMIT).any():
        raise ContainerError("A chunk's scale is negative, not finite or far too large.")
    if (bits[:, 0] > bits[:, 1]).any():
        raise ContainerError("A chunk's scales don't ascend.")
    return (bits.astype("<u4") << np.uint32(16)).view("<f4").astype(np.float64)
