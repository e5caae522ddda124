# SPDX-License-Identifier: Apache-2.0
"""When a stage merges, and whose weights count: miners with at least `least` batches (IOTA, 2.1).

B_eff = sum of B_i over all i with B_i >= B_min. At the epoch's end a stage is merged if a quorum of
its miners has B_min batches; IOTA's orchestrator begins the merge as soon as that holds.
Contributors are exactly the miners in that sum, and a mean divides by exactly what it adds up:
IOTA's divisor began at 1 and so shrank the weights in each merge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Quorum:
    """Terms of a merge.

    Attributes:
        least: B_min, the fewest batches of a contributor, at least 1.
        share: of the stage's miners, rounded up, that must have as many, from 0 to 1. With 0 one
            is enough.
    """

    least: int
    share: Fraction

    def __post_init__(self) -> None:
        """ValueError for terms out of range."""
        if self.least < 1:
            raise ValueError(f"A contributor has at least 1 batch, not {self.least}.")
        if not 0 <= self.share <= 1:
            raise ValueError(f"The share of a quorum lies from 0 to 1, not {self.share}.")

    def needed(self, miners: int) -> int:
        """How many of so many miners are a quorum: at least 1."""
        return max(1, math.ceil(self.share * miners))

    def contributors(self, batches: Mapping[int, int]) -> dict[int, int]:
        """Batches by contributor, ascending; ValueError for a negative number of batches."""
        if any(number < 0 for number in batches.values()):
            raise ValueError("Batches are counted and can't be negative.")
        return {m: number for m, number in sorted(batches.items()) if number >= self.least}

    def reached(self, batches: Mapping[int, int]) -> bool:
        """Whether the stage is merged. `batches`: by miner of the stage, 0 for one without any."""
        return len(self.contributors(batches)) >= self.needed(len(batches))
