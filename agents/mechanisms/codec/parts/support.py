# SPDX-License-Identifier: Apache-2.0
"""Which numbers a sparse payload moves, and in which direction, without magnitudes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Support:
    """The numbers that a payload sends, in the codec's own numbering, and their signs.

    Attributes:
        places: int64 [n], ascending without repetition, not negative.
        negative: bool [n], which of them are below zero.
    """

    places: NDArray[np.int64]
    negative: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """ValueError unless both have the shapes, dtypes and order stated above."""
        places, negative = self.places, self.negative
        if places.ndim != 1 or places.dtype != np.int64:
            raise ValueError("A support's places must be a list of int64.")
        if negative.shape != places.shape or negative.dtype != np.bool_:
            raise ValueError("A support needs one sign, a bool, per place.")
        if places.size and (places[0] < 0 or not (np.diff(places) > 0).all()):
            raise ValueError("A support's places must ascend from 0 or more.")

    @property
    def size(self) -> int:
        """n."""
        return int(self.places.size)
