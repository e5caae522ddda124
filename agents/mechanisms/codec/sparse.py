# SPDX-License-Identifier: Apache-2.0
"""The codec `sparse`: sends the largest numbers of each chunk, two bits and a place each.

Chunk top-k with error feedback, as SparseLoCo has it (`arXiv 2508.15706`; error feedback:
Karimireddy et al., `arXiv 1901.09847`). Tensors are cut into runs of 4096 numbers, or matrices into
blocks (`chunks`). Of a chunk of c numbers the k = ceil(per_chunk * c / 4096) of largest magnitude
are named, in about 8 bits each (`places`); a 2-bit code says sign and one of two magnitudes, and
two BF16 numbers are the chunk's magnitudes: the means of the two classes that Lloyd's iteration
finds (`two_levels`), times `gain`, rounded. With `value_bits` 1 there is one magnitude, the mean.
What was not sent is kept and added to the next round's update.

Decoded, a chunk is zero almost everywhere. So nodes' payloads hardly overlap, and only a rule that
averages can merge them: a coordinate-wise median of sparse payloads is zero.

For each group of chunks of equal shape the payload holds all scales (low, high per chunk), then all
places, then all codes (1: high, 2: negative). A payload is accepted in one spelling only: 0 < low
<= high < 2^64, something is low, and something is high just if low < high; or both are 0, and then
places and codes are the first and 0. So one decoded update has one spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.codec import Payload, Shapes, register
from agents.mechanisms.codec.parts.bits import (
    SMALLEST_BF16,
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
from agents.mechanisms.codec.parts.chunks import Group, cut
from agents.mechanisms.codec.parts.container import ContainerError, Layout
from agents.mechanisms.codec.parts.edges import crossed, means, swapped, worse
from agents.mechanisms.codec.parts.places import PlaceCode, place_code
from agents.mechanisms.codec.parts.selection import Source
from agents.mechanisms.codec.parts.stretch import Stretch, of_means
from agents.mechanisms.codec.parts.support import Support
from agents.mechanisms.codec.parts.two_levels import two_levels
from agents.mechanisms.codec.parts.vector import left, zeros
from agents.mechanisms.options import (
    LONG_MEMORY_ROUNDS,
    check_choice,
    check_float,
    check_int,
)

CHUNK = 4096
_SCALE_POWER = 64  # scales are below 2^64
_BATCH = 2048
_BLOCKS = (0, 16, 32, 64)


@register("sparse")
@dataclass(frozen=True, kw_only=True)
class Sparse:
    """The codec `sparse`; see `agents.mechanisms.codec.Codec` and `SupportCodec`.

    Attributes:
        per_chunk: numbers sent of 4096, 1 to 2048.
        block: side of a matrix's blocks, 16, 32 or 64; 0 cuts matrices into runs of 4096 too.
        value_bits: 2, or 1 for one magnitude a chunk.
        gain: factor on the magnitudes sent, 0.1 to 4; error feedback takes back what was too much.
        decay: factor on what is kept, from 0 (no error feedback) to 1.
        memory_rounds: memory starts empty every so many rounds, 1 to 65,536.
    """

    per_chunk: int = 89
    block: int = 0
    value_bits: int = 2
    gain: float = 1.5
    decay: float = 1.0
    memory_rounds: int = 20

    lossless: ClassVar[bool] = False
    mostly_zero: ClassVar[bool] = True  # what a coordinate-wise rule can make nothing of

    def __post_init__(self) -> None:
        check_int("per_chunk", self.per_chunk, 1, CHUNK // 2)
        check_choice("block", self.block, _BLOCKS)
        check_choice("value_bits", self.value_bits, (1, 2))
        check_float("gain", self.gain, 0.1, 4.0)
        check_float("decay", self.decay, 0.0, 1.0)
        check_int("memory_rounds", self.memory_rounds, 1, LONG_MEMORY_ROUNDS)

    @property
    def has_memory(self) -> bool:
        """Whether anything is kept."""
        return self.decay > 0

    @property
    def stretch(self) -> Stretch:
        """Numbers that are sent are written as means of their magnitudes."""
        return of_means(self.gain, self.decay)

    def layout(self, shapes: Shapes) -> Layout:
        """One U8 tensor `q`: per group scales, places, codes."""
        return layout_of(self._nbytes(shapes))

    def wire_size(self, shapes: Shapes) -> int:
        """4 bytes a chunk, about 10 bits a number sent, and the header's 72 bytes or so."""
        return wrapped_size(self._nbytes(shapes))

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 dict; `seed` is not used.

        ValueError if a tensor is not fp32 or not finite, or if a number is far too large.
        """
        source = Source(gradient, memory if self.has_memory else None, "sparse")
        parts = []
        for group in self._cut(source.shapes):
            code = self._places(group)
            places, values = source.largest(group, code.sent)
            # In batches of rows, so that what comes between stays in a cache.
            batches = [values[at : at + _BATCH] for at in range(0, group.count, _BATCH)]
            found = [self._quantise(batch) for batch in batches]
            scales, codes = (np.concatenate(part) for part in zip(*found, strict=True))
            places[scales[:, 0] == 0] = np.arange(code.sent)
            parts += [
                scales.tobytes(),
                code.pack(places),
                pack_bits(codes.reshape(-1), self.value_bits),
            ]
        return wrap(b"".join(parts))

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> dict[str, Tensor]:
        """New fp32 CPU tensors; ContainerError for bytes that break the rules above."""
        out = zeros(shapes)
        flat = {name: tensor.numpy().reshape(-1) for name, tensor in out.items()}
        for group, places, numbers in self._read(data, shapes):
            for region in group.regions:
                (chunks,) = region.whole.spans
                flat[region.name][group.inside(region.whole, places[chunks])] = numbers[chunks]
        return out

    def least_change(
        self, gradient: Payload, memory: Payload | None, data: bytes, seed: bytes
    ) -> float:
        """How far the numbers are from being the largest of their chunks, having these signs, and
        being described by these two magnitudes."""
        source = Source(gradient, memory if self.has_memory else None, "sparse")
        costs = []
        for group, places, numbers in self._read(data, source.shapes):
            ours, own = source.largest(group, self._places(group).sent)
            named = source.at(group, places).astype(np.float64)
            magnitudes, size = np.abs(named), np.abs(numbers).astype(np.float64)
            sent = size[:, 0] > 0  # a chunk that is said to be empty says nothing of its places
            costs.append(np.sqrt(np.square(own[~sent].astype(np.float64)).sum()))
            costs.append(
                swapped(
                    ours[sent],
                    np.abs(own[sent].astype(np.float64)),
                    places[sent],
                    magnitudes[sent],
                    group.size,
                )
            )
            costs.append(crossed(named[sent], (numbers < 0)[sent]))
            costs += self._levels_change(magnitudes[sent], size[sent])
        return float(max(costs))

    def _levels_change(
        self, magnitudes: NDArray[np.float64], said: NDArray[np.float64]
    ) -> tuple[float, float]:
        """How far magnitudes are from having these means, and from being split like this."""
        if not len(said):
            return 0.0, 0.0
        upper = said > said.min(axis=1, keepdims=True)
        sums, counts, scales = [], [], []
        for part in (~upper, upper):
            sums.append(np.where(part, magnitudes, 0).sum(axis=1))
            counts.append(part.sum(axis=1).astype(np.float64))
            scales.append(np.where(part, said, 0).max(axis=1))
        totals, numbers = np.stack(sums), np.stack(counts)
        own = self.gain * totals / np.maximum(numbers, 1)
        off = means(own, np.stack(scales), numbers, self.gain)
        if self.value_bits == 1:
            return off, 0.0
        levels, high = two_levels(magnitudes.astype(np.float32))
        best = np.where(high, levels[:, 1:], levels[:, :1])
        length = np.sqrt((np.square(totals) / np.maximum(numbers, 1)).sum(axis=0))
        return off, worse(np.sqrt(np.square(best).sum(axis=1)), length)

    def remember(
        self, gradient: Payload, memory: Payload | None, decoded: Payload
    ) -> dict[str, Tensor] | None:
        """decay * (gradient + memory - decoded), one fp32 operation each; None for decay 0."""
        return left(gradient, memory, decoded, self.decay) if self.has_memory else None

    def support(self, data: bytes, shapes: Shapes, seed: bytes) -> Support:
        """Which numbers a payload sends, with signs; ContainerError as `decode`.

        Numbers are counted group by group, chunk by chunk.
        """
        found, negative = [], []
        start = 0
        for group, places, numbers in self._read(data, shapes):
            counted = start + np.arange(group.count)[:, None] * group.size + places
            sent = numbers != 0
            found.append(counted[sent])
            negative.append(numbers[sent] < 0)
            start += group.count * group.size
        return Support(np.concatenate(found), np.concatenate(negative))

    def _cut(self, shapes: Shapes) -> tuple[Group, ...]:
        return cut(shapes, self.block, CHUNK)

    def _places(self, group: Group) -> PlaceCode:
        return place_code(group.size, -(-self.per_chunk * group.size // CHUNK))

    def _sizes(self, group: Group) -> tuple[int, int, int]:
        """Bytes of a group's scales, places and codes."""
        code = self._places(group)
        codes = packed_bytes(group.count * code.sent, self.value_bits)
        return 2 * self.value_bits * group.count, code.nbytes(group.count), codes

    def _nbytes(self, shapes: Shapes) -> int:
        return sum(sum(self._sizes(group)) for group in self._cut(shapes))

    def _quantise(
        self, values: NDArray[np.float32]
    ) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
        """BF16 scales [count, value_bits] and codes [count, sent] of the numbers to be sent."""
        size = np.abs(values)
        if self.value_bits == 1:
            levels = np.cumsum(size, axis=1, dtype=np.float64)[:, -1:] / size.shape[1]
            upper = np.zeros(size.shape, np.bool_)
        else:
            levels, upper = two_levels(size)
        levels *= self.gain
        if not (levels < 2.0 ** (_SCALE_POWER - 1)).all():
            raise ValueError("The gradient's numbers are far too large for the sparse codec.")
        scales = to_bf16(levels)
        # A low too small for BF16 is as small as BF16 can be.
        scales[(scales[:, 0] == 0) & (scales[:, -1] > 0), 0] = SMALLEST_BF16
        upper &= (scales[:, 0] < scales[:, -1])[:, None]
        negative = (values < 0) & (scales[:, :1] > 0)
        sign = 1 << (self.value_bits - 1)
        return scales, upper.astype(np.uint8) + sign * negative.astype(np.uint8)

    def _read(
        self, data: bytes, shapes: Shapes
    ) -> list[tuple[Group, NDArray[np.int64], NDArray[np.float32]]]:
        """Per group places and numbers [count, sent], checked."""
        raw = unwrap(data, self._nbytes(shapes))
        found, start = [], 0
        for group in self._cut(shapes):
            ends = start + np.cumsum(self._sizes(group))
            bits = read_bf16(raw[start : ends[0]], _SCALE_POWER).reshape(-1, self.value_bits)
            places = self._places(group).unpack(raw[ends[0] : ends[1]], group.count)
            codes = unpack_bits(raw[ends[1] : ends[2]], places.size, self.value_bits)
            found.append((group, places, self._numbers(bits, places, codes.reshape(places.shape))))
            start = int(ends[2])
        return found

    def _numbers(
        self, bits: NDArray[np.uint16], places: NDArray[np.int64], codes: NDArray[np.uint16]
    ) -> NDArray[np.float32]:
        low, high = bits[:, 0], bits[:, -1]
        if (low > high).any() or ((low == 0) & (high > 0)).any():
            raise ContainerError("A chunk's scales don't ascend from above 0.")
        empty = high == 0
        if codes[empty].any() or (places[empty] != np.arange(places.shape[1])).any():
            raise ContainerError(
                "A chunk's scales are 0 but its places or codes are not the first."
            )
        sign = 1 << (self.value_bits - 1)
        upper = (codes & (sign - 1)) > 0
        if (upper.any(axis=1) != (low < high)).any():
            raise ContainerError("A chunk has two scales just if something in it is high.")
        if upper.all(axis=1).any():
            raise ContainerError("A chunk holds nothing that is low.")
        scales = from_bf16(bits)
        size = np.where(upper, scales[:, -1:], scales[:, :1])
        return np.where(codes >= sign, -size, size) + np.float32(0)
