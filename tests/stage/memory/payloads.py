# SPDX-License-Identifier: Apache-2.0
"""Payloads and references that the tests of the merge rules share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch

Payload = dict[str, torch.Tensor]


def payload(*values: float) -> Payload:
    return {"a": torch.tensor(values, dtype=torch.float32)}


def cluster(
    count: int, elements: int, spread: float = 1.0, seed: int = 0, base: float = 1.0
) -> list[Payload]:
    """`count` payloads: a common vector of norm base * sqrt(elements) plus noise, two tensors."""
    generator = torch.Generator().manual_seed(seed)
    common = base * torch.randn(elements, generator=generator)
    found = []
    for _ in range(count):
        values = common + spread * torch.randn(elements, generator=generator)
        found.append({"w": values[7:].clone(), "b": values[:7].clone()})
    return found


def matrix(payloads: Sequence[Payload]) -> np.ndarray:
    """float64 [n, d], tensors by ascending name."""
    return np.stack(
        [
            np.concatenate([entry[name].double().numpy().reshape(-1) for name in sorted(entry)])
            for entry in payloads
        ]
    )


def same_bits(one: Payload, other: Payload) -> bool:
    """Whether both hold the same names with the same bits."""
    return one.keys() == other.keys() and all(
        one[name].shape == other[name].shape
        and torch.equal(one[name].view(torch.int32), other[name].view(torch.int32))
        for name in one
    )


def squared_distances(rows: np.ndarray) -> np.ndarray:
    """float64 [n, n], by differences, so that closeness costs no precision."""
    return np.array([[np.square(one - other).sum() for other in rows] for one in rows])


def krum_choice(distances: np.ndarray, bad: int) -> list[int]:
    """Multi-Krum's selection by the definition, in float64."""
    count = len(distances)
    kept = count - bad - 2
    scores = [np.sort(np.delete(distances[row], row))[:kept].sum() for row in range(count)]
    return sorted(np.argsort(scores, kind="stable")[:kept].tolist())


def exact_products(payloads: Sequence[Payload]) -> list[list[Fraction]]:
    """Inner products in rational arithmetic, without any rounding."""
    rows = [[Fraction(value) for value in row] for row in matrix(payloads).tolist()]
    return [[sum(map(Fraction.__mul__, one, other), Fraction()) for other in rows] for one in rows]
