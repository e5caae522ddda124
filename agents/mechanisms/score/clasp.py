# SPDX-License-Identifier: Apache-2.0
"""The score `clasp`: a miner's backward passes that count, times a factor from its samples' losses.

The factor is 1 unless samples that passed the miner lose more than those of others
(`agents.pipeline.clasp`, IOTA's section 6). It follows from the losses that the last stage's miners
publish, so everybody computes the same one before this rule is called. A low loss earns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.mechanisms.rows import Payload
from agents.mechanisms.score import Evidence, Scores, register
from agents.mechanisms.score.backward_passes import PPM, BackwardPasses
from agents.mechanisms.score.parts.clasp_options import ClaspOptions


@register("clasp")
@dataclass(frozen=True)
class Clasp(ClaspOptions):
    """The scoring rule `clasp`. Its options say how the factors are found."""

    needs_gains: ClassVar[bool] = False
    needs_updates: ClassVar[int] = 0

    def __call__(
        self, payloads: Sequence[Payload], batches: Sequence[int], evidence: Evidence
    ) -> Scores:
        """Quality: the factor. Contribution: passes times the factor, in ppm of a pass.

        ValueError as `backward_passes`, and unless `evidence` has a factor of 0 to 1,000,000 ppm
        for each payload.
        """
        factors = evidence.factors_ppm
        if factors is None or len(factors) != len(payloads):
            raise ValueError("The score 'clasp' needs one factor for each payload.")
        if any(not 0 <= factor <= PPM for factor in factors):
            raise ValueError(f"A factor lies from 0 to {PPM} ppm.")
        full = BackwardPasses()(payloads, batches).contributions
        earned = tuple(own * factor // PPM for own, factor in zip(full, factors, strict=True))
        return Scores(factors, earned)
