# SPDX-License-Identifier: Apache-2.0
"""The rule: what a payload says, without how loudly: the numbers it names and their signs.

Two nodes that trained on different data name different numbers. So supports that agree in place and
sign are what a copy looks like, whatever factor the copier put on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Support:
    """The numbers that one payload sends and that are not zero.

    Attributes:
        places: int64 [s], strictly ascending numbers of coordinates (`sparse`) or of DCT
            coefficients (`demo`). Equal places mean the same thing in payloads of one job.
        negative: bool [s], whether the number sent is below zero.
    """

    places: NDArray[np.int64]
    negative: NDArray[np.bool_]
