# SPDX-License-Identifier: Apache-2.0
"""A sorted list of places is coded by the gaps between them, a few bits each (Golomb-Rice).

Golomb, "Run-length encodings" (IEEE Trans. Inf. Theory 12, 1966); Rice, "Some practical universal
noiseless coding techniques" (JPL 79-22, 1979). The gap g = place - previous place - 1 is cut into
g mod 2^k, in k bits, and g div 2^k, in unary: that many zeros and a one. All remainders come first,
then all unary codes, so that both are read without a loop; k is the one of 0..16 that takes the
fewest bytes, of equals the least. Within a few hundredths of a bit of the entropy where places are
independent of each other, at any density.

Layout, little-endian: count u64, k u8, bytes of the unary codes u64, remainders, unary codes.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.bits import pack_bits, packed_bytes, unpack_bits
from agents.mechanisms.codec.parts.container import ContainerError

_HEAD = struct.Struct("<QBQ")
_MAX_K = 16

Places = NDArray[np.int64]


def pack_gaps(places: Places) -> bytes:
    """The coding of int64 places, ascending and not negative."""
    gaps = np.diff(places, prepend=-1) - 1
    sizes = [_sizes(gaps, k) for k in range(_MAX_K + 1)]
    k = min(range(_MAX_K + 1), key=lambda k: sum(sizes[k]))
    quotients = gaps >> k
    unary = np.zeros(gaps.size + int(quotients.sum()), np.uint8)
    unary[np.cumsum(quotients + 1) - 1] = 1
    rest = pack_bits(gaps & ((1 << k) - 1), k) if k else b""
    head = _HEAD.pack(gaps.size, k, sizes[k][1])
    return head + rest + np.packbits(unary, bitorder="little").tobytes()


def _sizes(gaps: Places, k: int) -> tuple[int, int]:
    """Bytes of the remainders and of the unary codes."""
    ones_and_zeros = gaps.size + int((gaps >> k).sum())
    return packed_bytes(gaps.size, k), packed_bytes(ones_and_zeros, 1)


def unpack_gaps(raw: memoryview, length: int) -> tuple[Places, int]:
    """(places, bytes read) of a coding at the start of `raw`.

    ContainerError unless it is whole and every place is below `length`. That it is the coding
    which `pack_gaps` gives is for the caller to check, by coding the places again.
    """
    if len(raw) < _HEAD.size:
        raise ContainerError("A list of places ends within its head.")
    count, k, nbytes = _HEAD.unpack_from(raw)
    start = _HEAD.size + packed_bytes(min(count, length), k)
    most = packed_bytes(count + (length >> min(k, _MAX_K)), 1)
    if count > length or k > _MAX_K or nbytes > min(most, len(raw) - start):
        raise ContainerError(
            f"A list claims {count} places of {length} with {k} bits each and {nbytes} bytes of "
            "unary codes, more than there can be."
        )
    rest = unpack_bits(raw[_HEAD.size : start], count, k).astype(np.int64) if k else 0
    codes = np.frombuffer(raw[start : start + nbytes], np.uint8)
    unary = np.unpackbits(codes, bitorder="little")
    if np.count_nonzero(unary) != count:
        raise ContainerError(f"A list of {count} places has {np.count_nonzero(unary)} unary codes.")
    ones = np.flatnonzero(unary)
    quotients = np.diff(ones, prepend=-1) - 1
    places: Places = np.cumsum((quotients << k) + rest + 1) - 1
    if count and places[-1] >= length:
        raise ContainerError(f"A list names place {places[-1]} of only {length}.")
    return places, start + nbytes
