# SPDX-License-Identifier: Apache-2.0
"""The score `backward_passes`: how many of a miner's backward passes count (mode `pipeline`).

Every pass does the same work, so a contribution is a number of passes and the quality is 1 for
everybody. Which passes count is settled before, from all miners' logs (`agents.pipeline.passes`).
The score says nothing about what was sent: re-execution does. IOTA's primer pays for backward
passes too (section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.mechanisms.rows import Payload
from agents.mechanisms.score import Evidence, Scores, register

PPM = 1_000_000


@register("backward_passes")
@dataclass(frozen=True)
class BackwardPasses:
    """The scoring rule `backward_passes`; it has no options and needs no evidence."""

    needs_gains: ClassVar[bool] = False

    def __call__(
        self,
        payloads: Sequence[Payload],
        batches: Sequence[int],
        evidence: Evidence | None = None,
    ) -> Scores:
        """Quality 1 for everyone; see `agents.mechanisms.score.Score`.

        `payloads` are of different stages and may differ in names and shapes: none is read.
        `batches`: passes of each node that count.
        """
        if not payloads:
            raise ValueError("There is no payload to score.")
        if len(batches) != len(payloads):
            raise ValueError(f"{len(batches)} pass counts do not match {len(payloads)} payloads.")
        if any(number < 0 for number in batches):
            raise ValueError("Pass counts must not be negative.")
        return Scores((PPM,) * len(payloads), tuple(number * PPM for number in batches))
