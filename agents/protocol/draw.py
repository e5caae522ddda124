# SPDX-License-Identifier: Apache-2.0
"""Draws a sample of nodes by a public seed that was unknown while they could still react.

A draw is a pure function of the seed and the *set* of candidates, so every verifier finds the same
sample and anyone can check it afterwards.

Whose work is looked at follows from the block after the one in which the round's result was
proposed (`draw_seed`). A payload that nobody can read by then is in no result and is not paid. If
the draw were known before, a cheat would publish its payload only where nobody looks: it would risk
the pay of the rounds in which it is drawn, and never its stake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eth_utils import keccak

CERTAIN = 1 << 256
"""A chance of one, in `lots`."""

_LOTS = b"menagerie.draw.lots.v1"
_LOOKED_AT = b"menagerie.draw.looked_at.v1"


def draw_seed(block_hash: bytes, job_id: int, round_id: int) -> bytes:
    """What draws whose work of a round is looked at. `block_hash`: of the block after the one that
    proposed the round's result."""
    place = job_id.to_bytes(32, "big") + round_id.to_bytes(32, "big")
    return bytes(keccak(_LOOKED_AT + block_hash + place))


def draw(seed: bytes, candidates: Iterable[int], count: int) -> list[int]:
    """`count` distinct candidates, uniformly, in ascending order (all, if there are not more).

    Partial Fisher-Yates shuffle of the ascending candidates; the i-th choice among m is
    keccak256(seed || i as uint256) mod m, whose bias is below m / 2^256. ValueError for a negative
    count or a candidate given twice.
    """
    pool = sorted(candidates)
    if len(set(pool)) != len(pool):
        raise ValueError("A candidate of the draw is given twice.")
    if count < 0:
        raise ValueError(f"Can't draw {count} candidates; ask for 0 or more.")
    count = min(count, len(pool))
    for index in range(count):
        word = int.from_bytes(keccak(seed + index.to_bytes(32, "big")), "big")
        other = index + word % (len(pool) - index)
        pool[index], pool[other] = pool[other], pool[index]
    return sorted(pool[:count])


def lots(seed: bytes, chances: Mapping[int, int]) -> list[int]:
    """Those nodes that are drawn, ascending, each by a chance of its own out of `CERTAIN`.

    A node is drawn if keccak256(seed || domain || node as uint256) is below its chance, so nothing
    that others do moves its lot. ValueError for a chance below 0 or above `CERTAIN`.
    """
    if any(not 0 <= chance <= CERTAIN for chance in chances.values()):
        raise ValueError("A chance lies between 0 and CERTAIN.")
    return sorted(
        node
        for node, chance in chances.items()
        if int.from_bytes(keccak(seed + _LOTS + node.to_bytes(32, "big")), "big") < chance
    )
