# SPDX-License-Identifier: Apache-2.0
"""What an update adds to what is public: the part of it outside the span of past merged updates.

The merged updates of a job's rounds are published. Gradients of neighbouring rounds are alike, so
whoever sends the decayed mean of past updates lowers the loss without training, and whoever adds it
to a little work of its own sends the update of much work. The LossScore is therefore measured of

    update - sum_k w_k h_k,   w = argmin |update - sum_k w_k h_k|,

h_1 ... h_m being the last m merged updates (least squares; any combination of them leaves nothing).
The residual is brought back to the update's length, so a payload gains nothing by its public part
and loses nothing by its size. A payload of which less than LEAST of its length is left is public.

Inner products are exact sums (`agents.training.norms`); the small system is solved in float64, and
another machine's rounding moves a measured loss far less than the audit's tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from agents.training.norms import dot, norm
from agents.training.state import State

LEAST = 1e-3  # of an update's length: what fp32 leaves of one that is a sum of past updates
_SAME = 1e-9  # eigenvalues of the Gram matrix below this part of the largest are rounding


@dataclass(frozen=True)
class PublicPart:
    """The span of `history`: the last merged updates of a job, fp32, of equal names and shapes."""

    history: Sequence[State]

    @cached_property
    def _basis(self) -> tuple[tuple[State, float], ...]:
        """The updates that are not zero, each with its L2 norm."""
        found = [(update, norm(update)) for update in self.history]
        return tuple((u, n) for u, n in found if math.isfinite(n) and n > 0)

    @cached_property
    def _inverse(self) -> NDArray[np.float64]:
        """Pseudo-inverse of the Gram matrix of the updates at length 1."""
        count = len(self._basis)
        gram = np.eye(count)
        for i, (one, length) in enumerate(self._basis):
            for j in range(i):
                other, its = self._basis[j]
                gram[i, j] = gram[j, i] = dot(one, other) / (length * its)
        return np.linalg.pinv(gram, rcond=_SAME, hermitian=True)

    def without(self, update: State) -> State:
        """`update` without its public part, at its own length; zeros if hardly anything is left.

        Without history, or if its norm is 0 or no number, `update` as it is.
        """
        length = norm(update)
        if not self._basis or not math.isfinite(length) or length == 0:
            return update
        along = np.array([dot(update, past) / its for past, its in self._basis])
        weights = self._inverse @ along
        left = {name: tensor.clone() for name, tensor in update.items()}
        for weight, (past, its) in zip(weights.tolist(), self._basis, strict=True):
            for name in left:
                left[name] -= past[name] * (weight / its)
        rest = norm(left)
        if rest <= LEAST * length:
            return {name: torch.zeros_like(tensor) for name, tensor in update.items()}
        return {name: tensor * (length / rest) for name, tensor in left.items()}
