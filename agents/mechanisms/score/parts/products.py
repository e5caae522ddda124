# SPDX-License-Identifier: Apache-2.0
"""Exact inner products for scores; no node's scale touches another's numbers.

`agents.mechanisms.merge.parts.gram` rounds payloads to integers once; how finely, depends on the
payloads' largest magnitudes. So each payload is first scaled by the power of two that takes its
largest magnitude into [0.5, 1), which is exact, and the scale is put back into its norm alone. A
payload times a power of two therefore has the same cosines to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agents.mechanisms.merge.parts.gram import gram_of_scaled
from agents.mechanisms.rows import Payload, check
from agents.mechanisms.score.parts.known import remainders

# Below this largest magnitude an update counts as zero. It keeps factors normal fp32 numbers, and
# is as far from any step of training as the upper limit of a payload is.
_LEAST_POWER = -100


@dataclass(frozen=True)
class Products:
    """Exact inner products of the payloads that are not zero.

    Attributes:
        live: their indices, ascending.
        gram: [m][m] for the m live payloads, each row and column in its own scale.
        squares: m squared norms, all in one scale, positive.
    """

    live: tuple[int, ...]
    gram: tuple[tuple[int, ...], ...]
    squares: tuple[int, ...]


def products(payloads: Sequence[Payload]) -> Products:
    """Inner products of finite fp32 dicts of equal names and shapes.

    Memory beyond the input: what `gram` needs; where payloads are so close that they are read
    again, one scaled copy of the widest tensor per payload. ValueError for an empty or mixed input
    or for a value that is not finite.
    """
    check(payloads)
    powers = [_power(payload) for payload in payloads]
    live = [index for index, power in enumerate(powers) if power is not None]
    scales = [power for power in powers if power is not None]
    if not live:
        return Products((), (), ())
    exact = gram_of_scaled([payloads[index] for index in live], scales).products
    least = min(scales)
    return Products(
        tuple(live),
        exact,
        # A norm is at least the largest magnitude, 0.5 here: far above the rounding of `gram`.
        tuple(exact[m][m] << 2 * (power - least) for m, power in enumerate(scales)),
    )


def _power(payload: Payload) -> int | None:
    """p with 2^(p-1) <= largest magnitude < 2^p; None for zero."""
    largest = 0.0
    for tensor in payload.values():
        if tensor.numel():
            low, high = torch.aminmax(tensor)
            # max() would skip a NaN that comes second; aminmax gives NaN in both.
            value = max(-low.item(), high.item())
            if not math.isfinite(value):
                raise ValueError("A payload holds a value that is not finite; refuse it before.")
            largest = max(largest, value)
    power = math.frexp(largest)[1]
    return power if largest and power > _LEAST_POWER else None


def added(
    payloads: Sequence[Payload], known: Sequence[Payload]
) -> tuple[list[int], list[list[int]], list[int]]:
    """As `products`, of what the payloads add to the span of `known`: live, gram, squares.

    A payload that lies in the span to the last digit is not live. ValueError as `products`.
    """
    exact = products([*known, *payloads])
    apart = sum(index < len(known) for index in exact.live)
    left = remainders(exact.gram, apart)
    rest = [place for place in range(len(left)) if left[place][place]]
    live = [exact.live[apart + place] - len(known) for place in rest]
    scales = [exact.squares[apart + p] // exact.gram[apart + p][apart + p] for p in rest]
    squares = [left[p][p] * scale for p, scale in zip(rest, scales, strict=True)]
    return live, [[left[p][q] for q in rest] for p in rest], squares
