# SPDX-License-Identifier: Apache-2.0
"""Norms and inner products: float64, in chunks, the same on every machine.

Library reductions change their order with threads and instruction set, and fp32 norms of long
vectors read up to 1 % low. Here a product of two fp32 numbers is exact in float64, products are
added row by row into 256 lanes (an elementwise order nobody may change), and the lanes are added by
`math.fsum`, which rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Payload = Mapping[str, Tensor]
LANES = 256
_CHUNK = 65536  # Elements; a multiple of LANES.


def chunks(*payloads: Payload) -> Iterator[tuple[str, int, list[NDArray[np.float32]]]]:
    """Yield (name, offset, one 1-d fp32 array per payload), names and offsets ascending.

    ValueError if names or shapes differ.
    """
    first = payloads[0]
    for payload in payloads[1:]:
        if {name: t.shape for name, t in payload.items()} != {n: t.shape for n, t in first.items()}:
            raise ValueError("The payloads to compare differ in tensor names or shapes.")
    for name in sorted(first):
        flat = [payload[name].detach().cpu().reshape(-1).numpy() for payload in payloads]
        for offset in range(0, flat[0].size, _CHUNK):
            yield name, offset, [row[offset : offset + _CHUNK] for row in flat]


def lanes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 [256]: element i of a 1-d array is added to lane i mod 256, in ascending i."""
    padded = np.zeros(-(-values.size // LANES) * LANES)
    padded[: values.size] = values
    total: NDArray[np.float64] = padded.reshape(-1, LANES).sum(axis=0)
    return total


def dot(one: Payload, other: Payload) -> float:
    """Inner product over all tensors."""
    total = np.zeros(LANES)
    for _, _, (a, b) in chunks(one, other):
        total += lanes(a.astype(np.float64) * b)
    return math.fsum(total)


def norm(payload: Payload) -> float:
    """L2 norm over all tensors."""
    return math.sqrt(dot(payload, payload))


def distance(one: Payload, other: Payload) -> float:
    """L2 norm of the difference over all tensors."""
    total = np.zeros(LANES)
    for _, _, (a, b) in chunks(one, other):
        gap = a.astype(np.float64) - b
        total += lanes(gap * gap)
    return math.sqrt(math.fsum(total))


def cosine(one: Payload, other: Payload) -> float:
    """Cosine in [-1, 1]; 0 if either is all zeros."""
    scale = norm(one) * norm(other)
    return max(-1.0, min(1.0, dot(one, other) / scale)) if scale else 0.0
