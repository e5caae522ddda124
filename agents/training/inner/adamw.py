# SPDX-License-Identifier: Apache-2.0
"""The inner optimizer `adamw` (arXiv 1711.05101), written out over flat vectors.

Its lines are elementwise operations (`parts/moments.py`), so a re-execution in the same determinism
class gives the same bits. Its state is both moments.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from agents.training.flat import FlatModule
from agents.training.inner.parts.moments import clip_norm, moments_of, most_by_moments
from agents.training.most_moved import Most
from agents.training.optimizers import register
from agents.training.spec import Hyperparameters
from agents.training.state import Shapes, State


class AdamW:
    """AdamW over the flat vectors of a model."""

    def __init__(self, net: FlatModule, hyper: Hyperparameters) -> None:
        self.net, self.hyper = net, hyper
        self._moments = moments_of(net.values, net.grads, net.decayed)

    def step(self) -> None:
        """Clip the gradient by its global norm and update ``net.values`` in place."""
        clip_norm(self.net.grads, self.hyper.grad_clip)
        self._moments.step(self.hyper)

    @property
    def reached(self) -> Tensor:
        """theta after the steps so far: ``net.values``."""
        return self.net.values

    def update(self, start: Tensor) -> Tensor:
        """theta_0 minus theta, one fp32 subtraction per element."""
        return start - self.net.values

    def buffers(self) -> State:
        """Both moments, in the network's layout."""
        return dict(zip(("first", "second"), self._moments.buffers, strict=True))

    def resume(self, steps: int) -> None:
        """Both moments come from so many steps."""
        self._moments.resume(self.hyper.betas, steps)


@register("adamw")
@dataclass(frozen=True, kw_only=True)
class AdamWChoice:
    """The inner optimizer ``adamw``."""

    makes_steps: ClassVar[bool] = True

    def start(self, net: FlatModule, hyper: Hyperparameters, batches: int) -> AdamW:
        """Both moments are zero."""
        return AdamW(net, hyper)

    def numbers(self, shapes: Shapes) -> int:
        """Both moments."""
        return 2 * sum(math.prod(shape) for shape in shapes.values())

    def most_moved(
        self,
        shapes: Shapes,
        hidden: Collection[str],
        hyper: Hyperparameters,
        steps: int,
        earlier: int = 0,
    ) -> dict[str, Most]:
        """Each number by itself; vectors have no decay."""
        return most_by_moments(shapes, hyper, steps, earlier)
