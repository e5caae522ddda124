# SPDX-License-Identifier: Apache-2.0
"""Who passes letters on between two miners that take no connections.

Rule: the posts that hold letters for such a receiver are drawn by the epoch's seed among the miners
that have one, and the same few for every sender. So sender and receiver find the same posts without
asking each other, and no miner chooses whose letters pass through its hands. A relay that drops
letters costs the samples in them, as a receiver that died does. It can't change one, because the
sender signed it, and it learns what any neighbour on the sample's way learns.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.pipeline.epoch import Epoch
from agents.pipeline.lots import shuffled

MOST = 3
"""Posts that hold letters for one receiver."""


def relays(epoch: Epoch, receiver: int, url_of: Callable[[int], str | None]) -> tuple[int, ...]:
    """The miners whose posts a receiver without one asks for letters, `MOST` at most, in the order
    in which senders try them.

    `url_of`: where a miner's post is, empty if it takes no connections, None if nobody knows.
    """
    everybody = [miner for stage in epoch.stages for miner in stage if miner != receiver]
    drawn = shuffled(epoch.seed, f"relays of {receiver}", everybody)
    return tuple(miner for miner in drawn if url_of(miner))[:MOST]
