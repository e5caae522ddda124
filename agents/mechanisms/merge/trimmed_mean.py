# SPDX-License-Identifier: Apache-2.0
"""The merge rule `trimmed_mean`: a mean without the f smallest and f largest of each coordinate.

f = floor(byzantine_fraction * n). Source: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust
Distributed Learning: Towards Optimal Statistical Rates", ICML 2018. With at most f liars each
coordinate of the result lies between two honest values. Kept values are added from the smallest up,
one float64 addition each, divided by their number in float64 and rounded once to fp32, as in
mean.py: the same bits on any hardware and in any order of payloads. Zeros are made +0.0.

Any number of payloads is merged. Where f is 0, as it is up to 3 payloads by default, the rule is
the mean. To refuse 1 or 2 payloads would keep nobody from moving the result, since one liar of 3
moves it at will; and whoever keeps its payload back would keep the work of two others from being
merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.options import liars, number
from agents.mechanisms.merge.parts.ranks import mean_of_ranks
from agents.mechanisms.rows import Payload

_NAME = "trimmed_mean"


@register(_NAME)
@dataclass(frozen=True, kw_only=True)
class TrimmedMean:
    """The merge rule `trimmed_mean`; option `byzantine_fraction` (0 to 0.499)."""

    byzantine_fraction: float = 0.3

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or out of range."""
        number(_NAME, "byzantine_fraction", self.byzantine_fraction, 0.0, 0.499)

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """Coordinate-wise trimmed mean; see `agents.mechanisms.merge.Merge`.

        Stakes don't count: a rank belongs to an identity. Memory beyond input and output:
        (n + 6) rows of 256 KiB.
        """
        count = len(payloads)
        bad = liars(self.byzantine_fraction, count)
        return mean_of_ranks(payloads, bad, count - bad)
