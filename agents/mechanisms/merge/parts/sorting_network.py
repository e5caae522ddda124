# SPDX-License-Identifier: Apache-2.0
"""Sorts rows coordinate by coordinate with minimum and maximum only.

A comparator network has no data-dependent branch and no rounding, so its result has the same bits
on every device, and comparators that the wanted ranks do not depend on are never run. Source:
Batcher's odd-even merge sort (K. E. Batcher, "Sorting networks and their applications", 1968),
pruned backwards from the wanted ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

# Long enough to hide the cost of calling torch and to be split over threads, short enough that the
# scratch rows of 32 payloads stay in a last-level cache (34 x 256 KiB).
CHUNK = 65536

Comparator = tuple[int, int, bool, bool]


def _batcher(count: int) -> Iterator[tuple[int, int]]:
    """Comparators (low, high) that sort `count` rows; padding rows (+inf, on top) are left out."""
    size = 1
    while size < count:
        size *= 2
    block = 1
    while block < size:
        step = block
        while step >= 1:
            for start in range(step % block, size - step, 2 * step):
                for low in range(start, min(start + step, size - step)):
                    high = low + step
                    if low // (2 * block) == high // (2 * block) and high < count:
                        yield low, high
            step //= 2
        block *= 2


@lru_cache(maxsize=64)
def plan(count: int, wanted: tuple[int, ...]) -> tuple[Comparator, ...]:
    """Comparators (low, high, keep minimum, keep maximum) that put the `wanted` ranks in place.

    `count` >= 1 rows; ranks from 0 (the smallest). ValueError for a rank outside 0..count-1.
    """
    if any(not 0 <= rank < count for rank in wanted):
        raise ValueError(f"Ranks {wanted} must lie in 0..{count - 1}.")
    needed = set(wanted)
    kept: list[Comparator] = []
    for low, high in reversed(list(_batcher(count))):
        keep_min, keep_max = low in needed, high in needed
        if keep_min or keep_max:
            kept.append((low, high, keep_min, keep_max))
            needed.update((low, high))
    return tuple(reversed(kept))


class Selector:
    """Order statistics of equally long fp32 rows, with scratch memory reused from call to call."""

    def __init__(self, count: int, wanted: Sequence[int], like: Tensor, width: int = CHUNK) -> None:
        """`count` rows of at most `width` elements, on the device of `like`; `wanted` ranks."""
        self._wanted = tuple(wanted)
        self._plan = plan(count, self._wanted)
        # A comparator reads two rows and writes at most two new ones before either is free.
        self._scratch = torch.empty((count + 2, width), dtype=torch.float32, device=like.device)

    def __call__(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """The wanted ranks of `rows` (fp32, 1-d, equal lengths <= width), in the order asked for.

        The inputs are not written. Results may be views of scratch memory or of an input: use or
        copy them before the next call, and do not write to them.
        """
        width = rows[0].numel()
        free = [self._scratch[index, :width] for index in range(self._scratch.shape[0])]
        wires = list(rows)
        owned = [False] * len(wires)
        for low, high, keep_min, keep_max in self._plan:
            first, second = wires[low], wires[high]
            if keep_min:
                wires[low] = torch.minimum(first, second, out=free.pop())
            if keep_max:
                wires[high] = torch.maximum(first, second, out=free.pop())
            if owned[low]:
                free.append(first)
            if owned[high]:
                free.append(second)
            owned[low], owned[high] = keep_min, keep_max
        return [wires[rank] for rank in self._wanted]
