# SPDX-License-Identifier: Apache-2.0
"""The codec `semantic`: a projection onto public random rows, rounded to public levels.

It is ZIP-400's semantic gradient, changed so that it can be used with differential privacy. It
does, in this order:

1. the update is one vector of d numbers (plus what error feedback kept), clipped to norm `bound`;
2. P keeps k rows of a seeded orthogonal map (`rotation`), one drawn from each of k equal strata of
   rows. Rows of P are orthonormal: ||P x|| <= ||x||, so no sensitivity grows, and noise N(0, s^2)
   on each of the d numbers is noise N(0, s^2) on each of the k;
3. each number is rounded, up or down at random and right on average, to one of 2^bits levels from
   -range to range. The range is public: range = width * sqrt(clip^2 / d + noise_std^2), a number's
   standard deviation if the update is as long as it may be. No scale is taken from the data;
4. codes are packed, `bits` bits each, and nothing else is sent.

Privacy noise is not made here: `privacy` puts it on the update before, and everything here is
post-processing of its result. `noise_std` only says how much of it there is, so that range and
bound fit: bound = clip + noise_std * (sqrt(d) + 6), which noise exceeds once in 10^7 (a vector's
norm is 1-Lipschitz in its Gaussian numbers).

The draw of rows comes from the first 32 bytes of the public seed, which all nodes of a round share
unless `own_seed` is set; the random rounding from the whole seed, which holds the node too. So
encoding twice gives the same bytes, and whoever re-executes the training can compare them; but the
rounding gives no privacy. It makes the result right on average over seeds, and errors of different
nodes are independent. If all rounded by the same draws, their errors would be alike: even noise
would then be as close to the others' updates as they are to each other.

Decoding multiplies by the transpose of P and a gain. "unbiased" takes each row's stratum size, the
inverse of its chance to be drawn (about d/k): the mean over seeds is the update, and the error of
one payload about sqrt(d/k) times as long as the update. "transpose" takes 1 (ZIP-400's decoder, the
projection itself). "shrunk" takes S / (S + N + R), the least squares gain for a full-length
update: S = clip^2 / d, N = noise_std^2, R the rounding's variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.codec import Payload, Shapes, register
from agents.mechanisms.codec.parts.bits import (
    Codes,
    layout_of,
    pack_bits,
    packed_bytes,
    unpack_bits,
    unwrap,
    wrap,
    wrapped_size,
)
from agents.mechanisms.codec.parts.container import Layout
from agents.mechanisms.codec.parts.edges import outside
from agents.mechanisms.codec.parts.rotation import Rotation
from agents.mechanisms.codec.parts.strata import drawn
from agents.mechanisms.codec.parts.vector import Vector, add, flatten, length, norm, split, words
from agents.mechanisms.options import (
    MAX_MEMORY_ROUNDS,
    check_bool,
    check_choice,
    check_float,
    check_int,
)

SEED_BYTES = 32  # of a public seed that say which rows are drawn
_DECODERS = ("unbiased", "transpose", "shrunk")
_ROWS = "rows"


@register("semantic")
@dataclass(frozen=True, kw_only=True)
class Semantic:
    """The codec `semantic`; see `agents.mechanisms.codec.Codec` and `LinearCodec`.

    Attributes:
        dimension: k, 1 to 2^32; a shorter update has all its d rows. ZIP-400's default 256.
        ratio: if not 0, overrides `dimension`: the largest k with 4 d >= ratio * bytes on the wire.
        clip: bound on the update's norm, from 1e-6 to 1e6.
        bits: per number, 1 to 8.
        width: range over standard deviation, from 0.5 to 16.
        noise_std: standard deviation of the noise already on each of the d numbers, 0 to 1e6.
        decoder: "unbiased", "transpose" or "shrunk".
        error_feedback: keep what a payload did not say for the next round. Needs a decoder that
            contracts, hence not "unbiased"; and no noise, which it would send again and again.
        memory_rounds: memory starts empty every so many rounds, 1 to 64; 0 without memory.
        own_seed: each node projects by a seed of its own in the round, so that the errors of
            different nodes average out in a mean. Not for robust merges: they compare payloads,
            and payloads of different projections are far apart whoever sent them.
    """

    dimension: int = 256
    ratio: float = 0.0
    clip: float = 1.0
    bits: int = 4
    width: float = 4.0
    noise_std: float = 0.0
    decoder: str = "unbiased"
    error_feedback: bool = False
    memory_rounds: int = 0
    own_seed: bool = False

    lossless: ClassVar[bool] = False
    own_rounding: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_int("dimension", self.dimension, 1, 2**32)
        check_float("ratio", self.ratio, 0.0, 1e9)
        check_float("clip", self.clip, 1e-6, 1e6)
        check_int("bits", self.bits, 1, 8)
        check_float("width", self.width, 0.5, 16.0)
        check_float("noise_std", self.noise_std, 0.0, 1e6)
        check_choice("decoder", self.decoder, _DECODERS)
        check_bool("error_feedback", self.error_feedback)
        check_bool("own_seed", self.own_seed)
        low, high = (1, MAX_MEMORY_ROUNDS) if self.error_feedback else (0, 0)
        check_int("memory_rounds", self.memory_rounds, low, high)
        if self.error_feedback and (self.decoder == "unbiased" or self.noise_std):
            raise ValueError(
                "error_feedback needs noise_std 0 and the decoder transpose or shrunk: what the "
                "unbiased one leaves grows from round to round, and noise would be sent again."
            )

    @property
    def has_memory(self) -> bool:
        """Whether there is error feedback."""
        return self.error_feedback

    def rows(self, count: int) -> int:
        """k for an update of `count` numbers; ValueError if not one row fits the ratio."""
        if not self.ratio:
            return min(self.dimension, count)
        limit = int(4 * count / self.ratio)
        nbytes = limit
        while nbytes > 0 and wrapped_size(nbytes) > limit:
            nbytes -= 1
        k = min(count, nbytes * 8 // self.bits)
        if k < 1:
            raise ValueError(f"No payload is {self.ratio:g} times shorter than {4 * count} bytes.")
        return k

    def layout(self, shapes: Shapes) -> Layout:
        """One U8 tensor `q`: the packed codes."""
        return layout_of(packed_bytes(self.rows(length(shapes)), self.bits))

    def wire_size(self, shapes: Shapes) -> int:
        """`bits` bits a row and the header's 72 bytes or so."""
        return wrapped_size(packed_bytes(self.rows(length(shapes)), self.bits))

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 dict; ValueError if a tensor is not fp32 or not finite."""
        kept = memory if self.error_feedback else None
        vector = self._clipped(flatten(add(gradient, kept), "semantic"))
        measured = self._project(vector, seed)
        draws = words(seed, "rounding", measured.size) >> np.uint64(11)
        levels = (measured + self._range(vector.size)) / self._step(vector.size)
        codes = np.floor(levels + draws.astype(np.float64) * 2.0**-53)
        return wrap(pack_bits(codes.clip(0, 2**self.bits - 1).astype(np.uint16), self.bits))

    def least_change(
        self, gradient: Payload, memory: Payload | None, data: bytes, seed: bytes
    ) -> float:
        """How far P x is from what rounds to these codes: rows are orthonormal, and clipping
        lengthens nothing."""
        kept = memory if self.error_feedback else None
        vector = self._clipped(flatten(add(gradient, kept), "semantic"))
        levels = (self._project(vector, seed) + self._range(vector.size)) / self._step(vector.size)
        draws = words(seed, "rounding", levels.size) >> np.uint64(11)
        raw = unwrap(data, packed_bytes(levels.size, self.bits))
        codes = unpack_bits(raw, levels.size, self.bits).astype(np.float64)
        low = codes - draws.astype(np.float64) * 2.0**-53
        high = np.where(codes == 2**self.bits - 1, np.inf, low + 1)
        low[codes == 0] = -np.inf
        return outside(levels, low, high) * self._step(vector.size)

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> dict[str, Tensor]:
        """New fp32 CPU tensors; ContainerError for other bytes than a payload's."""
        count = length(shapes)
        rows = seed[:SEED_BYTES]
        place, sizes = drawn(count, self.rows(count), rows, _ROWS)
        rotated = np.zeros(count)
        rotated[place] = self._values(data, count) * self._gain(sizes, count)
        return split(Rotation(count, rows).transpose(rotated), shapes)

    def remember(
        self, gradient: Payload, memory: Payload | None, decoded: Payload
    ) -> dict[str, Tensor] | None:
        """gradient + memory - decoded, each one fp32 operation; None without error feedback."""
        if not self.error_feedback:
            return None
        whole = add(gradient, memory)
        return {name: whole[name] - decoded[name] for name in whole}

    def linear(self, gradient: Payload, seed: bytes) -> Tensor:
        """P x of an fp32 dict, neither clipped nor rounded: float64 [k]."""
        return torch.from_numpy(self._project(flatten(gradient, "semantic"), seed))

    def measured(self, data: bytes, shapes: Shapes, seed: bytes) -> Tensor:
        """The payload's numbers on the grid, before the gain: float64 [k]."""
        return torch.from_numpy(self._values(data, length(shapes)))

    def rounding_std(self, shapes: Shapes) -> float:
        """Half a step, the most that the rounding of one number within the range can deviate."""
        return self._step(length(shapes)) / 2

    def _range(self, count: int) -> float:
        spread = self.clip * self.clip / count + self.noise_std * self.noise_std
        return self.width * math.sqrt(spread)

    def _step(self, count: int) -> float:
        levels: int = 2**self.bits
        return 2 * self._range(count) / (levels - 1)

    def _clipped(self, vector: Vector) -> Vector:
        bound = self.clip + self.noise_std * (math.sqrt(vector.size) + 6)
        size = norm(vector)
        return vector if size <= bound else vector * (bound / size)

    def _project(self, vector: Vector, seed: bytes) -> Vector:
        rows = seed[:SEED_BYTES]
        place, _ = drawn(vector.size, self.rows(vector.size), rows, _ROWS)
        return Rotation(vector.size, rows).forward(vector)[place]

    def _values(self, data: bytes, count: int) -> Vector:
        k = self.rows(count)
        codes: Codes = unpack_bits(unwrap(data, packed_bytes(k, self.bits)), k, self.bits)
        return codes * self._step(count) - self._range(count)

    def _gain(self, sizes: NDArray[np.int64], count: int) -> Vector | float:
        if self.decoder == "unbiased":
            return sizes.astype(np.float64)
        if self.decoder == "transpose":
            return 1.0
        signal, step = self.clip * self.clip / count, self._step(count)
        return signal / (signal + self.noise_std * self.noise_std + step * step / 6)
