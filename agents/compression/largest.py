# SPDX-License-Identifier: Apache-2.0
"""The rule: of each row the k largest are taken, and of equals the first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def largest(magnitudes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """int64 [rows, count]: the ascending places of the `count` largest of each row.

    `magnitudes`: [rows, size], none negative, none NaN; 1 <= count <= size.
    """
    rows, size = magnitudes.shape
    if count == size:
        return np.broadcast_to(np.arange(size), (rows, size))
    least = np.partition(magnitudes, size - count, axis=1)[:, size - count, None]
    named = magnitudes >= least
    for row in np.flatnonzero(np.count_nonzero(named, axis=1) > count):
        above = int(np.count_nonzero(magnitudes[row] > least[row]))
        level = np.flatnonzero(magnitudes[row] == least[row])
        named[row, level[count - above :]] = False
    return np.flatnonzero(named).reshape(rows, count) % size
