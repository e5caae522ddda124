# SPDX-License-Identifier: Apache-2.0
"""The rule: payloads that move the same numbers the same way are looked at, all of them alike.

Overlap is the share of sent numbers that two sparse payloads name both, with the same sign, of the
fewer that either names: neither leaving numbers out nor adding some lowers it. Magnitudes, order
and scale don't enter. A pair at or above the limit flags *both* nodes for re-execution on their
assigned data (`provenance`); an overlap alone says nothing about who copied, nor even that someone
did. When a payload arrived is no evidence either, since a thief may arrive first; nothing
here can be told a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from agents.compression.support import Support
from agents.verification.similarity import Flag

OVERLAP = "OVERLAP"
# Places per block of the comparison: two float32 tables of nodes x this. A sum of so many ones is
# exact in float32.
_WIDTH = 1 << 16


def overlap(one: Support, other: Support) -> float:
    """Numbers named by both with the same sign, over the fewer that either names; 0 for none."""
    fewer = min(one.size, other.size)
    return _same(one, other) / fewer if fewer else 0.0


def pairs(supports: Mapping[int, Support], limit: float) -> list[Flag]:
    """One flag per node that shares an overlap of at least `limit` with another, ascending.

    Each flag names all its look-alikes and holds the largest overlap. Exact counts, so the same
    flags on every machine. Memory: 1 MiB per two nodes, and n^2 counts. ValueError unless 0 < limit
    <= 1.
    """
    if not 0 < limit <= 1:
        raise ValueError(f"The limit of an overlap must be above 0 and at most 1, not {limit!r}.")
    nodes = sorted(supports)
    agreed = _agreements([supports[node] for node in nodes])
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for i, one in enumerate(nodes):
        for j, other in enumerate(nodes[:i]):
            fewer = min(supports[one].size, supports[other].size)
            value = int(agreed[i, j]) / fewer if fewer else 0.0
            if value >= limit:
                found[one][other] = found[other][one] = value
    return [
        Flag(node, OVERLAP, tuple(sorted(found[node])), max(found[node].values()))
        for node in sorted(found)
    ]


def _same(one: Support, other: Support) -> int:
    _, mine, theirs = np.intersect1d(
        one.places, other.places, assume_unique=True, return_indices=True
    )
    return int(np.count_nonzero(one.negative[mine] == other.negative[theirs]))


def _agreements(supports: list[Support]) -> NDArray[np.int64]:
    """int64 [n, n]: numbers that both name with the same sign."""
    total = np.zeros((len(supports), len(supports)), np.int64)
    for up, down in _tables(supports):
        # Two products of zeros and ones, each entry at most _WIDTH: exact in any order.
        total += (up @ up.T).astype(np.int64) + (down @ down.T).astype(np.int64)
    return total


def _tables(supports: list[Support]) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Per block of places, float32 [n, width]: which a node sends as positive, and as negative."""
    end = max((int(s.places[-1]) + 1 for s in supports if s.size), default=0)
    # Block number and bounds of each node's places, found once.
    edges = np.arange(0, end + _WIDTH, _WIDTH)
    cuts = [np.searchsorted(s.places, edges) for s in supports]
    for block, start in enumerate(edges[:-1]):
        up = np.zeros((len(supports), _WIDTH), np.float32)
        down = np.zeros((len(supports), _WIDTH), np.float32)
        for row, (support, cut) in enumerate(zip(supports, cuts, strict=True)):
            part = slice(cut[block], cut[block + 1])
            places, negative = support.places[part] - start, support.negative[part]
            up[row, places[~negative]] = 1
            down[row, places[negative]] = 1
        yield up, down
