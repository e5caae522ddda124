# SPDX-License-Identifier: Apache-2.0
"""A row of magnitudes is written with two numbers: the mean of its smaller and of its larger ones.

Of the k - 1 ways to split the sorted row, the one of least squared error is taken: with s smaller
numbers whose sum is a, of k whose sum is t, that is the greatest a^2 / s + (t - a)^2 / (k - s).
So one pass finds what Lloyd's iteration may miss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.vector import Vector


def two_levels(magnitudes: NDArray[np.float32]) -> tuple[Vector, NDArray[np.bool_]]:
    """float64 [rows, 2], low and high, and which numbers are said as high: bool [rows, k].

    Of a row that isn't split, such as one of equal numbers, both are the mean and nothing is high.
    """
    rows, count = magnitudes.shape
    ordered = np.sort(magnitudes, axis=1)
    # cumsum adds one by one, so the sums have one order everywhere.
    sums = np.cumsum(ordered, axis=1, dtype=np.float64)
    total = sums[:, -1:]
    levels = np.repeat(total / count, 2, axis=1)
    if count == 1:
        return levels, np.zeros(magnitudes.shape, np.bool_)
    smaller = np.arange(1.0, count)
    below = sums[:, :-1]
    gain = below * below / smaller + np.square(total - below) / (count - smaller)
    split = gain.argmax(axis=1)
    every = np.arange(rows)
    upper = magnitudes > ordered[every, split][:, None]
    parted = upper.any(axis=1)
    first, sent = below[every, split][parted], split[parted] + 1.0
    levels[parted, 0] = first / sent
    levels[parted, 1] = (total[parted, 0] - first) / (count - sent)
    return levels, upper
