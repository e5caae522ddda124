# SPDX-License-Identifier: Apache-2.0
"""A swarm of honest nodes, and a validator that states its losses as far off as nobody can deny.

Losses differ a little between machines, so the committee leaves twice a tolerance to every figure
of a record (`agents.gauntlet.remeasure`). The first validator adds all of that to its friends'
figures and takes it from everybody else's. Ratings and scores follow from what it states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.gauntlet.loss_score import LOSS_TOLERANCE, NANO
from agents.gauntlet.primary_evaluation import Measured
from agents.gauntlet.ratings import MICRO
from agents.gauntlet.remeasure import SURE
from scripts._attacks.gauntlet_swarm import GauntletSwarm

_ROOM = int(SURE * LOSS_TOLERANCE * NANO)


@dataclass
class TiltedSwarm(GauntletSwarm):
    """`friends`: whom the first validator favours; nobody: it is honest."""

    friends: frozenset[int] = frozenset()

    def stated(self, index: int, node: int, found: Mapping[int, Measured]) -> Measured | None:
        """As far off as a record may be, for the first validator."""
        seen = found.get(node)
        if index or not self.friends or seen is None or seen.random is None or seen.shown is None:
            return seen
        assert seen.assigned is not None and seen.expected is not None
        up = 1 if node in self.friends else -1
        return replace(
            seen,
            assigned=seen.assigned + up * _ROOM,
            random=seen.random + up * _ROOM,
            expected=seen.expected - up * _ROOM,
            shown=_within(seen.shown + up * SURE * seen.unsure),
            extra=_within((seen.extra or 0) + up * SURE * seen.unsure_extra),
        )


def _within(share: int) -> int:
    return max(-MICRO, min(MICRO, share))
