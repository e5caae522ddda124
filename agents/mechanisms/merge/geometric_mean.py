# SPDX-License-Identifier: Apache-2.0
"""The merge rule `geometric_mean`: per coordinate the n-th root of the product, where there is one.

IOTA's primer (section 5.2) averages shards by "a simple element-wise geometric mean" and says
nothing of signs. Here, per coordinate: where all n values have one sign, it is that sign times the
geometric mean of the magnitudes. Where a value is zero, it is zero, as the formula has it. Where
signs are mixed there is no geometric mean of real numbers, and the arithmetic mean (`mean`) takes
its place. So a value that crosses zero moves the result by a jump.

One liar can move the result as far as it likes, and more cheaply than with `mean`: values of 1e-38
in place of 1 shrink the result of n = 10 by a factor of 6,300 at no suspicious length, and one
zero makes it zero. It is here because the primer names it.

Logarithms and exponentials of a library differ from machine to machine. These are series of single
elementwise float64 operations, within 1e-14, on values sorted as in mean.py: the same bits on any
hardware and in any order of payloads. Zeros are made +0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.ranks import mean_of_ranks
from agents.mechanisms.merge.parts.sorting_network import CHUNK, Selector
from agents.mechanisms.rows import Payload, chunks

_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476


@register("geometric_mean")
@dataclass(frozen=True)
class GeometricMean:
    """The merge rule `geometric_mean`; it has no options."""

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """Coordinate-wise geometric mean; see `agents.mechanisms.merge.Merge`.

        Stakes don't count. Memory beyond input and output: (n + 12) rows of 512 KiB. ValueError for
        a value that is not finite, as `mean`.
        """
        count = len(payloads)
        update = mean_of_ranks(payloads, 0, count)
        selector: Selector | None = None
        for name, offset, rows in chunks(payloads, CHUNK):
            part = update[name].view(-1)[offset : offset + rows[0].numel()]
            selector = selector or Selector(count, range(count), rows[0])
            ranked = [row.clone() for row in selector(rows)]
            part.copy_(_geometric(ranked, part)).add_(0.0)
        return update


def _geometric(ranked: Sequence[Tensor], arithmetic: Tensor) -> Tensor:
    """Float64 [width] of fp32 rows in ascending order; `arithmetic` where signs are mixed."""
    least, most = ranked[0], ranked[-1]
    total = torch.zeros_like(least, dtype=torch.float64)
    for row in ranked:
        # A magnitude of zero is replaced where its logarithm is not used.
        total.add_(_log2(torch.where(row == 0, 1.0, row.double().abs())))
    divisor = torch.tensor(float(len(ranked)), dtype=torch.float64, device=total.device)
    magnitude = _exp2(total.div_(divisor))
    signed = torch.where(most < 0, -magnitude, magnitude)
    one_sign = (least > 0) | (most < 0)
    mixed = (least < 0) & (most > 0)
    return torch.where(one_sign, signed, torch.where(mixed, arithmetic.double(), 0.0))


def _log2(values: Tensor) -> Tensor:
    """log2 of positive float64 numbers: ln m = 2 atanh((m - 1) / (m + 1)), |argument| < 0.172."""
    mantissa, exponent = torch.frexp(values)
    low = mantissa < _ROOT_HALF
    mantissa = torch.where(low, mantissa * 2.0, mantissa)
    power = exponent.double() - low.double()
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = torch.zeros_like(s)
    for k in range(21, 0, -2):
        series = series * square + 1.0 / k
    return series * s * (2.0 / _LN2) + power


def _exp2(values: Tensor) -> Tensor:
    """2^x of float64 numbers of fp32's range: Taylor's series of e^y with |y| < 0.347."""
    whole = torch.round(values)
    y = (values - whole) * _LN2
    series = torch.ones_like(y)
    for k in range(14, 0, -1):
        series = series * y * (1.0 / k) + 1.0
    # The bits of 2^whole: a library's power function need not be exact everywhere.
    return series * ((whole.to(torch.int64) + 1023) << 52).view(torch.float64)
