# SPDX-License-Identifier: Apache-2.0
"""The score `batches`: the number of batches that a node was assigned and delivered.

It is the only score that tells nothing about what was delivered. So it is the only one for jobs
whose updates must stay secret (`privacy: aggregate`): a quality computed from updates without noise
would publish a figure about them. A node that delivers rubbish is paid unless re-execution finds
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.mechanisms.rows import Payload, check
from agents.mechanisms.score import Evidence, Scores, register

PPM = 1_000_000


@register("batches")
@dataclass(frozen=True)
class Batches:
    """The scoring rule `batches`; it has no options and needs no evidence."""

    needs_gains: ClassVar[bool] = False
    needs_updates: ClassVar[int] = 0

    def __call__(
        self,
        payloads: Sequence[Payload],
        batches: Sequence[int],
        evidence: Evidence | None = None,
    ) -> Scores:
        """Quality 1 for everyone; see `agents.mechanisms.score.Score`."""
        check(payloads)
        if len(batches) != len(payloads):
            raise ValueError(f"{len(batches)} batch counts do not match {len(payloads)} payloads.")
        if any(number < 0 for number in batches):
            raise ValueError("Batch counts must not be negative.")
        return Scores((PPM,) * len(payloads), tuple(number * PPM for number in batches))
