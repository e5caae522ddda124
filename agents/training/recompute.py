# SPDX-License-Identifier: Apache-2.0
"""A part of a model of which nothing is kept between forward and backward but what went in.

`torch.utils.checkpoint` does the same, and loads torch's compiler at its first call: 76 MB and
1.3 s of CPU. A miner's first call is in the middle of an epoch, where its neighbours wait.

As there, autograd's graph is that of the part done once, and gradients are summed in its order. A
function of autograd's around the part would sum them in another one, and change bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

Part = Callable[[Tensor], Tensor]


class _Enough(Exception):
    """All that the backward wants was found again."""


def recomputed(part: Part, x: Tensor) -> Tensor:
    """`part(x)`, which the backward does once more, as far as it needs to. It changes no bit.

    x and what the part reads must be the same then. Not for a part that draws: the second time it
    would draw other numbers.
    """
    again = _Again(part, x)
    with saved_tensors_hooks(again.leave_out, again.found):
        return part(x)


@dataclass
class _Again:
    """What a part keeps for its backward, in order: counted in the forward, then found again."""

    part: Part
    x: Tensor
    count: int = 0
    values: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = self.x.device.type
        self._mixed = kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)

    def leave_out(self, _: Tensor) -> int:
        self.count += 1
        return self.count - 1

    def found(self, number: int) -> Tensor:
        if number not in self.values:
            self._find()
        return self.values.pop(number)

    def _find(self) -> None:
        self.values.clear()
        x = self.x.detach().requires_grad_(self.x.requires_grad)
        hooks = saved_tensors_hooks(self._keep, lambda value: value)
        try:
            with torch.enable_grad(), torch.autocast(*self._mixed), hooks:
                self.part(x)
        except _Enough:
            pass

    def _keep(self, value: Tensor) -> None:
        self.values[len(self.values)] = value.detach()
        if len(self.values) == self.count:
            raise _Enough
