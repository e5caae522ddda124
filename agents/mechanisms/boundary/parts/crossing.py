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
    def forward(ctx: Any, code: Tensor, there: Rounding, back: Rounding) -> Tensor:
        ctx.back = back
        return there(code).view_as(code)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        return ctx.back(gradients[0]), None, None


def cross(code: Tensor, there: Rounding, back: Rounding) -> Tensor:
    """The code rounded by `there`; its gradient is the gradient rounded by `back`, straight through
    the code's rounding."""
    crossed: Tensor = _Crossing.apply(code, there, back)  # type: ignore[no-untyped-call]
    return crossed
