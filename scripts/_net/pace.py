# SPDX-License-Identifier: Apache-2.0
"""Windows on chains whose blocks come slowly.

Rule: a window that is short on a chain with a block a second must still have room, on any other,
for what is done in it: a request, the block of its seed, the answer, and a replacement of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.jobs.publish import Terms

PAST = 6
"""Blocks whose times say how long one takes."""
BLOCKS = 8
"""The fewest blocks in a window."""


def spacing(times: Sequence[int]) -> float:
    """Return the seconds from block to block, the median of successive blocks' times; 0 of one.

    One leap of the clock, as of a chain that stood still, does not count.
    """
    return float(median(b - a for a, b in pairwise(times))) if len(times) > 1 else 0.0


def roomy(window_s: int, block_s: float) -> int:
    """Return a window with room for `BLOCKS` blocks, where they take more than a second."""
    return max(window_s, math.ceil(BLOCKS * block_s)) if block_s > 1 else window_s


def paced(terms: Terms, block_s: float) -> Terms:
    """Return a job's terms with windows that have room for blocks so far apart."""
    windows = {name: value for name, value in vars(terms).items() if name.endswith("_s")}
    return replace(terms, **{name: roomy(value, block_s) for name, value in windows.items()})
