# SPDX-License-Identifier: Apache-2.0
"""A weighted sum of payloads with the same bits on every machine.

Weights are integers below 2^29, so each product with an fp32 value (24 bits) is exact in float64: a
fused multiply-add then gives the same as a multiplication followed by an addition. Products are
added elementwise in the payloads' order, divided once and rounded once to fp32. A payload of weight
zero is not read. Equal payloads give that payload back exactly. Zeros are made +0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.mechanisms.merge.parts import passes
from agents.mechanisms.merge.parts.sorting_network import CHUNK
from agents.mechanisms.rows import Payload, check, chunks, empty_like

LIMIT = 1 << 29
_WHOLE = 1 << 28
_WIDTH = 1 << 14
"""Columns that a CPU adds at once: so few that torch gives them to one thread. Threads would wait
for one another after each row."""


def shares(weights: Sequence[float | int]) -> list[int]:
    """Integer weights proportional to `weights` (finite, none negative, one positive), sum <= 2^28.

    Integers are divided exactly, floats are each rounded to the nearest 2^-28 of their sum, so that
    equal weights stay equal. Divide by the sum of what is returned.
    """
    total = sum(weights)
    if not total > 0 or any(weight < 0 for weight in weights):
        raise ValueError("Weights must not be negative, and one at least must be positive.")
    if isinstance(total, int):
        return [int(weight) * _WHOLE // total for weight in weights]
    return [int(weight / total * _WHOLE) for weight in weights]


def combine(payloads: Sequence[Payload], weights: Sequence[int], divisor: int) -> dict[str, Tensor]:
    """sum_i weights[i] * payloads[i] / divisor, as fp32 dict of the payloads' names and shapes.

    Memory beyond input and output: 128 KiB. ValueError for weights outside [0, 2^29), a divisor
    below 1, another number of weights than payloads, or mixed payloads.
    """
    check(payloads)
    if len(weights) != len(payloads) or not all(0 <= weight < LIMIT for weight in weights):
        raise ValueError(f"Weights must be {len(payloads)} integers from 0 to 2^29 - 1.")
    if divisor < 1:
        raise ValueError(f"The divisor must be at least 1, not {divisor}.")
    update = empty_like(payloads[0])
    used = [index for index, weight in enumerate(weights) if weight]
    if not used or not update:
        return {name: tensor.zero_() for name, tensor in update.items()}
    chosen = [payloads[index] for index in used]
    factors = [float(weights[index]) for index in used]
    passes.CODE.ask(len(chosen) * sum(tensor.numel() for tensor in update.values()))
    done = {
        name
        for name, tensor in update.items()
        if passes.weighted_sum(
            [one[name].detach().reshape(-1) for one in chosen],
            factors,
            float(divisor),
            tensor.view(-1),
        )
    }
    # On a GPU, division by a Python number is a multiplication by its rounded reciprocal.
    device = next(iter(update.values())).device
    bottom = torch.tensor(float(divisor), dtype=torch.float64, device=device)
    width = _WIDTH if device.type == "cpu" else CHUNK
    for name, offset, rows in chunks(chosen, width):
        if name in done:
            continue
        part = update[name].view(-1)[offset : offset + rows[0].numel()]
        total = torch.zeros(len(part), dtype=torch.float64, device=device)
        for row, factor in zip(rows, factors, strict=True):
            total.add_(row, alpha=factor)
        part.copy_(total.div_(bottom)).add_(0.0)
    return update
