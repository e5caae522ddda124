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
from agents.training.evaluate import joined

Values = NDArray[np.float64]


class Cells:
    """The runs of tokens on which a node's work is looked for, those of one part after another's.

    Each sequence is cut into `runs` runs, as equal as can be; a run is a cell. Sequences take turns
    between the parts of the model (`agents.gauntlet.model_parts`): row r of batch i is for part
    (first + i + r) modulo `parts`.

    Attributes:
        part, batch: of each cell, int64; batches are counted from the first assigned one on.
    """

    def __init__(
        self,
        assigned: Sequence[Tensor],
        extra: Sequence[Tensor],
        options: Gauntlet,
        parts: int = 1,
        first: int = 0,
        at_once: int = 1,
    ) -> None:
        """`at_once`: sequences that may be one batch of `rows`, though they are of several."""
        self._runs = options.runs
        self._rows: list[list[Tensor]] = []
        of_part, of_batch = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for part in range(parts):
            found: list[Tensor] = []
            for index, batch in enumerate((*assigned, *extra)):
                rows = batch[(part - first - index) % parts :: parts]
                if len(rows):
                    found.append(rows)
                    count = len(rows) * self._cut(rows)
                    of_part.append(np.full(count, part))
                    of_batch.append(np.full(count, index))
            self._rows.append(joined(found, at_once))
        self.part: NDArray[np.int64] = np.concatenate(of_part)
        self.batch: NDArray[np.int64] = np.concatenate(of_batch)
        self._more = self.batch >= len(assigned)

    def __bool__(self) -> bool:
        return not self._more.all()

    def _cut(self, rows: Tensor) -> int:
        return min(self._runs, rows.shape[1] - 1)

    def rows(self, part: int) -> Sequence[Tensor]:
        """The sequences of a part, batch after batch: int64 [rows, seq + 1] each."""
        return self._rows[part]

    def means(self, losses: Sequence[Sequence[Values]]) -> Values:
        """Each cell's mean loss, from the losses [rows, seq] of every token of each part's rows."""
        found = [
            np.stack([run.mean(axis=1) for run in np.array_split(loss, self._cut(rows), axis=1)])
            for part, its_losses in enumerate(losses)
            for loss, rows in zip(its_losses, self._rows[part], strict=True)
        ]
        return np.concatenate([cells.T.ravel() for cells in found])

    def assigned_mean(self, values: Values) -> float:
        """The mean over the assigned cells."""
        return float(values[~self._more].mean())

    def shown(self, leads: Values) -> tuple[int, int]:
        """The work that leads beyond the usual show on the assigned cells, and on the extra ones:
        the share of cells that lead less the share that lag, -1..1 in millionths, rounded down."""
        return self._shares(np.sign(np.round(leads * NANO)).astype(np.int64))

    def unsure(self, leads: Values) -> tuple[int, int]:
        """What each of `shown` may differ by where the losses of cells differ by LOSS_TOLERANCE."""
        own, more = self._shares((np.abs(leads) <= LOSS_TOLERANCE).astype(np.int64))
        return 2 * own + 2, 2 * more + 2

    def _shares(self, signs: NDArray[np.int64]) -> tuple[int, int]:
        own, more = signs[~self._more], signs[self._more]
        return int(own.sum()) * MICRO // own.size, int(more.sum()) * MICRO // max(1, more.size)
