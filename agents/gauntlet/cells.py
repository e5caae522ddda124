# SPDX-License-Identifier: Apache-2.0
"""Cells: the runs of tokens on which an update's work is looked for, and what it shows there.

A sum over tokens would say how large a lead is, and a part of the work gives most of that; so the
runs on which an update leads are counted (`agents.gauntlet.primary_evaluation`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agents.gauntlet.loss_score import LOSS_TOLERANCE, NANO
from agents.gauntlet.ratings import MICRO
from agents.mechanisms.score.gauntlet import Gauntlet

Values = NDArray[np.float64]


class Cells:
    """The runs of tokens on which a node's work is looked for: its assigned ones, then the extra.

    Each sequence is cut into `runs` runs, as equal as can be; a run is a cell.
    """

    def __init__(
        self, assigned: Sequence[Tensor], extra: Sequence[Tensor], options: Gauntlet
    ) -> None:
        self.batches = (*assigned, *extra)
        self._runs, self._extra = options.runs, options.extra if extra else 0
        self._assigned = sum(len(batch) * self._cut(batch) for batch in assigned)

    def __bool__(self) -> bool:
        return self._assigned > 0

    def _cut(self, batch: Tensor) -> int:
        return min(self._runs, batch.shape[1] - 1)

    def means(self, losses: Sequence[Values]) -> Values:
        """Each cell's mean loss, from the losses [batch, seq] of every token."""
        parts = [
            np.stack([run.mean(axis=1) for run in np.array_split(part, self._cut(batch), axis=1)])
            for part, batch in zip(losses, self.batches, strict=True)
        ]
        return np.concatenate([part.T.ravel() for part in parts])

    def assigned_mean(self, values: Values) -> float:
        """The mean over the assigned cells."""
        return float(values[: self._assigned].mean())

    def shown(self, leads: Values) -> int:
        """The work that leads beyond the usual show, -1..1 in millionths, rounded down.

        The share of cells that lead less the share that lag, of the assigned ones and of the extra
        ones, weighted by how many batches of either a node may train on.
        """
        signs = np.sign(np.round(leads * NANO)).astype(np.int64)
        return self._weighted(signs)

    def unsure(self, leads: Values) -> int:
        """What `shown` may differ by where the losses of cells differ by LOSS_TOLERANCE."""
        return 2 * self._weighted((np.abs(leads) <= LOSS_TOLERANCE).astype(np.int64)) + 2

    def _weighted(self, signs: NDArray[np.int64]) -> int:
        own, more = signs[: self._assigned], signs[self._assigned :]
        total = int(own.sum()) * MICRO // own.size
        if more.size:
            total += self._extra * (int(more.sum()) * MICRO // more.size)
        return total // (1 + self._extra)
