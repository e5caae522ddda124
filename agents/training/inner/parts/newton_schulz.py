# SPDX-License-Identifier: Apache-2.0
"""Newton-Schulz: the singular values of many matrices brought near 1 by products alone.

With X / |X| = U S V^T, each of five steps maps X to a X + (b X X^T + c (X X^T)^2) X, so every
singular value s goes through a s + b s^3 + c s^5. The coefficients are Keller Jordan's
(kellerjordan.github.io/posts/muon): steep at 0, and never settling, so the values end in a band
around 1 and not at 1.

All powers of X X^T commute. So of a wide X, steps can be taken on its Gram matrix alone: with
G = X X^T and Q = a I + b G + c G^2 the next G is Q G Q, and the product of all Q is applied to X at
the end. A rounding of G grows twelvefold with each such step, so after three steps G is taken anew
from X (the restart of Dao AI Lab's Gram Newton-Schulz). Four of ten products with X remain, and
the result is as near to that of exact products as with products one by one, below 1e-5 for any
matrix. In bf16 all products are taken with X.

X X^T, G^2, Q G, (Q G) Q and products of the Q are symmetric. Where a CPU's time is that of its
multiplications, from `_SYMMETRIC` rows on, only blocks on and under the diagonal are computed in
fp32, and the rest is their mirror image.
"""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
LARGEST = {torch.float32: 1.203, torch.bfloat16: 2.406}
"""No singular value of a result is above this, by the dtype of the products. A step maps 0 to 1.203
into itself, and no singular value is above its matrix's Frobenius norm. What fp32 rounds is below
the last digit here. What bf16 rounds has no proof: this is twice as much, and the largest that was
found is 1.206 (`tests/agents/training/test_most_moved.py`)."""

_LEAST_NORM = 1e-7
_WIDE = 2  # columns over rows from which the Gram side takes fewer operations
_ANEW = (3, 2)  # steps that are taken on one Gram matrix, STEPS in all
_SYMMETRIC = 512  # rows from which half of a symmetric product is left out
_BLOCK = 128  # rows of it that are computed at once


@torch.no_grad()
def orthogonalised(matrices: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """About U V^T of each matrix U S V^T.

    Args:
        matrices: fp32 [k, m, n] with m <= n: products are then [m, m].
        dtype: of the products, float32 or bfloat16. The norm is always fp32.

    Returns:
        fp32 [k, m, n]. In fp32, singular values of at least 1 % of their matrix's Frobenius norm
        come to lie between 0.681 and 1.135, those of at least 0.2 % between 0.681 and 1.203, and
        smaller ones below. A matrix of zeros stays one.
    """
    if dtype == torch.float32 and len(matrices) > 1 and _in_blocks(matrices):
        # What one of them needs is given back to the next; for all, the system clears new pages.
        return torch.cat([orthogonalised(one) for one in matrices.split(1)])
    norms = torch.linalg.vector_norm(matrices, dim=(-2, -1), keepdim=True)
    x = (matrices / norms.clamp_(min=_LEAST_NORM)).to(dtype)
    if dtype == torch.float32 and x.shape[-1] >= _WIDE * x.shape[-2]:
        for steps in _ANEW:
            x = torch.bmm(_together(_symmetric(x, x.mT), steps), x)
    else:
        for _ in range(STEPS):
            x = torch.baddbmm(x, _powers(_symmetric(x, x.mT)), x, beta=COEFFICIENTS[0])
    result: Tensor = x.float()
    return result


def _together(gram: Tensor, steps: int) -> Tensor:
    """What so many steps together multiply X with. ``gram``: X X^T, fp32 [k, m, m]."""
    product = factor = _factor(gram)
    for _ in range(steps - 1):
        gram = _symmetric(_symmetric(factor, gram), factor)
        factor = _factor(gram)
        product = _symmetric(factor, product)
    return product


def _factor(gram: Tensor) -> Tensor:
    """a I + b G + c G^2."""
    factor = _powers(gram)
    factor.diagonal(dim1=-2, dim2=-1).add_(COEFFICIENTS[0])
    return factor


def _powers(gram: Tensor) -> Tensor:
    """b G + c G^2."""
    _, b, c = COEFFICIENTS
    if _in_blocks(gram):
        return _symmetric(gram, gram).mul_(c).add_(gram, alpha=b)
    return torch.baddbmm(gram, gram, gram, beta=b, alpha=c)


def _symmetric(left: Tensor, right: Tensor) -> Tensor:
    """The product [k, m, m] of [k, m, n] and [k, n, m], which is symmetric but for rounding."""
    if not _in_blocks(left):
        return torch.bmm(left, right)
    rows = left.shape[-2]
    product = left.new_empty(len(left), rows, rows)
    for first in range(0, rows, _BLOCK):
        last = min(first + _BLOCK, rows)
        part = torch.bmm(left[:, first:last], right[:, :, :last])
        product[:, first:last, :last] = part
        product[:, :first, first:last] = part[..., :first].mT
    return product


def _in_blocks(matrices: Tensor) -> bool:
    return (
        matrices.device.type == "cpu"
        and matrices.dtype == torch.float32
        and matrices.shape[-2] >= _SYMMETRIC
    )
