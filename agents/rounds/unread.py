# SPDX-License-Identifier: Apache-2.0
"""What a result leaves out is paid to the treasury, not to the others.

Rule: that a payload can't be had is its proposer's word, and nobody can check it. So nobody may
earn by it. The node's batches count for nobody (node 0) with the mean quality of the others, and
each of those has the part that it would have had beside a node of that quality.

Else a proposer that leaves all but its friend out, or a trainer that proposes where the one on duty
is silent, would have the pay of them all. It does not matter why a payload is left out: one that
was malformed may be gone when others look, and then nobody can tell the two apart. A payload that
is read and scores nothing has no part. A round in which nothing counts for anybody pays nobody, the
treasury neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.protocol.numbers import UNCLAIMED
from agents.rounds.report import NodeLine


def with_unread(paid: Mapping[int, int], lines: Sequence[NodeLine]) -> dict[int, int]:
    """Contributions by node, ascending, with that of nobody.

    Args:
        paid: contributions of those that have one.
        lines: of all nodes that revealed.
    """
    read = sum(line.batches for line in lines if line.accepted)
    unread = sum(line.batches for line in lines if not line.accepted)
    lacking = sum(paid.values()) * unread // read if read else 0
    own = dict(sorted(paid.items()))
    return {UNCLAIMED: lacking, **own} if lacking else own
