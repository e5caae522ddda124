# SPDX-License-Identifier: Apache-2.0
"""k ascending places below u are written in a fixed number of bits, fewer than k indices take.

A list of indices also says in which order they come. That order means nothing here and costs
log2(k!) bits. The code of Elias and Fano (P. Elias, "Efficient storage and retrieval by content and
address of static files", J. ACM 1974) keeps l low bits of each place and writes the rest in unary:
the place number i whose upper bits are h sets bit h + i of a row of k + floor((u - 1) / 2^l) bits.
64 of 4096 take 8 bits each, 32 take 9, where a plain index takes 12. Where one bit for each place
is shorter, that is used; if all are sent, nothing. All of it has one size whatever the places, and
each set of places one spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.bits import Raw, pack_bits, packed_bytes, unpack_bits
from agents.mechanisms.codec.parts.container import ContainerError

Places = NDArray[np.int64]
_BATCH = 2048  # rows worked on at once, so that they stay in a cache


@dataclass(frozen=True)
class PlaceCode:
    """The code of `sent` places below `size` in each of many chunks.

    Attributes:
        low: low bits written as they are; 0 with `width` = size for one bit a place.
        width: bits of a chunk's unary row; 0 if every place is sent.
    """

    size: int
    sent: int
    low: int
    width: int
    bitmap: bool

    @property
    def bits(self) -> int:
        """Bits of one chunk."""
        return self.width + self.low * self.sent

    def nbytes(self, count: int) -> int:
        """Bytes of `count` chunks."""
        return packed_bytes(count * self.width, 1) + packed_bytes(count * self.sent, self.low)

    def pack(self, places: Places) -> bytes:
        """`nbytes` bytes of int64 [count, sent], each row strictly ascending and below `size`."""
        if not self.width:
            return b""
        count = len(places)
        rows = np.zeros((count, self.width), np.bool_)
        steps = 0 if self.bitmap else np.arange(self.sent)
        for at in range(0, count, _BATCH):
            some = slice(at, at + _BATCH)
            np.put_along_axis(rows[some], (places[some] >> self.low) + steps, True, axis=1)
        raw = np.packbits(rows.reshape(-1), bitorder="little").tobytes()
        if not self.low:
            return raw
        return raw + pack_bits((places & ((1 << self.low) - 1)).reshape(-1), self.low)

    def unpack(self, raw: Raw, count: int) -> Places:
        """int64 [count, sent] of `nbytes(count)` bytes.

        ContainerError unless each row ascends strictly and stays below `size`.
        """
        if not self.width:
            return np.broadcast_to(np.arange(self.size), (count, self.size))
        split = packed_bytes(count * self.width, 1)
        rows = _flags(raw[:split], count * self.width).reshape(count, self.width)
        if (np.count_nonzero(rows, axis=1) != self.sent).any():
            raise ContainerError(f"A chunk names another number of places than {self.sent}.")
        flat = np.flatnonzero(rows).reshape(count, self.sent)
        places = flat - np.arange(count)[:, None] * self.width
        if self.bitmap:
            return places
        places -= np.arange(self.sent)
        if self.low:
            low = unpack_bits(raw[split:], count * self.sent, self.low)
            places = (places << self.low) | low.reshape(count, self.sent)
        if (places[:, 1:] <= places[:, :-1]).any():
            raise ContainerError("A chunk's indices don't ascend.")
        highest = int(places[:, -1].max(initial=0))
        if highest >= self.size:
            raise ContainerError(f"An index names number {highest} of only {self.size}.")
        return places


@lru_cache(maxsize=4096)
def place_code(size: int, sent: int) -> PlaceCode:
    """The shortest code for `sent` of `size` places, 1 <= sent <= size."""
    if sent == size:
        return PlaceCode(size, sent, 0, 0, True)
    codes = [PlaceCode(size, sent, 0, size, True)]
    for low in range(max(1, (size - 1).bit_length())):
        codes.append(PlaceCode(size, sent, low, sent + ((size - 1) >> low), False))
    return min(codes, key=lambda code: code.bits)


def _flags(raw: Raw, count: int) -> NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
    if bits[count:].any():
        raise ContainerError("The payload has spare bits that are not zero.")
    return bits[:count].view(np.bool_)
