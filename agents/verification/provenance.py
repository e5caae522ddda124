# SPDX-License-Identifier: Apache-2.0
"""The rule: a payload is copied if it fits a look-alike's data, whose own payload fits it as well.

Two payloads are near copies (`overlap`). Both nodes' assigned data is trained on again, by the
job's own recipe, and encoded. A node that trains as it likes (more data, other settings, a memory
of earlier rounds) does not reproduce that, but its payload overlaps more with what its own data
gives than with what the other's data gives. For a payload p and two nodes' data,

    lean(p) = overlap(p, redone on i's data) - overlap(p, redone on j's data)
              - the median lean of the payloads of nodes outside of the pair.

The other nodes' payloads are the control: they trained on neither, so whatever makes i's data give
the more usual gradient shows in them and is taken off. Node i is COPIED if there is a look-alike j
whose payload leans to j's data while i's leans to j's data as well, both by more than a
threshold. It is OWN if its payload leans to its own data so against every look-alike, and UNCLEAR
otherwise.

The threshold is the larger of `margin` and three standard errors: of the overlaps' counting, or of
the controls' own leans if that is more. UNCLEAR condemns nobody. That is also the verdict on a node
whose work the look-alike holds as well (two nodes that both train on both shards), where memory of
earlier rounds drowns this round's data, and wherever there are no controls to take the common part
from: a verdict needs `MIN_CONTROLS` of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from agents.compression.support import Support
from agents.verification.overlap import overlap

MIN_CONTROLS = 1
_ERRORS = 3.0


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
    controls = sorted(set(revealed) - {node, *look_alikes})
    found = []
    for other in sorted(look_alikes):
        mine, error = _lean(node, node, other, revealed, redone, controls)
        theirs, their_error = _lean(other, other, node, revealed, redone, controls)
        threshold = max(margin, _ERRORS * max(error, their_error))
        if len(controls) >= MIN_CONTROLS and mine <= -threshold and theirs >= threshold:
            return Provenance(Origin.COPIED, other, mine, threshold)
        found.append((mine, threshold))
    least, threshold = min(found)
    clear = all(lean >= bound for lean, bound in found) and len(controls) >= MIN_CONTROLS
    return Provenance(Origin.OWN if clear else Origin.UNCLEAR, None, least, threshold)


def _lean(
    node: int,
    own: int,
    other: int,
    revealed: Mapping[int, Support],
    redone: Mapping[int, Support],
    controls: Collection[int],
) -> tuple[float, float]:
    """(lean of the payload of `node` to the data of `own` against that of `other`, its error)."""
    to_own, to_other = overlap(revealed[node], redone[own]), overlap(revealed[node], redone[other])
    usual = [
        overlap(revealed[k], redone[own]) - overlap(revealed[k], redone[other]) for k in controls
    ]
    size = (revealed[node].size + redone[own].size + redone[other].size) / 3
    counting = math.sqrt((to_own + to_other) / size) if size else math.inf
    lean = to_own - to_other - (statistics.median(usual) if usual else 0.0)
    return lean, max(counting, statistics.pstdev(usual) if usual else 0.0)
