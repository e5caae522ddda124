# SPDX-License-Identifier: Apache-2.0
"""How long agents leave to each other, by the chain's blocks.

Rule: what somebody else has done is seen in the next block at the earliest. A wait that is meant
for that, written for a chain with a block a second, is as many blocks long on a slower one.
"""

from __future__ import annotations


def stretched(seconds: float, block_s: float) -> float:
    """Return how long to wait for what takes `seconds` where a block takes one.

    `block_s`: seconds from block to block.
    """
    return seconds * max(1.0, block_s)
