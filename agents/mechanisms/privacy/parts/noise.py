# SPDX-License-Identifier: Apache-2.0
"""Privacy noise from the system's secret randomness, without telling low bits.

Words are read from `os.urandom` as they are needed: no key and no seed exists that could be stored,
published or asked for. A production caller can't pass a torch or numpy generator; tests inject
their own `Generator`.

Floating-point Gaussians are not real Gaussians. Their low bits, after an addition, tell which value
the noise was added to (Mironov 2012, "On significance of the least significant bits for
differential privacy", for Laplace; Jin et al. 2022, "Are we there yet?", for Gaussian). So the sum
is rounded to a grid that depends on sigma only: the power of two in (sigma/2048, sigma/1024]. Each
grid point collects about 2^40 float64 values of the noise, so its probability is that of the
rounded real-valued mechanism to a relative 1e-9 or so wherever noise has a chance to fall, and
rounding is post-processing. The fp32 result is exact on this grid, so that the cast carries nothing
either. Beyond 9.4 sigma no draw falls; that has probability 1e-20 a coordinate and belongs to
delta.

Box-Muller has no rejection and no branch on the value, so the time taken tells nothing of the
noise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.privacy.parts import options

_CHUNK = 1 << 18  # Even; values per pass.
_GRID_BITS = 10
_EXACT = 2.0**24  # fp32 holds every integer up to here.
TAIL = 10.0  # Above the largest draw, sqrt(2 ln 2^65) = 9.49.


class Generator(Protocol):
    """A source of secret, uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` fresh words, uint64 [count]."""
        ...


class SecretGenerator:
    """The operating system's cryptographic generator; it has no state here and can't be seeded."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` fresh words, uint64 [count]."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def normals(count: int, rng: Generator) -> NDArray[np.float64]:
    """`count` independent standard normals, float64 [count] (Box & Muller 1958)."""
    half = (count + 1) // 2
    words = rng.words(2 * half)
    if words.dtype != np.uint64 or words.shape != (2 * half,):
        raise ValueError(f"The generator must give uint64 words of shape [{2 * half}].")
    # All 64 bits in the radius, or draws would end at 8.6 sigma.
    radius = np.sqrt(-2.0 * np.log((words[:half].astype(np.float64) + 0.5) * 2.0**-64))
    angle = (words[half:] >> np.uint64(11)).astype(np.float64) * (2.0 * math.pi * 2.0**-53)
    pairs: NDArray[np.float64] = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return pairs[:count]


def grid(sigma: float) -> float:
    """Spacing of released values: the power of two in (sigma/2048, sigma/1024]."""
    return 2.0 ** (math.floor(math.log2(sigma)) - _GRID_BITS)


def noised(values: NDArray[np.floating[Any]], sigma: float, rng: Generator) -> NDArray[np.float32]:
    """`values` [n], fp32 or float64, + N(0, sigma^2), rounded to `grid(sigma)`, fp32 [n].

    ValueError if |value| > 8,000 sigma somewhere or sigma is not within 1e-30..1e30: such a value
    is not exact in fp32 on this grid (and next to it the noise protects nothing).
    """
    options.real("sigma", sigma, 1e-30, 1e30)
    step = grid(sigma)
    result = np.empty(values.size, np.float32)
    for start in range(0, values.size, _CHUNK):
        part = values[start : start + _CHUNK].astype(np.float64)
        if part.size and not np.abs(part).max() + TAIL * sigma < _EXACT * step:
            raise ValueError(
                f"A value is too large for noise of {sigma:g}: clip the update to less than "
                f"{_EXACT * step - TAIL * sigma:g} first."
            )
        part += sigma * normals(part.size, rng)
        result[start : start + _CHUNK] = np.rint(part / step) * step
    return result


def add(update: Mapping[str, Tensor], sigma: float, rng: Generator | None) -> dict[str, Tensor]:
    """A clipped fp32 update with independent noise of deviation `sigma` on every coordinate.

    `rng`: None for the operating system's randomness. TypeError for a torch or numpy generator.
    """
    source = SecretGenerator() if rng is None else rng
    if not callable(getattr(source, "words", None)):
        raise TypeError(
            f"Privacy noise needs secret randomness; a {type(source).__name__} can be replayed by "
            "whoever learns its seed. Pass None."
        )
    return {
        name: torch.from_numpy(
            noised(tensor.detach().cpu().reshape(-1).numpy(), sigma, source)
        ).reshape(tensor.shape)
        for name, tensor in sorted(update.items())
    }
