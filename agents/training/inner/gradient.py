# SPDX-License-Identifier: Apache-2.0
"""The inner optimizer `gradient`: no step, only the mean of the batches' gradients.

Each batch's gradient is taken at theta_0 and added to the others in order; the pseudo-gradient is
their sum divided by H, in fp32.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from agents.training.flat import FlatModule
from agents.training.most_moved import Most
from agents.training.optimizers import register
from agents.training.spec import Hyperparameters
from agents.training.state import Shapes, State


class MeanGradient:
    """The sum of gradients at one point; ``count`` of them make the mean."""

    def __init__(self, net: FlatModule, count: int) -> None:
        self.net, self.count = net, max(1, count)
        self.sum = torch.zeros_like(net.values)

    @torch.no_grad()
    def step(self) -> None:
        """Add the gradient in ``net.grads``; ``net.values`` stay as they are."""
        if not math.isfinite(float(torch.linalg.vector_norm(self.net.grads, dtype=torch.float64))):
            raise FloatingPointError("the gradient is not finite; the model has diverged")
        self.sum.add_(self.net.grads)

    @property
    def mean(self) -> Tensor:
        """fp32 [n], of the gradients so far over ``count``."""
        return self.sum / self.count

    @property
    def reached(self) -> Tensor:
        """theta_0 minus ``mean``: what the trace hashes after each batch."""
        return self.net.values - self.mean

    def update(self, start: Tensor) -> Tensor:
        """``mean``; the model did not move."""
        return self.mean

    def buffers(self) -> State:
        """None: the sum is of one round's start and of no other's."""
        return {}

    def resume(self, steps: int) -> None:
        """Nothing depends on it."""


@register("gradient")
@dataclass(frozen=True, kw_only=True)
class GradientChoice:
    """The inner optimizer ``gradient``: no step, only the mean of the batches' gradients."""

    makes_steps: ClassVar[bool] = False

    def start(self, net: FlatModule, hyper: Hyperparameters, batches: int) -> MeanGradient:
        """The sum is zero."""
        return MeanGradient(net, batches)

    def numbers(self, shapes: Shapes) -> int:
        """The sum and the mean."""
        return 2 * sum(math.prod(shape) for shape in shapes.values())

    def most_moved(
        self,
        shapes: Shapes,
        hidden: Collection[str],
        hyper: Hyperparameters,
        steps: int,
        earlier: int = 0,
    ) -> dict[str, Most]:
        """Nothing bounds a gradient that is not clipped."""
        return {}
