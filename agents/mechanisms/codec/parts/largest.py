# SPDX-License-Identifier: Apache-2.0
"""Finds the k largest of each row; of equal ones the first.

Sorting rows of thousands for a hundredth of them is waste. The k-th largest of the maxima of 4 k
groups is a bound that at least k numbers reach and few more; only those are looked at closely.
`largest.cpp` does the same to one row after the other (`native.py`).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NOT_FINITE = "The gradient holds NaN or infinity; nothing can be encoded."
_GROUPS = 4  # per number wanted
_SHORT = 512
_CROWD = 4  # numbers per number wanted above which a row is partitioned as a whole


def largest(
    magnitudes: Tensor, count: int, scratch: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """int64 [rows, count]: the ascending places of the `count` largest of each row.

    `magnitudes`: fp32 CPU [rows, size], contiguous, none negative; 1 <= count <= size. `scratch`,
    if given, is overwritten: bool, as long. ValueError if a number is NaN or infinite.
    """
    rows, size = magnitudes.shape
    maxima = _maxima(magnitudes, count)
    table, bounds = magnitudes.numpy(), maxima.numpy()
    if not np.isfinite(bounds.max(axis=1)).all():
        raise ValueError(NOT_FINITE)
    if count == size:
        return np.tile(np.arange(size), (rows, 1))
    least = np.sort(bounds, axis=1)[:, bounds.shape[1] - count]
    crowded = least == 0
    marks = None if scratch is None else scratch[: table.size].reshape(table.shape)
    marks = np.greater_equal(table, np.where(crowded, np.inf, least)[:, None], out=marks)
    named = np.flatnonzero(marks)
    owner = named // size
    found = np.bincount(owner, minlength=rows)
    many = found > _CROWD * count
    if many.any():
        crowded |= many
        kept = ~many[owner]
        named, owner = named[kept], owner[kept]
        found[many] = 0
    places = np.empty((rows, count), np.int64)
    plain = np.flatnonzero(~crowded)
    if plain.size:
        starts = np.cumsum(found) - found
        widest = int(found.max())
        closer = np.full((rows, widest), -1, np.float32)
        column = np.arange(named.size) - starts[owner]
        closer[owner, column] = table.reshape(-1)[named]
        where = np.zeros((rows, widest), np.int64)
        where[owner, column] = named - owner * size
        chosen = _ordered(closer[plain], count)
        places[plain] = np.take_along_axis(where[plain], chosen, axis=1)
    for row in np.flatnonzero(crowded):
        places[row] = _ordered(table[row : row + 1], count)[0]
    return places


def _maxima(magnitudes: Tensor, count: int) -> Tensor:
    """fp32 [rows, g]: maxima of g >= count groups that together are the row."""
    rows, size = magnitudes.shape
    groups = size
    while groups % 2 == 0 and groups // 2 >= _GROUPS * count:
        groups //= 2
    if groups == size:
        return magnitudes
    return torch.amax(magnitudes.view(rows, size // groups, groups), dim=1)


def _ordered(magnitudes: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """`largest` by ordering each row."""
    rows, size = magnitudes.shape
    # numpy's sort is the faster of the two on short rows.
    if size <= _SHORT:
        least = np.sort(magnitudes, axis=1)[:, size - count, None]
    else:
        least = np.partition(magnitudes, size - count, axis=1)[:, size - count, None]
    named = magnitudes >= least
    for row in np.flatnonzero(np.count_nonzero(named, axis=1) > count):
        above = int(np.count_nonzero(magnitudes[row] > least[row]))
        level = np.flatnonzero(magnitudes[row] == least[row])
        named[row, level[count - above :]] = False
    return np.flatnonzero(named).reshape(rows, count) % size
