# SPDX-License-Identifier: Apache-2.0
"""How far numbers would have to move before a codec said something else of them.

A codec decides: which numbers are the largest, which level is the nearest. Two machines whose
numbers differ by rounding decide differently only where a number lies at the edge. Each function
here gives the least length of a move after which a decision comes out as stated, or a lower bound
of it. Costs of different decisions are not added up, because one move may serve several.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
_HALF_ULP = 2.0**-8  # of a BF16 number, at most, relative


def swapped(
    own_places: NDArray[np.int64],
    own: Numbers,
    places: NDArray[np.int64],
    named: Numbers,
    size: int,
) -> float:
    """Of the k largest of each row others are named: rows [count, k] of places and magnitudes.

    Each number that is named must reach one that is not, so two of them meet halfway.
    """
    rows = np.arange(len(places))[:, None] * size
    ours, theirs = (rows + own_places).reshape(-1), (rows + places).reshape(-1)
    left = ~np.isin(ours, theirs)
    came = ~np.isin(theirs, ours)
    over = _by_row(ours[left] // size, own.reshape(-1)[left])
    under = _by_row(theirs[came] // size, named.reshape(-1)[came])
    gaps = np.maximum(over - under, 0.0)
    return float(np.sqrt(np.square(gaps).sum() / 2))


def _by_row(rows: NDArray[np.int64], magnitudes: Numbers) -> Numbers:
    found: Numbers = magnitudes[np.lexsort((magnitudes, rows))]
    return found


def crossed(values: Numbers, negative: NDArray[np.bool_]) -> float:
    """Numbers are said to have this sign: those of the other one must reach 0."""
    wrong = np.where(negative, values > 0, values < 0)
    return float(np.sqrt(np.square(values[wrong]).sum()))


def means(own: Numbers, said: Numbers, counts: Numbers, gain: float) -> float:
    """Means of `counts` numbers, times `gain`, are said as BF16 numbers."""
    off = np.maximum(np.abs(own - said) - np.abs(said) * _HALF_ULP, 0.0) / gain
    return float(np.sqrt((counts * np.square(off)).sum()))


def worse(best: Numbers, said: Numbers) -> float:
    """Of each row the best of several descriptions is taken, by a length that moves no faster than
    the row itself; `said` is that of the one taken. Both lengths meet halfway."""
    gaps = np.maximum(best - said, 0.0) / 2
    return float(np.sqrt(np.square(gaps).sum()))


def outside(values: Numbers, low: Numbers, high: Numbers) -> float:
    """Numbers are said to lie between bounds."""
    off = np.maximum(np.maximum(low - values, values - high), 0.0)
    return float(np.sqrt(np.square(off).sum()))
