# SPDX-License-Identifier: Apache-2.0
"""The merge rule `mean`: the coordinate-wise mean, with the same bits on any hardware.

Floating-point sums depend on their order, and library reductions choose theirs by device and thread
count. So each coordinate's values are first sorted, then added from the smallest up, one
elementwise float64 addition per payload, divided by n in float64, and rounded once to fp32.
Elementwise IEEE operations have one result everywhere, and sorting first makes the result depend on
the set of values only, not on who sent which. The error before the last rounding is below n * 2^-53
of the sum of magnitudes. A mean can't overflow, because every fp32 sum fits in float64. Zeros are
made +0.0. One node that lies can move the mean as far as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.ranks import mean_of_ranks
from agents.mechanisms.rows import Payload


@register("mean")
@dataclass(frozen=True)
class Mean:
    """The merge rule `mean`; it has no options."""

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """Coordinate-wise mean, rounded to fp32; see `agents.mechanisms.merge.Merge`.

        Stakes don't count. Memory beyond input and output: (n + 6) rows of 256 KiB.
        """
        return mean_of_ranks(payloads, 0, len(payloads))
