# SPDX-License-Identifier: Apache-2.0
"""The merge rule `centred_clipping`: each update pulls the centre, by the clip radius at most.

Centred clipping (Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust
Optimization", ICML 2021): v <- v + mean_i (x_i - v) min(1, tau / ||x_i - v||), a few times. The
paper starts at the previous round's aggregate. This rule keeps no state between rounds, so that a
verifier needs this round's payloads only, and starts at `anchor`: `medoid`, the payload whose
median distance to the others is least (with fewer than n / 2 liars within two honest diameters of
an honest one), or `zero`, no change of the model, which in one iteration gives the norm-clipped
mean. tau is `radius` times the median distance from the present centre, since no fixed length suits
every round. All centres are weighted means of payloads and anchor, so only the exact Gram matrix
(gram.py, with the zero anchor as an extra row) and one weighted sum are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.combine import combine, shares
from agents.mechanisms.merge.parts.gram import Gram, gram, middle
from agents.mechanisms.merge.parts.options import at_least, number, whole
from agents.mechanisms.merge.parts.space import distances_from
from agents.mechanisms.rows import Payload

_NAME = "centred_clipping"


@register(_NAME)
@dataclass(frozen=True, kw_only=True)
class CentredClipping:
    """The merge rule `centred_clipping`.

    Options: `iterations` (1 to 100), `radius` (0.01 to 100) in median distances, `anchor`.
    """

    iterations: int = 5
    radius: float = 1.0
    anchor: str = "medoid"

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or out of range."""
        whole(_NAME, "iterations", self.iterations, 1, 100)
        number(_NAME, "radius", self.radius, 0.01, 100.0)
        if self.anchor not in ("medoid", "zero"):
            raise ValueError(
                f"anchor of {_NAME} must be 'medoid' or 'zero', not {str(self.anchor)[:64]!r}."
            )

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """The clipped centre; see `agents.mechanisms.merge.Merge`.

        Stakes don't count. Memory beyond input and output: 12 n * 64 KiB. MergeRefused below 3
        updates.
        """
        count = len(payloads)
        at_least(_NAME, count, 3, "with fewer there is no majority for the centre to follow")
        weights = shares(self.weights(gram(payloads)))
        return combine(payloads, weights[:count], sum(weights))

    def weights(self, matrix: Gram) -> list[float]:
        """Weights of the payloads and, last, of the zero row, summing to 1."""
        count = matrix.count
        extended = Gram((*((*row, 0) for row in matrix.products), (0,) * (count + 1)), 0)
        distances = extended.distances()
        centre, unit = middle(matrix.distances())
        if self.anchor == "zero":
            centre = count
        unit = unit or max(max(row) for row in distances) or 1
        weights = [float(index == centre) for index in range(count + 1)]
        for _ in range(self.iterations):
            reach = distances_from(distances, unit, weights)[:count]
            limit = self.radius * sorted(reach)[(count - 1) // 2]
            pull = [min(1.0, limit / far) if far else 1.0 for far in reach] + [0.0]
            kept = 1.0 - math.fsum(pull) / count
            weights = [
                max(0.0, kept) * old + part / count for old, part in zip(weights, pull, strict=True)
            ]
        return weights
