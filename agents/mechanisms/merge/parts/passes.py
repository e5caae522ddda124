# SPDX-License-Identifier: Apache-2.0
"""The passes of a merge that read every number once, in C++ (`agents.mechanisms.built`).

A library takes one payload after the other, and its threads wait for one another at the end of
each short operation, on a busy machine longer than they work. `passes.cpp` goes through all
payloads a thousand columns at a time, and a thread of its own takes a whole share of the columns.
Magnitudes are compared as integers. Of the weighted sum each product is exact, products are added
in the payloads' order, and one division and one rounding follow, as in `combine.py`: so both ways
give the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from agents.mechanisms.built import Built, Library, spread

_LEAST = 1 << 17  # columns that are worth a thread


def largest(rows: Sequence[Tensor], centre: int | None) -> list[float] | None:
    """The largest magnitude of each row, NaN or infinity if it holds one; None without the code.

    Args:
        rows: fp32, of one length, 1-d; minus row `centre`, if given.
    """
    library = _library(rows)
    return None if library is None else _largest(library, rows, centre)


def weighted_sum(
    rows: Sequence[Tensor], weights: Sequence[float], divisor: float, out: Tensor
) -> bool:
    """Write sum_i weights[i] * rows[i] / divisor into `out`; False, and nothing, without the code.

    Args:
        rows: fp32, of one length, 1-d.
        weights: whole numbers below 2^29.
        out: contiguous, as long as a row.
    """
    library = _library([*rows, out])
    if library is not None:
        _weighted_sum(library, rows, weights, divisor, out)
    return library is not None


def _library(rows: Sequence[Tensor]) -> Library | None:
    return CODE.get() if all(row.device.type == "cpu" for row in rows) else None


def _largest(library: Library, rows: Sequence[Tensor], centre: int | None) -> list[float]:
    plain = [row.contiguous() for row in rows]
    middle = -1 if centre is None else centre

    def part(columns: slice) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        found = np.zeros(len(plain), np.float32)
        width = columns.stop - columns.start
        library.largest(_pointers(plain, columns), len(plain), middle, width, found.ctypes.data)
        return found

    parts = spread(plain[0].numel(), part, _LEAST)
    return np.max([np.zeros(len(plain), np.float32), *parts], axis=0).tolist()  # type: ignore[no-any-return]


def _weighted_sum(
    library: Library,
    rows: Sequence[Tensor],
    weights: Sequence[float],
    divisor: float,
    out: Tensor,
) -> None:
    plain = [row.contiguous() for row in rows]
    factors = np.array(weights, np.float64)
    assert len(factors) == len(plain)
    assert out.is_contiguous()
    assert all(row.numel() == out.numel() for row in plain)

    def part(columns: slice) -> None:
        library.weighted_sum(
            _pointers(plain, columns), factors.ctypes.data, len(plain), divisor,
            columns.stop - columns.start, _pointers([out], columns)[0],
        )  # fmt: skip

    spread(out.numel(), part, _LEAST)


def _pointers(rows: Sequence[Tensor], columns: slice) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(rows))(*[row.data_ptr() + 4 * columns.start for row in rows])


def _check(library: Library) -> None:
    """Compare with numpy on rows with a ragged end, zeros of both signs and a NaN."""
    table = (np.arange(3 * 2051) * 7 % 601 - 300).astype(np.float32).reshape(3, 2051)
    table[:, 5] = -0.0
    table[:, 6] = -1e-45, 0.0, 0.0  # of which the sum is rounded to a zero
    rows = [torch.from_numpy(row) for row in table]
    for centre in (None, 1):
        moved = table if centre is None else table - table[centre]
        if _largest(library, rows, centre) != np.abs(moved).max(axis=1).tolist():
            raise ArithmeticError("what was built finds other magnitudes")
    if not np.isnan(_largest(library, [torch.full((9,), np.nan)], None)[0]):
        raise ArithmeticError("what was built does not see a NaN")
    out = torch.empty(2051)
    _weighted_sum(library, rows, [3.0, 0.0, 268435399.0], 7.0, out)
    total = table[0].astype(np.float64) * 3.0 + table[2].astype(np.float64) * 268435399.0
    if out.numpy().tobytes() != ((total / 7.0).astype(np.float32) + np.float32(0)).tobytes():
        raise ArithmeticError("what was built gives another sum")


_POINTER, _LONG, _DOUBLE = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
CODE = Built(
    Path(__file__).with_name("passes.cpp"),
    {
        "largest": (_POINTER, _LONG, _LONG, _LONG, _POINTER),
        "weighted_sum": (_POINTER, _POINTER, _LONG, _DOUBLE, _LONG, _POINTER),
    },
    pays=1 << 24,
    check=_check,
    what="The code that reads payloads side by side",
)
