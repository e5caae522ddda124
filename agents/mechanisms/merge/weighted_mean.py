# SPDX-License-Identifier: Apache-2.0
"""The merge rule `weighted_mean`: a mean in which who did twice the work counts twice.

For the stages of a split model. IOTA's primer (section 2.1) counts an effective batch size B_eff,
the sum of the batches B_i of a stage's contributors. A mean that weighs each by its B_i has B_eff
as its divisor. B_i is here the number of a miner's backward passes that count, which follows from
everybody's logs and from the draw. So no miner can state one, and a pass that was not done is found
like any other lie.

Products with whole numbers are exact in float64. They are added in node order, divided once and
rounded once, so the bits are the same on any hardware. One node that lies can move the mean as far
as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.combine import combine
from agents.mechanisms.rows import Payload, check, refuse_non_finite


@register("weighted_mean")
@dataclass(frozen=True)
class WeightedMean:
    """The merge rule `weighted_mean`; it has no options."""

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """The mean of payloads that all count alike; see `agents.mechanisms.merge.Merge`.

        Stakes don't count.
        """
        return self.weighed(payloads, [1] * len(payloads))

    def weighed(self, payloads: Sequence[Payload], work: Sequence[int]) -> dict[str, Tensor]:
        """See `agents.mechanisms.merge.WeighingMerge`. Memory beyond input and output: 128 KiB."""
        check(payloads)
        if not any(work):
            raise ValueError("A weighted mean needs a payload whose work is not zero.")
        update = combine(payloads, work, sum(work))
        refuse_non_finite(update)
        return update
