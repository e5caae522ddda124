# SPDX-License-Identifier: Apache-2.0
"""A generator of noise that tests can repeat; production never has one."""

from __future__ import annotations

import numpy as np
from numpy.random import Philox
from numpy.typing import NDArray


class Seeded:
    """Words of Philox from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._stream = Philox(key=seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.asarray(self._stream.random_raw(count), dtype=np.uint64)
