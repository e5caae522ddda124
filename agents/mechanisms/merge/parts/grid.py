# SPDX-License-Identifier: Apache-2.0
"""Payloads are added as integers on one grid, so that the order of addition cannot matter.

Each number is multiplied by its payload's factor and rounded to a whole number of grid steps: two
elementwise float64 operations, the same on every machine. Whole numbers of at most 2^43 are then
added; with at most 2^9 payloads every partial sum is below 2^53, so float64 holds it exactly and
any order gives the same sum. Norms are sums of exact squares in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from agents.mechanisms.merge.parts.options import MergeRefused
from agents.mechanisms.merge.parts.sorting_network import CHUNK
from agents.mechanisms.rows import Payload, chunks

BITS = 43
MOST = 1 << 9


def check_count(rule: str, count: int) -> None:
    """MergeRefused for more payloads than can be added exactly."""
    if count > MOST:
        raise MergeRefused(f"{rule} can add at most {MOST} updates exactly and got {count}.")


def squares(payloads: Sequence[Payload]) -> list[dict[str, float]]:
    """Per payload and tensor the sum of its squares, in float64: the same bits everywhere.

    Squares of fp32 numbers are exact in float64, lanes are added row by row, and `math.fsum` adds
    the lanes. Relative error below 2^-53 times the number of rows. ValueError if one is not finite.
    """
    found: list[dict[str, float]] = [{} for _ in payloads]
    for index, payload in enumerate(payloads):
        for name in sorted(payload):
            found[index][name] = _sum_of_squares(payload[name])
            if not math.isfinite(found[index][name]):
                raise ValueError(
                    f"Tensor {name!r} of payload {index} holds a value that is not finite."
                )
    return found


def _sum_of_squares(tensor: Tensor) -> float:
    flat = tensor.detach().reshape(-1)
    lanes = torch.zeros(min(CHUNK, flat.numel()), dtype=torch.float64, device=flat.device)
    for start in range(0, flat.numel(), CHUNK):
        part = flat[start : start + CHUNK].double()
        lanes[: part.numel()].add_(part.mul_(part))
    while lanes.numel() > 256:
        half = -(-lanes.numel() // 2)
        folded = lanes[:half].clone()
        folded[: lanes.numel() - half].add_(lanes[half:])
        lanes = folded
    return math.fsum(lanes.tolist())


def sums(
    payloads: Sequence[Payload], factors: Sequence[dict[str, float]]
) -> Iterator[tuple[str, int, Tensor]]:
    """Yield (tensor name, offset, float64 whole numbers): sum_i round(factor_i * payload_i).

    `factors`: per payload and tensor, in grid steps per unit, such that no product exceeds 2^43.
    A tensor of factor 0 is not read. The sum is overwritten by the next step.
    """
    scratch: Tensor | None = None
    for name, offset, rows in chunks(payloads, CHUNK):
        if scratch is None:
            scratch = torch.empty((2, CHUNK), dtype=torch.float64, device=rows[0].device)
        total, part = scratch[:, : rows[0].numel()]
        total.zero_()
        for row, factor in zip(rows, factors, strict=True):
            if factor[name]:
                total.add_(part.copy_(row).mul_(factor[name]).round_())
        yield name, offset, total
