# SPDX-License-Identifier: Apache-2.0
"""Small numbers are packed bit by bit, lowest bit first; spare bits are zero.

Every codec's payload but the dense one's is one container tensor, the U8 array `q`.
"""

from __future__ import annotations

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
    columns = values.astype("<u2").view(np.uint8).reshape(-1, 2)
    bits = np.unpackbits(columns, axis=1, count=width, bitorder="little")
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_bits(raw: Raw, count: int, width: int) -> Codes:
    """uint16 [count] of `packed_bytes(count, width)` bytes; ContainerError for a spare bit set."""
    bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
    if bits[count * width :].any():
        raise ContainerError("The payload's last byte has spare bits that are not zero.")
    columns = np.packbits(bits[: count * width].reshape(-1, width), axis=1, bitorder="little")
    values = np.zeros((count, 2), np.uint8)
    values[:, : columns.shape[1]] = columns
    return values.view("<u2").reshape(-1).astype(np.uint16)


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
