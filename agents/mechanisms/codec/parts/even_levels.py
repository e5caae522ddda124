# SPDX-License-Identifier: Apache-2.0
"""A row of magnitudes is written as whole multiples, from 1 to `top`, of one BF16 step.

The row's largest is always written as `top`, so that a row has one spelling. With many levels the
step is the largest over `top`. With few (up to 8) a shorter one is better, as most magnitudes lie
far below the largest: of 16 steps the one of least squared error is taken; with one level, the
mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.bits import from_bf16, to_bf16

_FEW = 8
_TRIED = 16


def even_levels(
    magnitudes: NDArray[np.float32], top: int, limit: float
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """BF16 steps [rows] and levels [rows, k], 0 where the step is 0.

    OverflowError if a step is not below `limit`, which is at most 2^126.
    """
    widest = magnitudes.max(axis=1) / np.float32(top)
    if not (widest < limit).all():
        raise OverflowError("A magnitude is far too large.")
    if top == 1:
        means = np.cumsum(magnitudes, axis=1, dtype=np.float64)[:, -1] / magnitudes.shape[1]
        steps = to_bf16(means)
    else:
        steps = to_bf16(widest)
    levels = _rounded(magnitudes, steps, top)
    if 1 < top <= _FEW:
        least = _errors(magnitudes, steps, levels)
        for number in range(1, _TRIED):
            tried = to_bf16(widest * np.float32(1 - number / _TRIED))
            found = _rounded(magnitudes, tried, top)
            error = _errors(magnitudes, tried, found)
            better = (error < least) & (tried > 0)
            steps[better], levels[better], least[better] = (
                tried[better],
                found[better],
                error[better],
            )
    levels[np.arange(len(levels)), magnitudes.argmax(axis=1)] = top
    levels[steps == 0] = 0
    return steps, levels.astype(np.int64)


def _rounded(
    magnitudes: NDArray[np.float32], steps: NDArray[np.uint16], top: int
) -> NDArray[np.float32]:
    step = np.where(steps > 0, from_bf16(steps), np.float32(1))
    levels = np.rint(magnitudes / step[:, None])
    return np.asarray(np.clip(levels, 1, top, out=levels))


def _errors(
    magnitudes: NDArray[np.float32], steps: NDArray[np.uint16], levels: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Squared error of each row, in units of its largest magnitude."""
    unit = np.maximum(magnitudes.max(axis=1), np.float32(1e-38))[:, None]
    off = (magnitudes - levels * from_bf16(steps)[:, None]) / unit
    return np.asarray(np.square(off, dtype=np.float64).sum(axis=1))
