# SPDX-License-Identifier: Apache-2.0
"""Decisions from the small Gram matrix alone, the same on every machine.

Integers stay exact, and floats that enter a sum are taken as the integers that they are, times one
power of two (`whole`). So one payload that is longer than all others by any factor costs the
distances and inner products of the others no digit. Else floats are Python's: single IEEE
operations, correctly rounded int / int and sqrt, and `math.fsum`, whose result depends on no order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from agents.mechanisms.merge.parts.gram import Gram, Integers

_DIGITS = 53  # of a float64


def whole(floats: Sequence[float]) -> tuple[list[int], int]:
    """Integers and one power of two: each float is exactly its integer times 2^-power."""
    power = _DIGITS - min((math.frexp(value)[1] for value in floats if value), default=0)
    return [int(math.ldexp(value, power)) for value in floats], power


def lowest(values: Sequence[int], count: int) -> list[int]:
    """Indices of the `count` smallest values, smallest first; ties go to the lower index."""
    return sorted(range(len(values)), key=lambda index: (values[index], index))[:count]


def clip_factors(matrix: Gram) -> list[float]:
    """min(1, median norm / own norm) per payload; the lower median, as liars may be long."""
    squares = [matrix.products[index][index] for index in range(matrix.count)]
    middle = sorted(squares)[(len(squares) - 1) // 2]
    return [math.sqrt(middle / square) if square > middle else 1.0 for square in squares]


def scaled(matrix: Gram, factors: Sequence[float]) -> Gram:
    """The Gram matrix of the payloads times `factors` (each in [0, 1]; exact for those floats)."""
    exact, power = whole(factors)
    products = tuple(
        tuple(value * exact[row] * exact[column] for column, value in enumerate(values))
        for row, values in enumerate(matrix.products)
    )
    return replace(matrix, products=products, exponent=matrix.exponent - 2 * power)


def mixed(matrix: Gram, size: int) -> tuple[Gram, list[list[int]]]:
    """The Gram matrix of each payload's *sum* with its nearest, `size` in all, and who they are.

    A payload is its own nearest; further ties go to the lower index. Sums, not means: the common
    factor 1 / size changes no comparison and would not be exact.
    """
    groups = []
    for index, row in enumerate(matrix.distances()):
        order = sorted(range(matrix.count), key=lambda other: (row[other], other != index, other))
        groups.append(sorted(order[:size]))
    half = [
        [sum(matrix.products[member][column] for member in group) for column in range(matrix.count)]
        for group in groups
    ]
    products = tuple(
        tuple(sum(row[member] for member in group) for group in groups) for row in half
    )
    return replace(matrix, products=products), groups


def distances_from(distances: Integers, unit: int, weights: Sequence[float]) -> list[float]:
    """Distance of each payload from the weighted mean of all, in units of sqrt(unit).

    ||x_i - z||^2 = sum_j w_j D_ij - 1/2 sum_jk w_j w_k D_jk for z = sum_j w_j x_j, weights that sum
    to 1 and squared distances D. Both sums are integers here, divided once. As floats they would
    cancel: the weight of a payload at distance R falls with R, and its terms grow with R^2.

    Args:
        distances: squared distances, n by n, exact and consistent (`Gram.distances`).
        unit: a squared distance above 0.
        weights: n floats, none negative, one positive. They are taken in proportion to their sum.
    """
    exact, _ = whole(weights)
    total = sum(exact)
    used = [index for index, weight in enumerate(exact) if weight]
    reach = [sum(row[index] * exact[index] for index in used) for row in distances]
    own = sum(reach[index] * exact[index] for index in used)
    bottom = 2 * total * total * unit
    return [math.sqrt((2 * total * value - own) / bottom) for value in reach]
