# SPDX-License-Identifier: Apache-2.0
"""Small numbers are packed bit by bit, lowest bit first; spare bits are zero.

Every codec's payload but the dense one's is one container tensor, the U8 array `q`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.container import ContainerError, Layout, pack, size, unpack

Codes = NDArray[np.uint16]
Raw = bytes | memoryview
SMALLEST_BF16 = 0x0080  # normal, 2^-126


def packed_bytes(count: int, width: int) -> int:
    """Bytes that `count` numbers of `width` bits take."""
    return -(-count * width // 8)


def pack_bits(values: NDArray[np.integer[Any]], width: int) -> bytes:
    """Numbers in [0, 2^width) of a 1-d array, width 1..16, bit i of number n at n * width + i."""
    alike, step = _period(width)
    rows = -(-values.size // alike)
    padded = np.zeros(rows * alike, np.uint32)
    padded[: values.size] = values
    data = np.zeros((rows, step), np.uint8)
    for i in range(alike):
        first, shift = divmod(i * width, 8)
        column = padded[i::alike] << np.uint32(shift)
        for j in range(-(-(shift + width) // 8)):
            data[:, first + j] |= (column >> np.uint32(8 * j)).astype(np.uint8)
    return data.reshape(-1)[: packed_bytes(values.size, width)].tobytes()


def unpack_bits(raw: Raw, count: int, width: int) -> Codes:
    """uint16 [count] of `packed_bytes(count, width)` bytes; ContainerError for a spare bit set."""
    data = np.frombuffer(raw, np.uint8)
    spare = 8 * data.size - count * width
    if spare and data[-1] >> (8 - spare):
        raise ContainerError("The payload's last byte has spare bits that are not zero.")
    alike, step = _period(width)
    rows = -(-count // alike)
    padded = np.zeros(rows * step, np.uint8)
    padded[: data.size] = data
    values = np.empty((rows, alike), np.uint16)
    for i in range(alike):
        first, shift = divmod(i * width, 8)
        column = np.zeros(rows, np.uint32)
        for j in range(-(-(shift + width) // 8)):
            column |= padded[first + j :: step].astype(np.uint32) << np.uint32(8 * j)
        values[:, i] = (column >> np.uint32(shift)) & np.uint32((1 << width) - 1)
    return values.reshape(-1)[:count]


def _period(width: int) -> tuple[int, int]:
    """After how many numbers one begins at a byte again, and how many bytes these take."""
    alike = 8 // math.gcd(8, width)
    return alike, alike * width // 8


def layout_of(nbytes: int) -> Layout:
    """The container of one byte array."""
    return {"q": ("U8", (nbytes,))}


def wrap(raw: bytes) -> bytes:
    """The payload that holds these bytes."""
    return pack(layout_of(len(raw)), {"q": raw})


def unwrap(data: bytes, nbytes: int) -> memoryview:
    """The bytes in a payload; ContainerError unless it is the container of `nbytes` bytes."""
    return unpack(data, layout_of(nbytes))["q"]


def wrapped_size(nbytes: int) -> int:
    """Size in bytes of the payload of `nbytes` bytes."""
    return size(layout_of(nbytes))


def read_scale(raw: Raw, limit: float) -> float:
    """A little-endian fp32 from 0 to `limit`; ContainerError for another, or for -0.0."""
    value = np.frombuffer(raw, "<f4")[0]
    if not 0.0 <= value <= limit or np.signbit(value):
        raise ContainerError(f"The payload's scale is {float(value)!r}, not from 0 to {limit:g}.")
    return float(value)


def to_bf16(values: NDArray[np.floating[Any]]) -> NDArray[np.uint16]:
    """Bits of numbers from 0 to below 2^127, rounded to BF16, ties away from zero; subnormal: 0."""
    bits = values.astype("<f4").view("<u4")
    short = ((bits + np.uint32(0x8000)) >> np.uint32(16)).astype("<u2")
    return np.where(short < SMALLEST_BF16, np.uint16(0), short).astype("<u2")


def from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The numbers that BF16 bits are."""
    return (bits.astype("<u4") << np.uint32(16)).view("<f4").astype(np.float32)


def read_bf16(raw: Raw, power: int) -> NDArray[np.uint16]:
    """BF16 bits of scales: 0, or normal and below 2^power; ContainerError for another."""
    bits = np.frombuffer(raw, "<u2")
    if ((bits >= (127 + power) << 7) | ((bits > 0) & (bits < SMALLEST_BF16))).any():
        raise ContainerError("A chunk's scale is negative, not finite, tiny or far too large.")
    return bits
