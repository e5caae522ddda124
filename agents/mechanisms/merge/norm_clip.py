# SPDX-License-Identifier: Apache-2.0
"""The merge rule `norm_clip`: updates longer than the median are shortened to it; then the mean.

SparseLoCo's jobs merge by this rule (Templar's clipping to the median norm). The divisor is n, the
number of payloads, in every coordinate: the published code divides each by the nodes that happened
to send it, so that a coordinate which one liar alone names gets the liar's full value. The median
is the lower one, since liars may be long, and a payload of zeros has length 0 and a place in n.

Clipping bounds a liar's length, not its direction: two of eight that reverse their update halve
the mean. With `byzantine_fraction` the rule first leaves out those that point away from the others:
of n payloads floor(fraction * n) at most, of which the lower median of the inner products with the
other payloads, each clipped, is below 0; the most negative first. Where honest payloads pairwise
point the same way, and liars are fewer than the honest others of a node, no liars can have an
honest one left out, and none can vouch for another. Inner products are exact integers (`gram`). The
mean is then over those left in. It does nothing against noise or a direction that is merely new.

Sums are exact (`grid`): a payload that isn't shortened is taken bit for bit down to 2^-43 of the
median norm, the sum is divided by n and rounded once to fp32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.gram import gram
from agents.mechanisms.merge.parts.grid import BITS, check_count, squares, sums
from agents.mechanisms.merge.parts.options import liars, number
from agents.mechanisms.merge.parts.space import clip_factors, lowest, scaled
from agents.mechanisms.rows import Payload, check, empty_like

_NAME = "norm_clip"


@register(_NAME)
@dataclass(frozen=True, kw_only=True)
class NormClip:
    """The merge rule `norm_clip`.

    Option: `byzantine_fraction` (0 to 0.499), of which at most are left out for pointing away from
    the others; with 0, the default, nobody is.
    """

    byzantine_fraction: float = 0.0

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or out of range."""
        number(_NAME, "byzantine_fraction", self.byzantine_fraction, 0.0, 0.499)

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """Mean of payloads clipped to the median norm; see `agents.mechanisms.merge.Merge`.

        Stakes don't count. Memory beyond input and output: 2 MiB, and 12 n * 64 KiB where some may
        be left out. MergeRefused above 512 payloads; ValueError for a value that is not finite.
        """
        names = check(payloads)
        check_count(_NAME, len(payloads))
        away = self.opposed(payloads)
        payloads = [payload for index, payload in enumerate(payloads) if index not in away]
        update = empty_like(payloads[0])
        norms = [math.sqrt(math.fsum(entry.values())) for entry in squares(payloads)]
        middle = sorted(norms)[(len(norms) - 1) // 2]
        if not middle or not names:
            return {name: tensor.zero_() for name, tensor in update.items()}
        # No number of a clipped payload exceeds the median norm, which is below 2^power.
        step = math.ldexp(1.0, math.frexp(middle)[1] - BITS)
        factors = [clip_factor(norm, middle) / step for norm in norms]
        device = update[names[0]].device
        # On a GPU, division by a Python number is a multiplication by its rounded reciprocal.
        divisor = torch.tensor(float(len(payloads)), dtype=torch.float64, device=device)
        tables = [dict.fromkeys(names, factor) for factor in factors]
        for name, offset, total in sums(payloads, tables):
            part = update[name].view(-1)[offset : offset + total.numel()]
            part.copy_(total.mul_(step).div_(divisor)).add_(0.0)
        return update

    def opposed(self, payloads: Sequence[Payload]) -> set[int]:
        """Indices of the payloads that are left out."""
        most = liars(self.byzantine_fraction, len(payloads))
        if not most:
            return set()
        matrix = gram(payloads)
        clipped = scaled(matrix, clip_factors(matrix)).products
        middles = [
            sorted(row[:index] + row[index + 1 :])[(len(row) - 2) // 2]
            for index, row in enumerate(clipped)
        ]
        return {index for index in lowest(middles, most) if middles[index] < 0}


def clip_factor(norm: float, middle: float) -> float:
    """min(1, median norm / own norm), in float64."""
    return middle / norm if norm > middle else 1.0
