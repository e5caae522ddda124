# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8, 6 or 4 bits with a sign, an exponent and a mantissa, and a power of two for a group
of them.

    fp8   E4M3: 4 bits of exponent, 3 of mantissa (arXiv 2209.05433)
    fp6   E2M3: 2 and 3 (OCP Microscaling Formats 1.0): 0 to 7.5, in steps of 1/8 below 2
    fp4   E2M1: 2 and 1 (the same): 0, 0.5, 1, 1.5, 2, 3, 4, 6

The power is the smallest that brings a group's largest magnitude to 384, 7.5 or 6, or below.
Dividing by it changes no bit of a number's mantissa, and the conversion rounds to the nearest,
halves to even. So equal tensors give equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

EXPONENTS = (-110, 40)
"""The least and the largest exponent: below, the smallest number would be no normal fp32."""


def exponents_of(values: Tensor, largest: float) -> Tensor:
    """int32 [...] of [..., group]: the least exponents that bring groups to `largest` or below."""
    whole, place = torch.frexp(torch.tensor(largest, device=values.device))
    fraction, power = torch.frexp(values.float().abs().amax(-1))
    exponents = power - place + (fraction > whole).int()
    return exponents.clamp(*EXPONENTS).to(torch.int32)


def power_of_two(exponents: Tensor) -> Tensor:
    """fp32, made of its bits: a library's power may be one bit off."""
    return ((exponents.to(torch.int32) + 127) << 23).view(torch.float32)


class E4M3:
    """fp8. A number is a byte as torch has it; two of the 256 are NaN."""

    bits = 8
    largest = 384.0
    """The largest number is 448."""

    def numbers(self, values: Tensor, exponents: Tensor) -> Tensor:
        """uint8 [..., group]: fp32 [..., group] over two to the exponents, [...]."""
        scaled = values.float() * power_of_two(-exponents).unsqueeze(-1)
        return scaled.to(torch.float8_e4m3fn).view(torch.uint8)

    def widened(self, numbers: Tensor, exponents: Tensor) -> Tensor:
        """fp32 [..., group]: numbers times two to the exponents; NaN stays NaN."""
        plain = numbers.view(torch.float8_e4m3fn).float()
        return plain * power_of_two(exponents).unsqueeze(-1)


@dataclass(frozen=True)
class E2:
    """fp6 and fp4. A number is the sign, the exponent and the mantissa, from the highest bit on;
    each is finite.

    Attributes:
        mantissa: its bits, 3 or 1.
    """

    mantissa: int

    @property
    def bits(self) -> int:
        return 3 + self.mantissa

    @property
    def largest(self) -> float:
        return 8.0 - 2.0 ** (2 - self.mantissa)

    def numbers(self, values: Tensor, exponents: Tensor) -> Tensor:
        """uint8 [..., group]: fp32 [..., group] over two to the exponents, [...]."""
        scaled = values.float() * power_of_two(-exponents).unsqueeze(-1)
        # Below 2 steps are as wide as below 1: the exponents 0 and 1 have the same place.
        place = (torch.frexp(scaled)[1] - 1).clamp(0, 2)
        steps = (scaled.abs() * power_of_two(self.mantissa - place)).round().int()
        magnitude = (place << self.mantissa) + steps  # a step too many is the next place's first
        return (magnitude | torch.signbit(scaled).int() << self.bits - 1).to(torch.uint8)

    def widened(self, numbers: Tensor, exponents: Tensor) -> Tensor:
        """fp32 [..., group]: numbers times two to the exponents."""
        wide = numbers.int()
        magnitude = wide & (1 << self.bits - 1) - 1
        place = ((magnitude >> self.mantissa) - 1).clamp(min=0)
        steps = magnitude - (place << self.mantissa)
        plain = steps.float() * power_of_two(place - self.mantissa)
        signed = torch.where(wide >> self.bits - 1 > 0, -plain, plain)
        return signed * power_of_two(exponents).unsqueeze(-1)


SMALL: dict[str, E4M3 | E2] = {"fp8": E4M3(), "fp6": E2(3), "fp4": E2(1)}
