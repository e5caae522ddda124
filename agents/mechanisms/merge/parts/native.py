# SPDX-License-Identifier: Apache-2.0
"""The Gram matrix's inner loop in C++, built in the background where there is a compiler.

A library's product packs its matrices for many uses, and of 32 rows each number has few. `gram.cpp`
rounds a few hundred columns and multiplies all pairs of rows while these lie in the cache. All sums
are exact integers (`gram.py`), so neither the order of additions nor a fused multiply-add can
change a bit, and no caller can tell which code ran. The code is built once per process, in about
a second, when the first large merge asks for it; until then, without a compiler, or if what was
built fails its check (one warning), callers use a library's product.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.merge.parts import compiled

# Numbers read per merge from which the code is built.
PAYS = 1 << 24
SOURCE = Path(__file__).with_name("gram.cpp")
_OPTIONS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
_BUILD_S = 120
_MOST = 1 << 22  # columns of one call: int64 sums of 2^8 blocks, each at most 2^52
_LEAST = 1 << 17  # columns that are worth a thread

Function = Any
_lock = threading.Lock()
_function: Function | None = None
_asked = False


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
    function = _function
    if function is None or compiled.switched_off() or any(row.device.type != "cpu" for row in rows):
        return None
    plain = [row.contiguous() for row in rows]
    columns, threads = plain[0].numel(), max(1, torch.get_num_threads())
    width = max(_LEAST, min(_MOST, -(-columns // threads)))
    factors = np.array(scales, np.float32)

    def part(start: int) -> list[list[int]] | None:
        taken = [row[start : start + width] for row in plain]
        return _call(function, taken, factors, -1 if centre is None else centre)

    starts = range(0, columns, width)
    if threads == 1 or len(starts) < 2:
        found = [part(start) for start in starts]
    else:
        with ThreadPoolExecutor(threads, "inner-products") as pool:
            found = list(pool.map(part, starts))
    totals = [[0] * len(rows) for _ in rows]
    for piece in found:
        if piece is None:
            return None
        totals = [
            [old + new for old, new in zip(*both, strict=True)]
            for both in zip(totals, piece, strict=True)
        ]
    return totals


def ask(numbers: int) -> None:
    """Start building in the background, if a merge of so many numbers makes it worth it."""
    global _asked
    with _lock:
        if _asked or numbers < PAYS or compiled.switched_off() or compiled.compiler() is None:
            return
        _asked = True
    threading.Thread(target=warm, name="gram-compiler", daemon=True).start()


def warm() -> bool:
    """Build now and wait for it; whether the code is there. For benchmarks and tests."""
    global _function, _asked
    _asked = True
    try:
        _function = _built(SOURCE)
    except (OSError, subprocess.SubprocessError, AttributeError, ArithmeticError) as error:
        _function = None
        said = getattr(error, "stderr", None) or str(error)
        warnings.warn(
            f"The inner products' code could not be built from {SOURCE.name}, so merging goes on "
            f"with a library's, slower and with the same result: {str(said)[:300]}",
            RuntimeWarning,
            stacklevel=2,
        )
    return _function is not None


def _built(source: Path) -> Function:
    """The function, loaded and checked; ArithmeticError if it computes something else."""
    compiler = compiled.compiler()
    if compiler is None:
        raise OSError("there is no C++ compiler")
    with tempfile.TemporaryDirectory(prefix="menagerie-gram-") as folder:
        library = Path(folder) / "gram.so"
        subprocess.run(
            [compiler, *_OPTIONS, "-o", str(library), str(source)],
            check=True, capture_output=True, text=True, timeout=_BUILD_S,
        )  # fmt: skip
        function: Function = ctypes.CDLL(str(library)).inner_products
    function.restype = ctypes.c_int
    function.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_long,
        ctypes.c_void_p,
    ]  # fmt: skip
    _check(function)
    return function


def _check(function: Function) -> None:
    """Compare with numpy's integers on rows with ties to round and a ragged end."""
    halves = np.arange(-7 * 601, 7 * 601, 2).reshape(7, 601)[:, ::-1] / np.float64(2)
    rows = [torch.from_numpy(row.astype(np.float32)) for row in halves]
    scales = np.array([1, 2, 0.5, 1, 64, 1, 0.25], np.float32)
    for centre in (-1, 3):
        moved = halves - halves[centre] if centre >= 0 else halves
        whole = np.rint(moved * scales[:, None].astype(np.float64)).astype(np.int64)
        found = np.array(_call(function, rows, scales, centre) or [[]])
        if not np.array_equal(np.triu(found), np.triu(whole @ whole.T)):
            raise ArithmeticError("what was built gives other integers")


def _call(
    function: Function, rows: Sequence[Tensor], scales: NDArray[np.float32], centre: int
) -> list[list[int]] | None:
    count = len(rows)
    totals = np.zeros((count, count), np.int64)
    pointers = (ctypes.c_void_p * count)(*[row.data_ptr() for row in rows])
    columns = rows[0].numel()
    done = function(pointers, scales.ctypes.data, count, centre, columns, totals.ctypes.data)
    found: list[list[int]] = totals.tolist()
    return found if done else None
