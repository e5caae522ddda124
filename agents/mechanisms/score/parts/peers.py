# SPDX-License-Identifier: Apache-2.0
"""The parts of the score `alignment`: exact integers, each node judged by the others.

Pure functions from the inner products of the updates to the parts of the score `alignment`. Inner
products, norms and cosines are Python integers throughout, so no machine, thread count or order of
nodes can change a digit. Every comparison is with a median of the *other* nodes, which fewer than
half of them cannot move outside the values of honest nodes. Of an even number's two middle values
the one in favour of the judged node counts: with two others, one liar must not be enough.

A node whose update is zero has no direction and no size; it is neither judged nor asked, and does
not occur here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

UNIT = 1_000_000_000  # 1.0 of every cosine, ratio and part here
_COPY = UNIT * 9 // 10
_HALF_PI = 1_570_796_327  # in UNIT

Matrix = Sequence[Sequence[int]]


def lower_middle(values: Sequence[int]) -> int:
    """The median, or the smaller of the two middle values. ValueError for no values."""
    return _ranked(values, (len(values) - 1) // 2)


def upper_middle(values: Sequence[int]) -> int:
    """The median, or the larger of the two middle values. ValueError for no values."""
    return _ranked(values, len(values) // 2)


def _ranked(values: Sequence[int], rank: int) -> int:
    if not values:
        raise ValueError("There is no middle of no values.")
    return sorted(values)[rank]


def cosines(gram: Matrix) -> list[list[int]]:
    """Cosines in `UNIT`, rounded towards zero.

    `gram` [n][n]: exact inner products, symmetric, each row and column in its own positive scale;
    no norm is zero.
    """
    result = [[0] * len(gram) for _ in gram]
    for i, row in enumerate(gram):
        for j in range(i, len(gram)):
            result[i][j] = result[j][i] = _cosine(row[j], row[i] * gram[j][j])
    return result


def _cosine(product: int, scale: int) -> int:
    size = min(UNIT, isqrt(product * product * UNIT * UNIT // scale))
    return size if product > 0 else -size


def copies(cosine: Matrix, threshold: int) -> list[frozenset[int]]:
    """Per node, the other nodes that are copies of it.

    Two are copies if their cosine is at least `threshold` (in `UNIT`) and nine tenths of the way
    from the usual to 1 as well, the usual being the lower quartile of their cosines with all
    others (0 without others). Where gradients have little noise, the cosines of honest nodes lie
    above any fixed threshold, all of them: 0.9956 to 0.9996 for means over large batches. Up to
    three quarters of the nodes, copies have others that they are not like. So have honest nodes
    whose gradients have little noise, where 2 of 10 add some: jobs don't pay mean gradients so
    (`agents.jobs.combinations.pay`).
    """
    count = range(len(cosine))
    return [
        frozenset(
            j
            for j in count
            if j != i and cosine[i][j] >= threshold and _beyond_usual(cosine, i, j) >= _COPY
        )
        for i in count
    ]


def _beyond_usual(cosine: Matrix, i: int, j: int) -> int:
    """The part of the way from the usual cosine to 1 that i and j have come, in `UNIT`."""
    seen = sorted(cosine[node][k] for node in (i, j) for k in range(len(cosine)) if k not in (i, j))
    usual = max(0, seen[(len(seen) - 1) // 4]) if seen else 0
    # Where the usual is 1 everybody sent the same.
    return UNIT if usual == UNIT else (cosine[i][j] - usual) * UNIT // (UNIT - usual)


def alignments(cosine: Matrix, same: Sequence[frozenset[int]], chance: int = 0) -> list[int]:
    """Per node, the cosine with the direction that the others have in common, 0..UNIT.

    t_i = max(0, median of cos(u_i, u_j) over the others), its copies left out unless they and it
    are the majority; T_i = median of t_j over the others; the result is min(1, t_i / sqrt(T_i)).

    Why the root: if u_i = rho_i s + independent noise, with s the common direction and rho_i the
    cosine with it, then cos(u_i, u_j) = rho_i rho_j, so t_i = rho_i rho and T_i = rho^2 for the
    median rho, and the quotient is rho_i: ZIP-400's cosine with the aggregate, without the node's
    own part in it. A node without others has 1.

    `chance` (in `UNIT`, below it): a cosine that updates with nothing in common hardly ever have.
    c_i, what the median of as many cosines as t_i is of hardly ever is by chance (`_of_median`), is
    taken off t_i, and what is left of 1 is stretched to 1; T_i is c_i at least. So the others'
    signal, however weak, never makes a direction of what chance alone can give.
    """
    if len(cosine) == 1:
        return [UNIT]
    asked = [_asked(i, row, same[i]) for i, row in enumerate(cosine)]
    typical = [max(0, upper_middle(values)) for values in asked]
    result = []
    for i, own in enumerate(typical):
        least = _of_median(chance, len(asked[i]))
        root = isqrt(max(least, upper_middle(_without(typical, i))) * UNIT)
        above = max(0, own - least) * UNIT // (UNIT - least)
        result.append(min(UNIT, above * UNIT // root) if root else 0)
    return result


def _asked(i: int, row: Sequence[int], same: frozenset[int]) -> list[int]:
    """The cosines whose median speaks for node i."""
    strangers = [value for j, value in enumerate(row) if j != i and j not in same]
    outnumbered = len(same) + 1 > len(strangers)
    return _without(row, i) if outnumbered else strangers


def _of_median(chance: int, count: int) -> int:
    """`chance` of the median of `count` independent cosines: a median's standard deviation is
    sqrt(pi / 2 count) of a single one's, and never more than that."""
    return min(chance, isqrt(chance * chance * _HALF_PI // (count * UNIT)))


def _without(values: Sequence[int], index: int) -> list[int]:
    return [*values[:index], *values[index + 1 :]]


def sizes(squares: Sequence[int], batches: Sequence[int], low: int, high: int) -> list[int]:
    """Per node, how plausible the norm of its update is, 0..UNIT.

    With m the median norm of the others, UNIT from low * m to high * m; below, falling in
    proportion to the norm; above, falling linearly to 0 at 2 * high * m. A node with fewer batches
    than the others' median has the lower edge lowered in proportion, one with more the upper edge
    raised: a step of the optimizer moves a model about equally far each time. A node without others
    has UNIT.

    Args:
        squares: squared norms, positive, all in one scale.
        batches: per node, how many it was assigned.
        low, high: edges of the band, in `UNIT`; 0 < low <= UNIT <= high.
    """
    if len(squares) == 1:
        return [UNIT]
    result = []
    for i, square in enumerate(squares):
        norms, work = _without(squares, i), _without(batches, i)
        few, many = max(1, lower_middle(work)), max(1, upper_middle(work))
        floor = max(1, low * min(batches[i], many) // many)
        ceiling = high * max(batches[i], few) // few
        below = _ratio(square, lower_middle(norms)) * UNIT // floor
        above = (2 * ceiling - _ratio(square, upper_middle(norms))) * UNIT // ceiling
        result.append(max(0, min(UNIT, below, above)))
    return result


def _ratio(square: int, reference: int) -> int:
    """sqrt(square / reference) in `UNIT`."""
    return isqrt(square * UNIT * UNIT // reference)


def validations(gains: Sequence[int], least: int) -> list[int]:
    """Per node, its validation gain against the others' median gain, 0..UNIT.

    A loss counts as no gain, and reaching the median is worth everything: more can't be earned by
    fitting the validation text. `least` (in the unit of `gains`, positive): a smaller median is
    raised to it, so that noise of the measurement is never worth much.
    """
    useful = [max(0, gain) for gain in gains]
    result = []
    for i, gain in enumerate(useful):
        others = _without(useful, i)
        reference = max(least, lower_middle(others)) if others else least
        result.append(min(UNIT, gain * UNIT // reference))
    return result
