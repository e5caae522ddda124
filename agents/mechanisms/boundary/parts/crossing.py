# SPDX-License-Identifier: Apache-2.0
"""A boundary inside one process: what the bytes would do to codes and gradients, without bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Rounding = Callable[[Tensor], Tensor]


class _Crossing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, code: Tensor, rounded: Rounding) -> Tensor:
        ctx.rounded = rounded
        return rounded(code).view_as(code)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        return ctx.rounded(gradients[0]), None


def cross(code: Tensor, rounded: Rounding) -> Tensor:
    """The rounded code; its gradient is the rounded gradient, straight through the rounding."""
    crossed: Tensor = _Crossing.apply(code, rounded)  # type: ignore[no-untyped-call]
    return crossed
