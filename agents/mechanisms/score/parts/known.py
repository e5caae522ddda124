# SPDX-License-Identifier: Apache-2.0
"""What an update adds to what everybody knew before the round.

A mean of past merged updates needs no training, and lies closer to what honest nodes send than
those lie to each other. So updates are compared after their components in the span of the known
vectors (the newest merged updates and the round's model) have been taken out. With G the inner
products of known vectors K and updates U, those of what is left are the Schur complement

    G_UU - G_UK G_KK^-1 G_KU.

G_KK^-1 G_KU is computed from exact integers by Bareiss' elimination (Math. Comp. 22, 1968), whose
divisions leave no remainder, above the diagonal too. All entries carry one common positive factor,
det G_KK, which no cosine and no ratio of norms shows. A known vector that depends on those before
it adds nothing and is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul

Matrix = Sequence[Sequence[int]]


def remainders(gram: Matrix, known: int) -> list[list[int]]:
    """Inner products of the vectors after the first `known`, without their parts in the span of
    those, times one common positive integer; exact.

    `gram` [n][n]: exact inner products, symmetric, each row and column in its own positive scale.
    The result is [n - known][n - known], its rows and columns in the same scales. Without known
    vectors it equals `gram`. ValueError for `known` outside 0..n.
    """
    if not 0 <= known <= len(gram):
        raise ValueError(f"{known} of {len(gram)} vectors can't be the known ones.")
    rows = [list(row) for row in gram[:known]]
    factor = 1
    used: list[int] = []
    for index in range(known):
        pivot = rows[index][index]
        if not pivot:
            continue  # a combination of those before it
        for other in [*used, *range(index + 1, known)]:
            share = rows[other][index]
            rows[other] = [
                (pivot * own - share * value) // factor
                for own, value in zip(rows[other], rows[index], strict=True)
            ]
        used.append(index)
        factor = pivot
    # Column by column, `factor` times what is known of one vector: G_KK^-1 G_KU.
    shares = list(zip(*(rows[index] for index in used), strict=True)) or [()] * len(gram)
    result = [[0] * (len(gram) - known) for _ in gram[known:]]
    for place, row in enumerate(gram[known:]):
        own = [row[index] for index in used]
        for column in range(place, len(result)):
            at = known + column
            left = factor * row[at] - sum(map(mul, own, shares[at]))
            result[place][column] = result[column][place] = left
    return result
