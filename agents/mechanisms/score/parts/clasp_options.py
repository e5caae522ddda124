# SPDX-License-Identifier: Apache-2.0
"""Options of CLASP: what the score `clasp` takes, and `agents.pipeline.clasp` judges by."""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.options import check_bool, check_float


@dataclass(frozen=True)
class ClaspOptions:
    """Options.

    Attributes:
        threshold: z up to which pay is full, 1 to 100. It falls to nothing at twice as much.
        by_reporter: effects by the median over reporters; see `agents.pipeline.clasp`. Without it,
            by plain mean losses, as the primer has it.
    """

    threshold: float = 4.0
    by_reporter: bool = True

    def __post_init__(self) -> None:
        """ValueError for a wrong type, or a threshold out of range."""
        check_float("threshold", self.threshold, 1, 100)
        check_bool("by_reporter", self.by_reporter)
