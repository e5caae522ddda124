# SPDX-License-Identifier: Apache-2.0
"""The merge rule `median`: the coordinate-wise median, with the same bits on any hardware.

Odd n: the middle value. Even n: (a + b) * 0.5 in fp32 for the two middle values a <= b: one rounded
sum and one halving. Order statistics come from minima and maxima alone, so no rounding happens
before that, and permuting the payloads changes nothing. Devices disagree on which of -0.0 and +0.0
is the smaller, so every zero of the result is made +0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts import compiled
from agents.mechanisms.merge.parts.sorting_network import CHUNK, Selector
from agents.mechanisms.rows import Payload, check, chunks, empty_like, refuse_non_finite


@register("median")
@dataclass(frozen=True)
class Median:
    """The merge rule `median`; it has no options."""

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """Coordinate-wise median; see `agents.mechanisms.merge.Merge`.

        Stakes don't count. Memory beyond input and output: (n + 2) rows of 256 KiB.
        """
        check(payloads)
        update = empty_like(payloads[0])
        count = len(payloads)
        ranks = sorted({(count - 1) // 2, count // 2})
        done = compiled.run(payloads, compiled.MiddleOf(count), update)
        selector: Selector | None = None
        for name, offset, rows in chunks(payloads, CHUNK):
            if name in done:
                continue
            part = update[name].view(-1)[offset : offset + rows[0].numel()]
            selector = selector or Selector(count, ranks, rows[0])
            middle = selector(rows)
            if len(middle) == 1:
                torch.add(middle[0], 0.0, out=part)
            else:
                torch.add(middle[0], middle[1], out=part)
                part.mul_(0.5).add_(0.0)
        refuse_non_finite(update)
        return update
