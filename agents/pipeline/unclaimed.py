# SPDX-License-Identifier: Apache-2.0
"""What an epoch handed out and counts for nobody: it is paid to the treasury, not to the others.

Rule: a backward pass is worth the same part of the pot whoever does it, and whatever becomes of the
other passes. Its part is one of all that were handed out in the rounds that are still paid. What
the miners' contributions lack of all of these is nobody's, and a result gives it to node 0.

So nobody earns by what another loses: by samples that it drops, by a payload that a proposer leaves
out as late, by a pay that false losses cut. A round in which nothing counts for anybody pays
nobody, the treasury neither: its pool goes back as any that is not paid.

IOTA's primer shares a fixed reward by scores (section 3). Then whoever holds more than one of every
`stages` seats gains by dropping the samples of which it has few passes: with ten of 25 seats at
five stages it has 53 % of the pot instead of 40 %.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.pipeline.credit import PPM
from agents.protocol.numbers import UNCLAIMED


def with_unclaimed(paid: Mapping[int, int], handed_out: int) -> dict[int, int]:
    """Contributions by node, ascending, with that of nobody.

    Args:
        paid: in millionths of a pass, by miner; those of 0 are left out.
        handed_out: passes in the rounds that are still paid.
    """
    own = {node: share for node, share in sorted(paid.items()) if share}
    lacking = handed_out * PPM - sum(own.values())
    return {UNCLAIMED: lacking, **own} if own and lacking > 0 else own
