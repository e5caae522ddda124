# SPDX-License-Identifier: Apache-2.0
"""The search for the largest numbers of each chunk in C++ (`agents.mechanisms.built`).

`largest.py` reads a piece of the model several times, one library operation after the other.
`largest.cpp` reads each chunk once, adds the memory to it and finds the numbers while the chunk
lies in the cache. Magnitudes are compared as integers and sums are single fp32 additions, so both
ways name the same places and give the same values.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.built import Built, Library
from agents.mechanisms.codec.parts.largest import NOT_FINITE, largest

Found = tuple[NDArray[np.int64], NDArray[np.float32]]


def largest_of(library: Library, chunks: Tensor, more: Tensor | None, count: int) -> Found:
    """Places, ascending, and values of the `count` largest of each chunk: [chunks, count] each.

    Args:
        library: what `CODE.get` gave.
        chunks: fp32 CPU [down, height, across, width], a view whose last dimension is dense.
        more: what is added to it: as large, with the same strides.
        count: 1 to height * width.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    down, height, across, width = chunks.shape
    _check_view(chunks, more, count)
    places = np.empty((down * across, count), np.int64)
    values = np.empty((down * across, count), np.float32)
    done = library.largest(
        chunks.data_ptr(), None if more is None else more.data_ptr(), *chunks.stride()[:3],
        down, across, height, width, count, places.ctypes.data, values.ctypes.data,
    )  # fmt: skip
    if done < 0:
        raise ValueError(NOT_FINITE)
    if not done:
        raise MemoryError("there is no memory for one chunk of a model")
    return places, values


def _check_view(chunks: Tensor, more: Tensor | None, count: int) -> None:
    """What the code relies on, and cannot see from pointers. AssertionError: a caller is wrong."""
    assert chunks.dtype == torch.float32
    assert chunks.device.type == "cpu"
    assert chunks.stride(3) == 1 or chunks.shape[3] == 1
    assert more is None or (more.stride(), more.shape) == (chunks.stride(), chunks.shape)
    assert more is None or (more.dtype, more.device) == (chunks.dtype, chunks.device)
    assert 1 <= count <= chunks.shape[1] * chunks.shape[3]


def _check(library: Library) -> None:
    """Compare with `largest` on blocks with equal numbers, zeros of both signs and ragged ends."""
    numbers = torch.arange(2 * 33 * 2 * 37, dtype=torch.float32).mul_(7).remainder_(601).sub_(300)
    chunks, more = numbers.view(2, 33, 2, 37), numbers.flip(0).view(2, 33, 2, 37)
    for added in (None, more):
        total = chunks if added is None else chunks + added
        table = total.permute(0, 2, 1, 3).reshape(4, -1)
        for count in (1, 19, table.shape[1]):
            places, values = largest_of(library, chunks, added, count)
            wanted = largest(table.abs(), count)
            same = np.array_equal(places, wanted)
            named = np.take_along_axis(table.numpy(), wanted, axis=1)
            if not same or values.tobytes() != named.tobytes():
                raise ArithmeticError("what was built names other numbers")


_POINTER, _LONG = ctypes.c_void_p, ctypes.c_long
CODE = Built(
    Path(__file__).with_name("largest.cpp"),
    {"largest": (_POINTER, _POINTER, *(_LONG,) * 8, _POINTER, _POINTER)},
    pays=1 << 23,
    check=_check,
    what="The search for the largest numbers",
)
