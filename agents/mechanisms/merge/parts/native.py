# SPDX-License-Identifier: Apache-2.0
"""The Gram matrix's inner loop in C++ (`agents.mechanisms.built`).

A library's product packs its matrices for many uses, and of 32 rows each number has few. `gram.cpp`
rounds 128 columns and multiplies all pairs of rows while these lie in the cache. All sums are exact
integers (`gram.py`), so neither the order of additions nor a fused multiply-add can change a bit,
and no caller can tell which code ran.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.built import Built, Library, spread

_MOST = 1 << 22  # columns of one call: int64 sums of 2^8 blocks, each at most 2^52
_LEAST = 1 << 17  # columns that are worth a thread


def inner_products(
    rows: Sequence[Tensor], scales: Sequence[float], centre: int | None
) -> list[list[int]] | None:
    """Exact inner products of rows that were scaled and rounded; None if the code isn't there.

    Args:
        rows: n fp32 rows of one length, 1-d, on the CPU; minus row `centre`, if given.
        scales: a power of two each, by which no number becomes larger than 2^19.

    Returns:
        n by n, of which only columns from the diagonal on are meant.
    """
    library = CODE.get()
    if library is None or any(row.device.type != "cpu" for row in rows):
        return None
    plain = [row.contiguous() for row in rows]
    factors = np.array(scales, np.float32)

    def part(columns: slice) -> list[list[int]] | None:
        return _call(
            library, [row[columns] for row in plain], factors, -1 if centre is None else centre
        )

    found = spread(plain[0].numel(), part, _LEAST, _MOST)
    totals = [[0] * len(rows) for _ in rows]
    for piece in found:
        if piece is None:
            return None
        totals = [
            [old + new for old, new in zip(*both, strict=True)]
            for both in zip(totals, piece, strict=True)
        ]
    return totals


def _check(library: Library) -> None:
    """Compare with numpy's integers on rows with ties to round and a ragged end.

    13 rows have all kinds of tiles: 4 by 3 and 4 by 2, beside the diagonal and far from it.
    """
    halves = np.arange(-13 * 601, 13 * 601, 2).reshape(13, 601)[:, ::-1] / np.float64(2)
    rows = [torch.from_numpy(row.astype(np.float32)) for row in halves]
    scales = np.array([1, 2, 0.5, 1, 64, 1, 0.25, 8, 1, 64, 0.5, 4, 1], np.float32)
    for centre in (-1, 3):
        moved = halves - halves[centre] if centre >= 0 else halves
        whole = np.rint(moved * scales[:, None].astype(np.float64)).astype(np.int64)
        found = np.array(_call(library, rows, scales, centre) or [[]])
        if not np.array_equal(np.triu(found), np.triu(whole @ whole.T)):
            raise ArithmeticError("what was built gives other integers")


def _call(
    library: Library, rows: Sequence[Tensor], scales: NDArray[np.float32], centre: int
) -> list[list[int]] | None:
    count = len(rows)
    totals = np.zeros((count, count), np.int64)
    pointers = (ctypes.c_void_p * count)(*[row.data_ptr() for row in rows])
    columns = rows[0].numel()
    done = library.inner_products(
        pointers, scales.ctypes.data, count, centre, columns, totals.ctypes.data
    )
    found: list[list[int]] = totals.tolist()
    return found if done else None


_POINTER, _LONG = ctypes.c_void_p, ctypes.c_long
CODE = Built(
    Path(__file__).with_name("gram.cpp"),
    {"inner_products": (_POINTER, _POINTER, _LONG, _LONG, _LONG, _POINTER)},
    pays=1 << 24,
    check=_check,
    what="The inner products' code",
)
