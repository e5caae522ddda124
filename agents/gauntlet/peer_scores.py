# SPDX-License-Identifier: Apache-2.0
"""PeerScore and shares: mu+ times value+; by rank mu+ times ordinal+, above the least.

The paper's equations 4 and 5 take the ordinal of a rank, the minimum off, and a power c of 2. With
them eight nodes of equal work are paid as by a lottery (docs/scoring.md), so a job does that only
where it asks for it. In either rule both factors are cut at zero before they are multiplied. In
production they were not: two negative factors made a large positive score, and zero updates, then
random ones, earned most. Shares are (s - least)^c / sum, least being 0 or the minimum, with these
edges, which the paper leaves open:

- A node whose PeerScore is 0 gets 0. So do negative scores and scores that are not numbers.
- All scores equal and positive: equal shares ((s - min) would be 0 / 0).
- All scores 0, or no scores: all shares 0.

A minimum is taken over all nodes given, zeros included; give all nodes that are known. Shares need
ratios only: scores are first divided by their largest distance from the least, so no scale of
scores can overflow or vanish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agents.gauntlet.ratings import MICRO, Rating
from agents.protocol.numbers import SCALE


def peer_score(rating: Rating) -> float:
    """mu+ * value+, 0..1; one rounding."""
    return max(0, rating.mu) * max(0, rating.value) / (MICRO * MICRO)


def peer_score_by_rank(rating: Rating) -> float:
    """The paper's mu+ * ordinal+, at least 0; one rounding."""
    return max(0, rating.mu) * max(0, rating.skill - 3 * rating.sigma) / (MICRO * MICRO)


def normalise(
    scores: Mapping[int, float], power: float = 1.0, above_least: bool = False
) -> dict[int, float]:
    """The shares of all nodes in `scores`, each 0..1; together 1 up to rounding, or all 0.

    `power`: c, at least 1. `above_least`: the paper's minimum is taken off.
    """
    worth = {node: s if math.isfinite(s) and s > 0 else 0.0 for node, s in scores.items()}
    most, least = max(worth.values(), default=0.0), min(worth.values(), default=0.0)
    if not above_least:
        least = 0.0
    if most == 0:
        return dict.fromkeys(worth, 0.0)
    if most == least:
        return dict.fromkeys(worth, 1 / len(worth))
    raised = {node: _raise((s - least) / (most - least), power) for node, s in worth.items()}
    total = math.fsum(raised.values())
    return {node: value / total for node, value in raised.items()}


def vector(shares: Mapping[int, float], nodes: Sequence[int]) -> list[int]:
    """Fixed-point shares in the order of `nodes` (a round's snapshot), 0 for a node without one.

    Each is floor(share * SCALE), so their sum is at most SCALE for shares whose sum is at most 1.

    Raises:
        ValueError: a node occurs twice in `nodes`, a share is not in 0..1, or the shares of `nodes`
            add up to more than SCALE.
    """
    if len(set(nodes)) != len(nodes):
        raise ValueError("A node occurs twice in the list that the shares are asked for.")
    values = [shares.get(node, 0.0) for node in nodes]
    if not all(0 <= value <= 1 for value in values):
        raise ValueError("A share must lie from 0 to 1.")
    fixed = [math.floor(value * SCALE) for value in values]
    if sum(fixed) > SCALE:
        raise ValueError(f"The shares add up to {sum(fixed)} of {SCALE}; normalise them first.")
    return fixed


def _raise(base: float, power: float) -> float:
    """base ** power. A power in quarters takes products and roots, the same on every machine."""
    quarters = 4 * power
    if quarters != math.floor(quarters):
        return float(base**power)
    halves = math.sqrt(base) if int(quarters) & 2 else 1.0
    fourths = math.sqrt(math.sqrt(base)) if int(quarters) & 1 else 1.0
    return math.prod([base] * (int(quarters) // 4)) * halves * fourths
