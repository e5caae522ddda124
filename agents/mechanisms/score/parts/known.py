# SPDX-License-Identifier: Apache-2.0
"""What an update adds to what everybody knew before the round.

A mean of past merged updates needs no training, and lies closer to what honest nodes send than
those lie to each other. So updates are compared after their components in the span of the known
vectors (the newest merged updates and the round's model) have been taken out. With G the inner
products of known vectors K and updates U, those of what is left are the Schur complement

    G_UU - G_UK G_KK^-1 G_KU.

It is computed from exact integers by Bareiss' elimination (Math. Comp. 22, 1968), whose divisions
leave no remainder. All its entries carry one common positive factor, which no cosine and no ratio
of norms shows. A known vector that depends on those before it adds nothing and is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    rows = [list(row) for row in gram]
    factor = 1
    for index in range(known):
        pivot = rows[index][index]
        if not pivot:
            continue  # a combination of those before it
        for later in range(index + 1, len(rows)):
            own, above = rows[later], rows[index]
            share = own[index]
            # Symmetric: the lower left half follows from the upper right one.
            for column in range(later, len(rows)):
                own[column] = (pivot * own[column] - share * above[column]) // factor
        for later in range(index + 1, len(rows)):
            for column in range(index + 1, later):
                rows[later][column] = rows[column][later]
        factor = pivot
    return [row[known:] for row in rows[known:]]
