# SPDX-License-Identifier: Apache-2.0
"""AdamW (arXiv 1711.05101) on one run of numbers, and the bound on a gradient's norm.

Powers of the betas are repeated products, and each line is one elementwise operation, so the same
numbers give the same bits.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agents.training.spec import Hyperparameters


@torch.no_grad()
def clip_norm(gradient: Tensor, bound: float) -> None:
    """Scale fp32 [n] in place so that its L2 norm, taken in fp64, is at most ``bound``.

    Raises:
        FloatingPointError: the norm is not finite.
    """
    norm = float(torch.linalg.vector_norm(gradient, dtype=torch.float64))
    if not math.isfinite(norm):
        raise FloatingPointError("the gradient is not finite; lower the learning rate")
    if norm > bound:
        gradient.mul_(bound / norm)


class Moments:
    """Both moments of a run of numbers, from zero; ``step`` counts from 1."""

    def __init__(self, values: Tensor, gradient: Tensor, decayed: int) -> None:
        """``values``, ``gradient``: fp32 [n] views; the first ``decayed`` numbers have decay."""
        self._values, self._gradient, self._decayed = values, gradient, decayed
        self._first = torch.zeros_like(values)
        self._second = torch.zeros_like(values)
        self._power1 = self._power2 = 1.0

    @property
    def buffers(self) -> tuple[Tensor, Tensor]:
        """The first and the second moment, fp32 [n] each: views."""
        return self._first, self._second

    def resume(self, betas: tuple[float, float], steps: int) -> None:
        """Both moments come from so many steps: the powers are what repeated products give."""
        self._power1 = self._power2 = 1.0
        for _ in range(steps):
            self._power1 *= betas[0]
            self._power2 *= betas[1]

    @torch.no_grad()
    def step(self, hyper: Hyperparameters) -> None:
        """Update the values in place by their gradient, which was clipped before."""
        beta1, beta2 = hyper.betas
        self._power1 *= beta1
        self._power2 *= beta2
        self._first.mul_(beta1).add_(self._gradient * (1.0 - beta1))
        self._second.mul_(beta2).add_(self._gradient.square() * (1.0 - beta2))
        self._values[: self._decayed].mul_(1.0 - hyper.lr * hyper.weight_decay)
        denominator = (self._second / (1.0 - self._power2)).sqrt_().add_(hyper.eps)
        self._values.sub_((self._first / denominator).mul_(hyper.lr / (1.0 - self._power1)))
