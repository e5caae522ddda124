# SPDX-License-Identifier: Apache-2.0
"""Decisions from the small Gram matrix alone, the same on every machine.

Integers stay exact. Where floats appear they are Python's: single IEEE operations, correctly
rounded int / int and sqrt, and `math.fsum`, whose result doesn't depend on the order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from agents.mechanisms.merge.parts.gram import Gram, Integers

_FRACTION_BITS = 53


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
    whole = [int(math.ldexp(factor, _FRACTION_BITS)) for factor in factors]
    products = tuple(
        tuple(value * whole[row] * whole[column] for column, value in enumerate(values))
        for row, values in enumerate(matrix.products)
    )
    return replace(matrix, products=products, exponent=matrix.exponent - 2 * _FRACTION_BITS)


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


def relative(distances: Integers, unit: int) -> list[list[float]]:
    """Squared distances divided by `unit` (> 0), each correctly rounded to float64."""
    return [[value / unit for value in row] for row in distances]


def distances_from(distances: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Distance of each payload from the point sum_j weights[j] * payload_j; weights sum to 1.

    ||x_i - z||^2 = sum_j w_j D_ij - 1/2 sum_jk w_j w_k D_jk, for squared distances D. Only
    differences of payloads enter, so a part that all payloads share costs no precision.
    """
    used = [index for index, weight in enumerate(weights) if weight]
    reach = [math.fsum(row[index] * weights[index] for index in used) for row in distances]
    own = 0.5 * math.fsum(reach[index] * weights[index] for index in used)
    return [math.sqrt(max(0.0, value - own)) for value in reach]
