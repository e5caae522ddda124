# SPDX-License-Identifier: Apache-2.0
"""Newton-Schulz: the singular values of many matrices brought near 1 by products alone.

With X / |X| = U S V^T, each of five steps maps X to a X + (b X X^T + c (X X^T)^2) X, so every
singular value s goes through a s + b s^3 + c s^5. The coefficients are Keller Jordan's
(kellerjordan.github.io/posts/muon): steep at 0, and never settling, so the values end in a band
around 1 and not at 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_LEAST_NORM = 1e-7


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
    a, b, c = COEFFICIENTS
    norms = torch.linalg.vector_norm(matrices, dim=(-2, -1), keepdim=True)
    x = (matrices / norms.clamp_(min=_LEAST_NORM)).to(dtype)
    for _ in range(STEPS):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    result: Tensor = x.float()
    return result
