# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8 bits with four bits of exponent and three of mantissa (E4M3, arXiv 2209.05433), and
one power of two for a whole tensor.

The power is the smallest that brings the largest magnitude to 384 or below, where the largest E4M3
is 448. Dividing by it changes no bit of a number's mantissa, and the conversion rounds to the
nearest, halves to even. So equal tensors give equal bytes.
"""

from __future__ import annotations

import torch
from torch import Tensor

EXPONENTS = (-110, 40)
"""The least and the largest exponent: below, the smallest E4M3 would be no normal fp32."""

_LARGEST = 384.0 / 512.0  # as a fraction of the power of two above it


def exponent_of(values: Tensor) -> Tensor:
    """int32 scalar on the tensor's device: the exponent that a tensor of any shape crosses with."""
    fraction, power = torch.frexp(values.float().abs().amax())
    exponent = power - torch.where(fraction <= _LARGEST, 9, 8)
    return exponent.clamp(*EXPONENTS).to(torch.int32)


def eighths(values: Tensor, exponent: Tensor) -> Tensor:
    """E4M3 of the same shape: the numbers over two to the exponent."""
    return (values.float() * _power_of_two(-exponent)).to(torch.float8_e4m3fn)


def widened(numbers: Tensor, exponent: Tensor) -> Tensor:
    """fp32 of the same shape: E4M3 numbers times two to the exponent; NaN stays NaN."""
    return numbers.float() * _power_of_two(exponent)


def _power_of_two(exponent: Tensor) -> Tensor:
    """fp32, made of its bits: a library's power may be one bit off."""
    return ((exponent.to(torch.int32) + 127) << 23).view(torch.float32)
