# SPDX-License-Identifier: Apache-2.0
"""A gradient as one float64 vector: its tensors in the order of their names.

Sums here have one order on every machine: 256 lanes are added row by row, elementwise, and
`math.fsum` adds the lanes, rounding once. Random words are the raw stream of numpy's Philox, which
numpy guarantees, keyed by a public seed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Vector = NDArray[np.float64]
Words = NDArray[np.uint64]
_LANES = 256


def length(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """d: how many numbers tensors of these shapes hold; ValueError if none."""
    total = sum(math.prod(shape) for shape in shapes.values())
    if total < 1:
        raise ValueError("A codec needs at least one number; these shapes hold none.")
    return total


def flatten(gradient: Mapping[str, Tensor], codec: str) -> Vector:
    """float64 [d] of an fp32 dict on any device.

    ValueError, naming the codec, if a tensor is not fp32 or holds NaN or infinity.
    """
    parts = []
    for name in sorted(gradient):
        tensor = gradient[name]
        if tensor.dtype != torch.float32:
            raise ValueError(f"Tensor {name!r} is {tensor.dtype}; the {codec} codec needs float32.")
        parts.append(tensor.detach().cpu().reshape(-1).numpy())
    if not sum(part.size for part in parts):
        raise ValueError("A codec needs at least one number; this gradient holds none.")
    vector: Vector = np.concatenate(parts).astype(np.float64)
    if not np.isfinite(vector).all():
        raise ValueError("The gradient holds NaN or infinity; nothing can be encoded.")
    return vector


def split(vector: Vector, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """New fp32 CPU tensors of a float64 [d]: one rounding a number, zeros made +0.0."""
    single = (vector + 0.0).astype(np.float32)
    tensors = {}
    start = 0
    for name in sorted(shapes):
        stop = start + math.prod(shapes[name])
        tensors[name] = torch.from_numpy(single[start:stop].copy()).reshape(shapes[name])
        start = stop
    return tensors


def zeros(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """New fp32 CPU tensors of zeros, by name.

    numpy asks the system for huge pages where it fills what it allocates. Neither its own zeros nor
    PyTorch's do, and small pages, one by one, cost more time than decoding takes.
    """
    return {name: torch.from_numpy(np.full(shape, 0, "<f4")) for name, shape in shapes.items()}


def add(one: Mapping[str, Tensor], other: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """one + other, one fp32 addition a number; `other` None counts as zeros."""
    if other is None:
        return dict(one)
    return {name: one[name].cpu() + other[name].cpu() for name in one}


def left(
    one: Mapping[str, Tensor],
    other: Mapping[str, Tensor] | None,
    said: Mapping[str, Tensor],
    decay: float,
) -> dict[str, Tensor]:
    """decay * (one + other - said), one fp32 operation each, as new tensors."""
    kept = {}
    for name, tensor in one.items():
        if other is None:
            rest = tensor.cpu() - said[name]
        else:
            rest = (tensor.cpu() + other[name].cpu()).sub_(said[name])
        kept[name] = rest.mul_(decay)
    return kept


def total(values: Vector) -> float:
    """Sum of a 1-d array in the fixed order."""
    padded = np.zeros(-(-values.size // _LANES) * _LANES)
    padded[: values.size] = values
    return math.fsum(padded.reshape(-1, _LANES).sum(axis=0))


def norm(vector: Vector) -> float:
    """L2 norm in float64."""
    return math.sqrt(total(vector * vector))


def words(seed: bytes, purpose: str, count: int) -> Words:
    """The first `count` uint64 words of Philox keyed by sha256(seed || purpose)."""
    key = hashlib.sha256(b"menagerie/codec/v1" + seed + purpose.encode()).digest()[:16]
    return np.asarray(np.random.Philox(key=int.from_bytes(key, "little")).random_raw(count))


def signs(seed: bytes, purpose: str, count: int) -> Vector:
    """float64 [count] of -1.0 and 1.0: the words' bits, the lowest first."""
    raw = words(seed, purpose, -(-count // 64)).astype("<u8").view(np.uint8)
    bits = np.unpackbits(raw, count=count, bitorder="little")
    return bits.astype(np.float64) * 2.0 - 1.0
