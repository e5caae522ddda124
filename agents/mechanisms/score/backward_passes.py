# SPDX-License-Identifier: Apache-2.0
"""The score `backward_passes`: how many of a miner's backward passes count (mode `pipeline`).

Every pass does the same work, so a contribution is a number of passes and the quality is 1 for
everybody. Which passes count is settled before, from all miners' logs (`agents.pipeline.passes`).
The score says nothing about what was sent: re-execution does. IOTA's primer pays for backward
passes too: each counts for a time gamma, then for nothing (section 3). Gamma is a number of rounds
here, so that a round that takes longer or is void ends no pass's pay. A node is paid in each of
them in which it shows a good payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.mechanisms.rows import Payload
from agents.mechanisms.score import Evidence, Scores, register

PPM = 1_000_000
MAX_GAMMA = 64  # a plan reads as many reports


@register("backward_passes")
@dataclass(frozen=True)
class BackwardPasses:
    """The scoring rule `backward_passes`.

    `gamma`: finalized rounds, the pass's own among them, in which it is paid, 1..MAX_GAMMA.
    """

    gamma: int = 1
    needs_gains: ClassVar[bool] = False
    needs_updates: ClassVar[int] = 0

    def __post_init__(self) -> None:
        """ValueError for a gamma out of range."""
        if not 1 <= self.gamma <= MAX_GAMMA:
            raise ValueError(f"gamma must be between 1 and {MAX_GAMMA} rounds, got {self.gamma}.")

    def __call__(
        self,
        payloads: Sequence[Payload],
        batches: Sequence[int],
        evidence: Evidence | None = None,
    ) -> Scores:
        """Quality 1 for everyone; see `agents.mechanisms.score.Score`.

        `payloads` are of different stages and may differ in names and shapes: none is read.
        `batches`: passes of each node that count. What `evidence` says was carried is added.
        """
        if not payloads:
            raise ValueError("There is no payload to score.")
        if len(batches) != len(payloads):
            raise ValueError(f"{len(batches)} pass counts do not match {len(payloads)} payloads.")
        if any(number < 0 for number in batches):
            raise ValueError("Pass counts must not be negative.")
        carried = None if evidence is None else evidence.carried
        if carried is not None and len(carried) != len(payloads):
            raise ValueError("There must be one number of carried passes for each payload.")
        live = [own + old for own, old in zip(batches, carried or [0] * len(batches), strict=True)]
        return Scores((PPM,) * len(payloads), tuple(number * PPM for number in live))
