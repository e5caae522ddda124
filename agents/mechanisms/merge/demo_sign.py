# SPDX-License-Identifier: Apache-2.0
"""The merge rule `demo_sign`: tensors of length 1 are added; the sum's sign is the update.

DeMo's merge as Gauntlet uses it (`arXiv 2505.21684`, Algorithm 1): normalising each peer's encoded
tensor removes their lengths, so a payload scaled by 10^6 counts as much as any other. The transform
of the codec `demo` is orthonormal, so norms and sums are taken after decoding. The update is -1, 0
or 1 in each coordinate: 0 where the sum is 0, because the nodes cancel or none sent this number. A
tensor that a node sent as all zeros counts as zeros, it is not divided by 0. Sums are exact
(`grid`): grid steps are 2^-43 of a node's length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.grid import BITS, check_count, squares, sums
from agents.mechanisms.rows import Payload, check, empty_like


@register("demo_sign")
@dataclass(frozen=True)
class DemoSign:
    """The merge rule `demo_sign`; it has no options. `signs`: no length of a payload counts."""

    signs: ClassVar[bool] = True

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """The sign of the mean of normalised payloads; see `agents.mechanisms.merge.Merge`.

        Stakes don't count, nor does the mean's divisor, n. Memory beyond input and output: 2 MiB.
        MergeRefused above 512 payloads; ValueError for a value that is not finite.
        """
        check(payloads)
        check_count("demo_sign", len(payloads))
        update = empty_like(payloads[0])
        factors = [
            {name: _factor(square) for name, square in entry.items()} for entry in squares(payloads)
        ]
        for name, offset, total in sums(payloads, factors):
            part = update[name].view(-1)[offset : offset + total.numel()]
            part.copy_(torch.sign(total)).add_(0.0)
        return update


def _factor(square: float) -> float:
    return math.ldexp(1 / math.sqrt(square), BITS) if square else 0.0
