# SPDX-License-Identifier: Apache-2.0
"""Means over ranks: values are sorted, then added from the smallest up, whoever sent them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.mechanisms.merge.parts import compiled
from agents.mechanisms.merge.parts.sorting_network import CHUNK, Selector
from agents.mechanisms.rows import Payload, check, chunks, empty_like, refuse_non_finite


def mean_of_ranks(payloads: Sequence[Payload], first: int, last: int) -> dict[str, Tensor]:
    """Per coordinate the mean of the values of rank `first` .. `last` - 1 (0 is the smallest).

    Float64 sum from the smallest up, float64 division, one rounding to fp32, zeros made +0.0.
    Memory beyond input and output: (n + 6) rows of 256 KiB. ValueError for an empty or mixed input
    and for a value that is not finite where it could reach the result (NaN always does).
    """
    check(payloads)
    update = empty_like(payloads[0])
    count = len(payloads)
    if not update:
        return update
    # On a GPU, division by a Python number is a multiplication by its rounded reciprocal.
    device = next(iter(update.values())).device
    divisor = torch.tensor(float(last - first), dtype=torch.float64, device=device)
    done = compiled.run(payloads, compiled.MeanOfRanks(count, first, last), update, divisor)
    selector: Selector | None = None
    for name, offset, rows in chunks(payloads, CHUNK):
        if name in done:
            continue
        part = update[name].view(-1)[offset : offset + rows[0].numel()]
        selector = selector or Selector(count, range(first, last), rows[0])
        total = torch.zeros(len(part), dtype=torch.float64, device=device)
        for row in selector(rows):
            total.add_(row)
        part.copy_(total.div_(divisor)).add_(0.0)
    refuse_non_finite(update)
    return update
