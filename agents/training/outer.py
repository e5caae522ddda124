# SPDX-License-Identifier: Apache-2.0
"""The outer step with momentum: Nesterov's, on what a round's merge changed (DiLoCo).

Douillard et al., "DiLoCo", 2023, Algorithm 1, with torch's form of Nesterov's SGD. g is the merged
change, old weights less merged ones:

    v <- momentum * v + g        new = old - rate * (g + momentum * v)

Each is a single fp32 operation per element, never fused, so every machine gets the same bits.

A number of which g is zero stays, and so does its velocity. An update does not say why a number was
not moved: its stage had no quorum, its shard was lost, or the miners agreed on nothing. Velocity
alone would otherwise move weights that nobody merged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agents.mechanisms.options import check_float

VELOCITY = "velocity."
"""Before a weight's name: the name of its velocity in a model's state."""


@dataclass(frozen=True)
class Outer:
    """Options of the outer step: `rate` (0 to 10), `momentum` (0 to 0.999). Rounded to fp32."""

    rate: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        """ValueError for an option out of range."""
        check_float("rate", self.rate, 0, 10)
        check_float("momentum", self.momentum, 0, 0.999)

    def step(self, old: Tensor, change: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        """New weights and velocity: fp32 CPU tensors of their shape; the inputs stay as they are.

        `change`: what is to be subtracted, were there neither rate nor momentum.

        Raises:
            ValueError: another dtype, unequal shapes, or a result that is not finite.
        """
        given = (old, change, velocity)
        if any(one.dtype != torch.float32 or one.shape != old.shape for one in given):
            raise ValueError("Weights, their change and velocity must be fp32 of one shape.")
        rate, momentum = np.float32(self.rate), np.float32(self.momentum)
        before, gradient, slow = (one.detach().cpu().numpy() for one in given)
        still = gradient == 0
        with np.errstate(over="ignore", invalid="ignore"):
            speed = momentum * slow
            speed = speed + gradient
            ahead = momentum * speed
            ahead = gradient + ahead
            ahead = rate * ahead
            new = before - ahead
        new = np.where(still, before, new)
        speed = np.where(still, slow, speed)
        if not (np.isfinite(new).all() and np.isfinite(speed).all()):
            raise ValueError("The outer step's result is not finite; the old weights stay.")
        return torch.from_numpy(new), torch.from_numpy(speed)
