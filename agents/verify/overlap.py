# SPDX-License-Identifier: Apache-2.0
"""Finds pairs of payloads that are more alike than the round's others; both nodes are looked at.

Overlap is the share of sent numbers that two sparse payloads name both, with the same sign: Dice's
coefficient, 2 |same| / (|a| + |b|). Magnitudes, order and scale don't enter. Honest payloads
overlap as well, since all nodes see the same large gradients: from 0.05 to 0.9, by codec, optimizer
and round. So a pair's overlap is corrected for it as Cohen's kappa is for chance,

    (overlap - usual) / (1 - usual),

where usual is the median overlap of these two with all others (of two middle values the smaller; 0
if there are no others). k copies among n nodes move it only for k > n / 2 + 1.

A pair at or above the limit flags *both* nodes for re-execution on assigned data (`provenance`); an
overlap alone says nothing about who copied, nor even that someone did. The time of arrival is no
evidence either, since a thief may arrive first; no function here takes a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.codec.parts.support import Support
from agents.verify.similarity import Flag

OVERLAP = "OVERLAP"
# Places per block of the comparison: two float32 tables of nodes x this. A sum of so many ones is
# exact in float32.
_WIDTH = 1 << 16


def overlap(one: Support, other: Support) -> float:
    """Dice's coefficient of (place, sign), 0..1; 0 if neither sends anything."""
    return _dice(agreed(one, other).size, one.size + other.size)


def agreed(one: Support, other: Support) -> NDArray[np.int64]:
    """Ascending: 2 * place, plus 1 if negative, of what both send with the same sign."""
    return np.intersect1d(_signed(one), _signed(other), assume_unique=True)


def pairs(supports: Mapping[int, Support], limit: float) -> list[Flag]:
    """One flag per node whose corrected overlap with another is at least `limit`, ascending.

    Each flag names all its look-alikes and holds the largest corrected overlap. Counts are exact
    and each ratio is rounded alike everywhere, so are the flags. Time and memory: n^2 per place and
    0.5 MiB per node. ValueError unless 0 < limit <= 1.
    """
    if not 0 < limit <= 1:
        raise ValueError(f"The limit of an overlap must be above 0 and at most 1, not {limit!r}.")
    nodes = sorted(supports)
    table = _overlaps([supports[node] for node in nodes])
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for i, one in enumerate(nodes):
        for j, other in enumerate(nodes[:i]):
            value = corrected(table, i, j)
            if value >= limit:
                found[one][other] = found[other][one] = value
    return [
        Flag(node, OVERLAP, tuple(sorted(found[node])), max(found[node].values()))
        for node in sorted(found)
    ]


def corrected(table: Sequence[Sequence[float]], i: int, j: int) -> float:
    """The overlap of i and j beyond the usual, at most 1; negative for less than usual.

    `table` [n][n]: overlaps.
    """
    others = [k for k in range(len(table)) if k not in (i, j)]
    seen = sorted(table[node][k] for node in (i, j) for k in others)
    usual = seen[(len(seen) - 1) // 2] if seen else 0.0
    # Where the usual is 1 everybody sent the same, and everybody is looked at.
    return 1.0 if usual == 1 else (table[i][j] - usual) / (1 - usual)


def _signed(support: Support) -> NDArray[np.int64]:
    return support.places * 2 + support.negative


def _dice(same: int, total: int) -> float:
    return 2 * same / total if total else 0.0


def _overlaps(supports: list[Support]) -> list[list[float]]:
    """All pairs' overlaps, [n][n]; a payload's with itself is 1 (0 for an empty one)."""
    count = range(len(supports))
    same = np.zeros((len(supports), len(supports)), np.int64)
    for up, down in _tables(supports):
        # Two products of zeros and ones, each entry at most _WIDTH: exact in any order.
        same += (up @ up.T).astype(np.int64) + (down @ down.T).astype(np.int64)
    return [
        [_dice(int(same[i, j]), supports[i].size + supports[j].size) for j in count] for i in count
    ]


def _tables(supports: list[Support]) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Per block of places, float32 [n, width]: which a node sends as positive, and as negative."""
    end = max((int(s.places[-1]) + 1 for s in supports if s.size), default=0)
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
