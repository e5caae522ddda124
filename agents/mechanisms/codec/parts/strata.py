# SPDX-License-Identifier: Apache-2.0
"""One number is drawn from each of k equal strata of a row: a part of it that is spread evenly.

The draw is public: it follows from a seed, and who knows that sends no places.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.vector import words


def drawn(
    count: int, k: int, seed: bytes, purpose: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places below `count`, ascending, and the sizes of their strata: int64 [k] each."""
    base, extra = divmod(count, k)
    number = np.arange(k, dtype=np.int64)
    sizes = base + (number < extra).astype(np.int64)
    offsets = (words(seed, purpose, k) % sizes.astype(np.uint64)).astype(np.int64)
    return number * base + np.minimum(number, extra) + offsets, sizes
