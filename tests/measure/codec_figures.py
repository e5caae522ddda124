# SPDX-License-Identifier: Apache-2.0
"""What a codec costs and keeps, measured on the gradient that it sends."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agents.mechanisms.codec import Codec, Payload, Shapes
from agents.mechanisms.codec.parts.vector import flatten, length, norm, total


@dataclass(frozen=True)
class CodecFigures:
    """One payload's figures.

    Attributes:
        payload: the bytes themselves.
        wire_bytes: their number, header included.
        ratio: bytes of the same tensors in fp32, without any header, over `wire_bytes`.
        cosine: between the update and what was decoded, -1 to 1; 0 if either is all zeros.
        encode_s, decode_s: wall time in seconds.
    """

    payload: bytes
    wire_bytes: int
    ratio: float
    cosine: float
    encode_s: float
    decode_s: float


def measure(
    codec: Codec, gradient: Payload, memory: Payload | None, seed: bytes, shapes: Shapes
) -> CodecFigures:
    """Encode, decode, compare. `gradient`: the true update, without what memory adds.

    The cosine tells how long or far the update is from what was sent: a node may log it, but where
    updates are private it must not be published. ValueError as `codec.encode`.
    """
    began = time.perf_counter()
    payload = codec.encode(gradient, memory, seed)
    encoded = time.perf_counter()
    decoded = codec.decode(payload, shapes, seed)
    ended = time.perf_counter()
    return CodecFigures(
        payload=payload,
        wire_bytes=len(payload),
        ratio=4 * length(shapes) / len(payload),
        cosine=cosine(gradient, decoded),
        encode_s=encoded - began,
        decode_s=ended - encoded,
    )


def cosine(one: Payload, other: Payload) -> float:
    """Cosine of two fp32 dicts in float64, 0 if either is all zeros."""
    a, b = flatten(one, "cosine"), flatten(other, "cosine")
    scale = norm(a) * norm(b)
    return max(-1.0, min(1.0, total(a * b) / scale)) if scale else 0.0
