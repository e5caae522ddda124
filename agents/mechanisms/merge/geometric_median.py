# SPDX-License-Identifier: Apache-2.0
"""The merge rule `geometric_median`: the point whose summed distance to all payloads is least.

Weiszfeld's iteration in its smoothed form (Pillutla, Kakade, Harchaoui, "Robust Aggregation for
Federated Learning", IEEE TSP 2022): weights proportional to 1 / max(smoothing, distance to the
present point). All points on the way are weighted means of the payloads, so the iteration needs
their exact Gram matrix only (gram.py) and one weighted sum at the end. `smoothing` must be tiny
beside the distances, or the result is the plain mean; it is relative to the median distance.
Tolerates fewer than n / 2 liars. Moving all payloads moves the result with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.combine import combine, shares
from agents.mechanisms.merge.parts.gram import Integers, gram, middle
from agents.mechanisms.merge.parts.options import at_least, number, whole
from agents.mechanisms.merge.parts.space import distances_from, lowest
from agents.mechanisms.rows import Payload

_NAME = "geometric_median"
_SETTLED = 1e-9


@register(_NAME)
@dataclass(frozen=True, kw_only=True)
class GeometricMedian:
    """The merge rule `geometric_median`.

    Options: `iterations` (1 to 1000) at most, `smoothing` (1e-9 to 0.01) in median distances.
    """

    iterations: int = 100
    smoothing: float = 1e-6

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or out of range."""
        whole(_NAME, "iterations", self.iterations, 1, 1000)
        number(_NAME, "smoothing", self.smoothing, 1e-9, 0.01)

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """The geometric median; see `agents.mechanisms.merge.Merge`.

        Stakes don't count. Memory beyond input and output: 12 n * 64 KiB. MergeRefused below 3
        updates.
        """
        at_least(_NAME, len(payloads), 3, "with two, every point between them is as good")
        weights = shares(self.weights(gram(payloads).distances()))
        return combine(payloads, weights, sum(weights))

    def weights(self, distances: Integers) -> list[float]:
        """Weights of the payloads in the geometric median, summing to 1; from squared distances."""
        count = len(distances)
        centre, unit = middle(distances)
        if unit == 0:
            # More than half of the payloads are equal: the geometric median lies there.
            return [float(index == centre) for index in range(count)]
        start = lowest(distances[centre], count // 2 + 1)
        weights = [float(index in start) / len(start) for index in range(count)]
        for _ in range(self.iterations):
            reach = distances_from(distances, unit, weights)
            found = [1.0 / max(self.smoothing, distance) for distance in reach]
            total = math.fsum(found)
            found = [value / total for value in found]
            moved = max(abs(new - old) for new, old in zip(found, weights, strict=True))
            weights = found
            if moved < _SETTLED:
                break
        return weights
