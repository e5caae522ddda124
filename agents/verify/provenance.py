# SPDX-License-Identifier: Apache-2.0
"""Whether a payload was made from its own node's data or from a look-alike's.

Two payloads are near copies (`overlap`). Both nodes' assigned data is trained on again, by the
job's own recipe, and encoded. A node that trains as it likes (more data, other settings, a memory
of earlier rounds) does not reproduce that, but its payload overlaps more with what its own data
gives than with what the other's data gives. For a payload p and two nodes' data,

    lean(p) = overlap(p, redone on i's data) - overlap(p, redone on j's data)
              - the median lean of the payloads of nodes outside of the pair.

The other nodes' payloads are the controls: they trained on neither, so whatever makes i's data give
the more usual gradient shows in them and is taken off. Node i is COPIED if for some look-alike j

- both payloads lean to j's data by at least a threshold,
- i's payload fits j's data better than the controls do, by at least `margin` (a node whose settings
  make it fit no data well leans as well, but away from its own, not to another's),
- and it fits i's data better than the controls do by less than half of that.

It is OWN if it leans to its own data by the threshold against every look-alike; else UNCLEAR.

The threshold is the larger of `margin` and three standard errors: of the overlaps' counting, or of
the controls' own leans if that is more. UNCLEAR condemns nobody. That is also the verdict on two
nodes that both train on both shards and send the same, where memory of earlier rounds drowns this
round's data, and where there are no controls.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from agents.mechanisms.codec.parts.support import Support
from agents.verify.overlap import agreed, overlap

_ERRORS = 3.0
_TRACE = 1 / 2  # of the fit to foreign data, from which own data has left its trace


class Origin(Enum):
    """Whose data a payload comes from."""

    OWN = "own"
    COPIED = "copied"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Provenance:
    """What was found about one node.

    Attributes:
        origin: the verdict.
        source: the look-alike whose data it fits; None unless COPIED.
        lean: its payload's lean to its own data, against that look-alike or, if there is none, the
            one against whom it leans least.
        threshold: what that lean had to exceed, either way.
    """

    origin: Origin
    source: int | None
    lean: float
    threshold: float


def provenance(
    node: int,
    look_alikes: Collection[int],
    revealed: Mapping[int, Support],
    redone: Mapping[int, Support],
    margin: float,
) -> Provenance:
    """Whose data the payload of `node` comes from.

    Args:
        node: the node to judge.
        look_alikes: nodes with which it was flagged, at least one.
        revealed: supports of all payloads of the round, by node id. Those of nodes that are neither
            `node` nor a look-alike are the controls.
        redone: supports of what the recipe gives on the assigned data of `node` and of each
            look-alike, encoded without memory.
        margin: least lean that counts, above 0.

    Raises:
        ValueError: no look-alikes, or no positive margin.
        KeyError: a support is missing.
    """
    if not look_alikes or node in look_alikes or not margin > 0:
        raise ValueError("Provenance needs look-alikes other than the node, and a margin above 0.")
    case = _Case(revealed, redone, sorted(set(revealed) - {node, *look_alikes}))
    found = []
    for other in sorted(look_alikes):
        mine, error = case.lean(node, other)
        theirs, their_error = case.lean(other, node)
        threshold = max(margin, _ERRORS * max(error, their_error))
        if mine <= -threshold and theirs >= threshold:
            foreign, own = case.beyond(node, other), case.beyond(node, node)
            if foreign >= margin and own < _TRACE * foreign:
                return Provenance(Origin.COPIED, other, mine, threshold)
        found.append((mine, threshold))
    least, threshold = min(found)
    clear = all(lean >= bound for lean, bound in found)
    return Provenance(Origin.OWN if clear else Origin.UNCLEAR, None, least, threshold)


@dataclass(frozen=True)
class _Case:
    """`provenance`'s arguments; `controls` are node ids."""

    revealed: Mapping[int, Support]
    redone: Mapping[int, Support]
    controls: Sequence[int]

    def lean(self, node: int, other: int) -> tuple[float, float]:
        """(lean of the payload of `node` to its own data against that of `other`, its error).

        Without controls the error is infinite.
        """
        own, foreign = self._fit(node, node), self._fit(node, other)
        usual = [self._fit(k, node) - self._fit(k, other) for k in self.controls]
        payload, mine, theirs = self.revealed[node], self.redone[node], self.redone[other]
        size = (2 * payload.size + mine.size + theirs.size) / 4
        if not usual or not size:
            return 0.0, math.inf
        # Numbers that agree with both can't sway a lean; the others are counted like coin tosses.
        swaying = np.setxor1d(agreed(payload, mine), agreed(payload, theirs), assume_unique=True)
        error = max(math.sqrt(swaying.size) / size, statistics.pstdev(usual))
        return own - foreign - statistics.median(usual), error

    def beyond(self, node: int, data: int) -> float:
        """How much better the payload of `node` fits someone's data than the controls' do."""
        return self._fit(node, data) - statistics.median(self._fit(k, data) for k in self.controls)

    def _fit(self, node: int, data: int) -> float:
        return overlap(self.revealed[node], self.redone[data])
