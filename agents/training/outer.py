# SPDX-License-Identifier: Apache-2.0
"""The outer step of a stage's epoch: Nesterov's momentum on what the merge changed (DiLoCo).

Douillard et al., "DiLoCo", 2023, Algorithm 1, with torch's form of Nesterov's SGD:

    g = old - merged        v <- momentum * v + g        new = old - rate * (g + momentum * v)

Each is a single fp32 operation per element, never fused, so every machine gets the same bits.
Momentum 0 and rate 1 give the merged weights up to one rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agents.mechanisms.options import check_float


@dataclass(frozen=True)
class Outer:
    """Options of the outer step: `rate` (0 to 10), `momentum` (0 to 0.999). Rounded to fp32."""

    rate: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        """ValueError for an option out of range."""
        check_float("rate", self.rate, 0, 10)
        check_float("momentum", self.momentum, 0, 0.999)

    def step(
        self,
        old: Tensor,
        merged: Tensor,
        velocity: Tensor,
        lost: Iterable[tuple[int, int]] = (),
    ) -> tuple[Tensor, Tensor]:
        """New weights and velocity: fp32 CPU [length] each; the inputs stay as they are.

        In the spans `lost` (shards without an owner) both keep their old values: with g = 0 the
        velocity alone would move weights that nobody merged.

        Raises:
            ValueError: another dtype, unequal shapes, or a result that is not finite.
        """
        given = (old, merged, velocity)
        if any(one.dtype != torch.float32 or one.shape != old.shape for one in given):
            raise ValueError("Weights, merged weights and velocity must be fp32 of one shape.")
        rate, momentum = np.float32(self.rate), np.float32(self.momentum)
        before, after, speed = (one.detach().cpu().numpy() for one in given)
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = before - after
            speed = momentum * speed
            speed = speed + gradient
            ahead = momentum * speed
            ahead = gradient + ahead
            ahead = rate * ahead
            new = before - ahead
        for first, last in lost:
            new[first:last] = before[first:last]
            speed[first:last] = velocity[first:last].cpu().numpy()
        if not (np.isfinite(new).all() and np.isfinite(speed).all()):
            raise ValueError("The outer step's result is not finite; the old weights stay.")
        return torch.from_numpy(new), torch.from_numpy(speed)
