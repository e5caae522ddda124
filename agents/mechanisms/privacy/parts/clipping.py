# SPDX-License-Identifier: Apache-2.0
"""Clipping: afterwards the whole update's L2 norm is at most C, rounding to fp32 included.

The norm is the float64 one of all tensors together: fp32 norms of long vectors read up to 1 % low,
which would break the sensitivity. Rounding a coordinate to fp32 changes it by at most 2^-24 of
itself (or 2^-150 near zero) and the float64 sum of d squares errs by less than d * 2^-53, so aiming
at C * (1 - 2^-20) leaves the result at or below C for every d < 2^32 and C > 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

SAFETY = 1.0 - 2.0**-20
_CHUNK = 1 << 20


def norm(update: Mapping[str, Tensor]) -> float:
    """L2 norm over all tensors, float64. ValueError for an empty update, NaN or infinity."""
    if not update:
        raise ValueError("An update without tensors can't be clipped.")
    parts = []
    for name in sorted(update):
        for part in update[name].detach().reshape(-1).split(_CHUNK):
            wide = part.to(torch.float64)
            parts.append(float(torch.dot(wide, wide)))
    total = math.fsum(parts)
    if not math.isfinite(total):
        raise ValueError("The update holds NaN or infinity; it can't be clipped.")
    return math.sqrt(total)


def clip(update: Mapping[str, Tensor], bound: float) -> dict[str, Tensor]:
    """The fp32 update scaled down, as one vector, to norm <= `bound`; new tensors.

    ValueError for a bound that is not positive, an empty update, a tensor that is not fp32, NaN or
    infinity.
    """
    if not bound > 0.0:
        raise ValueError(f"The clipping bound must be positive, got {bound!r}.")
    for name, tensor in update.items():
        if tensor.dtype != torch.float32:
            raise ValueError(f"Tensor {name!r} is {tensor.dtype}; an update is float32.")
    size, inner = norm(update), bound * SAFETY
    if size <= inner:
        return {name: tensor.detach().clone() for name, tensor in update.items()}
    scale = inner / size
    return {
        name: tensor.detach().to(torch.float64).mul_(scale).to(torch.float32)
        for name, tensor in update.items()
    }
