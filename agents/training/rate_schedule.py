# SPDX-License-Identifier: Apache-2.0
"""The rate of a round: linear warm-up, then a decay to a stated end, by name.

A round's rate is part of what a verifier does again, so every machine must get the same bits. Only
the four basic operations in fp64 are used, which IEEE 754 fixes; the C library's cosine differs
from machine to machine. So the cosine is written as a polynomial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

Decay = Literal["linear", "cosine"]

_HALF_PI = 1.5707963267948966
_TERMS = 10


def scheduled(
    rate: float, number: int, rounds: int, warmup: int, decay: Decay, end: float
) -> float:
    """The rate of round `number` of 0..rounds-1 of a job whose peak is `rate`.

    The warm-up's rounds rise in equal steps to the peak, which is round `warmup`. From there it
    falls to `end` times the peak in the last round. A round beyond `rounds` keeps the last value.
    """
    if number < warmup:
        return rate * (number + 1) / (warmup + 1)
    span = max(1, rounds - 1 - warmup)
    progress = min(1.0, (number - warmup) / span)
    return _DECAYS[decay](rate, progress, end)


def _linear(rate: float, progress: float, end: float) -> float:
    return rate * (1.0 - (1.0 - end) * progress)


def _cosine(rate: float, progress: float, end: float) -> float:
    """(1 + cos(pi p)) / 2 is the square of cos(pi p / 2)."""
    half = _cos(_HALF_PI * progress)
    return rate * (end + (1.0 - end) * (half * half))


def _cos(angle: float) -> float:
    """The cosine of 0..pi/2: Taylor's series to the power 20, by Horner; within 4e-16."""
    square = angle * angle
    total = 1.0
    for term in range(_TERMS, 0, -1):
        total = 1.0 - square / (2 * term * (2 * term - 1)) * total
    return total


_DECAYS: Mapping[Decay, Callable[[float, float, float], float]] = {
    "linear": _linear,
    "cosine": _cosine,
}
