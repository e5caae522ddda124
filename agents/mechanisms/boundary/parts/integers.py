# SPDX-License-Identifier: Apache-2.0
"""Whole numbers of 8 or 4 bits, with one BF16 scale for each block of a token's channels.

A block's scale is its largest magnitude divided by 127 or 7, rounded to BF16; each number is
divided by it and rounded to the nearest whole number, halves to even. Every step is one IEEE 754
operation per element, so equal tensors give equal bytes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_SMALLEST = 2.0**-126  # the smallest normal BF16; a block below it is sent as zeros


def highest(bits: int) -> int:
    """The largest whole number of `bits` bits: the smallest one, -2^(bits - 1), is not used."""
    return int(2 ** (bits - 1)) - 1


def blocks(width: int, block: int) -> int:
    """Scales per token; `block` 0 is one for all channels."""
    return -(-width // (block or width)) if width else 0


def quantise(values: Tensor, bits: int, block: int) -> tuple[Tensor, Tensor]:
    """int8 [..., width] and BF16 scales [..., blocks] of fp32 [..., width], width at least 1."""
    cut = cut_up(values, block)
    scales = (cut.abs().amax(-1) / highest(bits)).to(torch.bfloat16)
    scales = torch.where(scales < _SMALLEST, torch.zeros_like(scales), scales)
    wide = scales.float().unsqueeze(-1)
    whole = torch.where(wide > 0, cut / wide, torch.zeros_like(cut)).round()
    whole = whole.clamp(-highest(bits), highest(bits)).to(torch.int8)
    return whole.flatten(-2)[..., : values.shape[-1]], scales


def restore(whole: Tensor, scales: Tensor, block: int) -> Tensor:
    """fp32 [..., width]: each number times its block's scale."""
    wide = cut_up(whole.float(), block) * scales.float().unsqueeze(-1)
    return wide.flatten(-2)[..., : whole.shape[-1]]


def empty_blocks_filled(whole: Tensor, scales: Tensor, block: int) -> bool:
    """Whether a number that is not 0 has a scale of 0: a second spelling of a zero."""
    return bool((cut_up(whole, block).ne(0).any(-1) & (scales == 0)).any())


def cut_up(values: Tensor, block: int) -> Tensor:
    """[..., blocks, block] of [..., width], the last block filled up with zeros."""
    width = values.shape[-1]
    size = block or width
    filled = functional.pad(values, (0, -width % size))
    return filled.view(*filled.shape[:-1], -1, size)
