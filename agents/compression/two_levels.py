# SPDX-License-Identifier: Apache-2.0
"""The rule: a row of magnitudes is said with two numbers, the means of its smaller and its larger.

Lloyd's iteration (S. Lloyd, "Least squares quantization in PCM", 1982) on many rows at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.compression.vector import Vector

_STEPS = 8


def two_levels(magnitudes: NDArray[np.float32]) -> tuple[Vector, NDArray[np.bool_]]:
    """float64 [rows, 2], low and high, and which numbers are nearer to high: bool [rows, k].

    Rows of equal numbers have two equal levels and nothing high.
    """
    # cumsum adds one by one, so the sums have one order everywhere.
    ordered = np.sort(magnitudes, axis=1).astype(np.float64)
    sums = np.cumsum(ordered, axis=1)
    total, count = sums[:, -1], magnitudes.shape[1]
    levels = np.repeat(total[:, None] / count, 2, axis=1)
    middle = levels[:, 0].copy()
    active = np.arange(len(ordered))
    for _ in range(_STEPS):
        below = np.count_nonzero(ordered[active] <= middle[active, None], axis=1)
        flat = (below == 0) | (below == count)
        middle[active[flat]] = np.inf
        levels[active[flat]] = (total[active[flat]] / count)[:, None]
        active, below = active[~flat], below[~flat]
        first = sums[active, below - 1]
        levels[active, 0] = first / below
        levels[active, 1] = (total[active] - first) / (count - below)
        middle[active] = (levels[active, 0] + levels[active, 1]) / 2
    return levels, magnitudes > middle[:, None]
