# SPDX-License-Identifier: Apache-2.0
"""Checks a stranger's payload byte by byte, before any of it reaches torch.

The job's model and codec fix every tensor name, dtype, shape and offset, so the exact size and
header are known beforehand (`agents.mechanisms.codec.parts.container`). What is left to check are
the numbers: each must be finite, and an F32 below 2^64 in magnitude. The latter keeps every sum the
merge rules form, and the update itself, finite; no step of training is anywhere near it. Every
failure is a PayloadError with a sentence that can stand in a report; no other exception leaves this
file, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from agents.mechanisms.codec import Codec, Shapes
from agents.mechanisms.codec.parts.container import ContainerError, Layout, unpack
from agents.training.state import PayloadError

# Per float dtype: the unsigned view, the bits without the sign, and the first magnitude refused.
# IEEE magnitudes order like their bits, and infinities and NaNs have the greatest.
_LIMITS: Mapping[str, tuple[str, int, int]] = {
    "F32": ("<u4", 0x7FFFFFFF, (127 + 64) << 23),
    "BF16": ("<u2", 0x7FFF, (127 + 64) << 7),
    "F16": ("<u2", 0x7FFF, 0x7C00),
}
_CHUNK = 1 << 18


def read_payload(data: bytes, codec: Codec, shapes: Shapes, seed: bytes = b"") -> dict[str, Tensor]:
    """The fp32 pseudo-gradient in a stranger's payload, checked; PayloadError says what is wrong.

    `shapes`: the job's model tensors. `seed`: the round's. Result: new CPU tensors of exactly those
    names and shapes, every number finite.
    """
    check_payload(data, codec.layout(shapes), codec.wire_size(shapes))
    try:
        return codec.decode(data, shapes, seed)
    except ValueError as error:
        raise PayloadError(str(error)) from error


def max_payload_bytes(codec: Codec, shapes: Shapes) -> int:
    """Bytes a payload may have: what to allow when fetching it from a store."""
    return codec.wire_size(shapes)


def check_payload(data: bytes, layout: Layout, limit: int) -> None:
    """PayloadError unless `data` is the canonical container of `layout` with finite numbers.

    `limit`: size in bytes above which nothing is looked at.
    """
    if len(data) > limit:
        raise PayloadError(f"The payload has {len(data)} bytes; at most {limit} are allowed.")
    try:
        parts = unpack(data, layout)
    except ContainerError as error:
        raise PayloadError(str(error)) from error
    for name, part in parts.items():
        dtype = layout[name][0]
        if dtype in _LIMITS:
            check_numbers(name, dtype, part)


def check_numbers(name: str, dtype: str, part: memoryview) -> None:
    """PayloadError for a number that is not finite or too large. `dtype`: F32, BF16 or F16."""
    view, mask, refused = _LIMITS[dtype]
    bits = np.frombuffer(part, view)
    for start in range(0, bits.size, _CHUNK):
        bad = (bits[start : start + _CHUNK] & mask) >= refused
        if bad.any():
            raise PayloadError(
                f"Tensor {name!r} holds a number at index {start + int(bad.argmax())} that is "
                "not finite or is far too large."
            )
