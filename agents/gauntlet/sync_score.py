# SPDX-License-Identifier: Apache-2.0
"""SyncScore: whether the parameters that a node committed to are those of the round's model.

Gauntlet's SyncScore (Lidin et al., 2025, section 3.2), (1 / alpha) * mean |theta_v - theta_p| over
a few parameters that nobody could foresee. With signed updates every parameter moves by alpha or
not at all, so the score counts, roughly, the updates in which a node's model differs.

Two things it is not. It is not an exact count: moves of both signs cancel, so a node n rounds
behind scores between E|S_n|, the mean distance of a random walk (1.5 after 3 rounds, 3.5 after 20),
and n; here, where every honest node's model has the same bits and its score is 0, a limit far below
the paper's 3 is possible. And it says nothing about what the node trained: whoever keeps the right
model can commit to it and train from another.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def sync_score(theirs: NDArray[np.float32], ours: NDArray[np.float32], alpha: float) -> float:
    """mean |theirs - ours| / alpha, the same on every machine; inf if theirs has a NaN or infinity.

    Args:
        theirs, ours: fp32 [n], the node's and the round's values of the same parameters.
        alpha: how far one update moves a parameter, positive: the outer learning rate if updates
            are signs, else a mean change.

    Raises:
        ValueError: no values, different shapes, a model of ours that isn't finite, or an `alpha`
            that isn't a positive number.
    """
    if theirs.shape != ours.shape or ours.ndim != 1 or not ours.size:
        raise ValueError(f"{theirs.shape} values can't be compared with {ours.shape}.")
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"The learning rate must be a positive number, not {alpha!r}.")
    if not np.isfinite(ours).all():
        raise ValueError("The round's model holds a value that is not finite.")
    if not np.isfinite(theirs).all():
        return math.inf
    gaps = np.abs(theirs.astype(np.float64) - ours.astype(np.float64))
    return math.fsum(gaps.tolist()) / ours.size / alpha
