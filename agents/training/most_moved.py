# SPDX-License-Identifier: Apache-2.0
"""How far steps of an inner optimizer can move a model at most, whatever gradients it gets.

Rule: a step multiplies a weight by `shrink`, 1 less rate times decay, and takes a part from it
that the optimizer bounds: each number by itself, or each row and column of a matrix by its L2 norm.
So after T steps a change is at most a share of the weight that it started from, and T such parts.
The roundings of fp32 are counted as a share of the weights, too. A change that is more than
`MARGIN` times that can't have been made by these steps.

Whether it is must be the same on every machine, also of a change that somebody made to lie right on
the edge. So only single operations of float64 on single numbers are used, which IEEE 754 fixes, and
sums in a stated order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agents.training.state import PayloadError, State

MARGIN = 2.0
"""How many times the bound is allowed, for what rounding does to an optimizer's own sums."""

Table = NDArray[np.float64]

_ROUNDING = 2.0**-22  # of a weight in a step: three operations in fp32, and a factor's own rounding
_CHUNK = 1 << 18  # numbers looked at together


@dataclass(frozen=True)
class Most:
    """How far one tensor can move.

    Attributes:
        share: of the magnitude that a weight started from.
        number: beyond that, each number.
        line: beyond that, the L2 norm of each row and each column of a matrix; infinite where only
            numbers are bounded.
    """

    share: float
    number: float
    line: float = math.inf

    def norm(self, shape: tuple[int, ...]) -> float:
        """The L2 norm of a tensor of this shape, beyond `share` of the weights' own."""
        whole = math.sqrt(math.prod(shape)) * self.number
        return min(whole, math.sqrt(min(shape)) * self.line) if len(shape) == 2 else whole


def over_steps(shrink: float, parts: Iterable[float]) -> tuple[float, float]:
    """After any number of these steps: what share of its magnitude a weight can have moved, and how
    far beyond. `parts`: what each step takes at most. Infinite if a float can't hold it."""
    kept = widest = growth = 1.0
    share = beyond = 0.0
    faster, steps = max(1.0, abs(shrink)), 0
    for part in parts:
        kept *= shrink
        growth *= faster
        share = max(share, abs(1.0 - kept))
        widest = max(widest, abs(kept))
        beyond = beyond * faster + part
        steps += 1
    rounding = steps * _ROUNDING * growth
    return share + rounding * widest, beyond * (1.0 + rounding)


def check_change(change: State, before: State, most: Mapping[str, Most]) -> None:
    """PayloadError unless no number, row or column has moved further than `MARGIN` times the most.

    `change`, `before`: fp32 CPU tensors of the same names and shapes. A tensor that `most` does not
    name is not looked at, nor is one that has no finite bound.
    """
    for name in sorted(change.keys() & most.keys()):
        limit, columns = most[name], np.zeros(1)
        if not math.isfinite(limit.share):
            continue
        longest = MARGIN * limit.line
        squared = longest * longest
        for first, moved, weights in _blocks(change[name], before[name]):
            beyond = np.maximum(np.abs(moved) - MARGIN * limit.share * np.abs(weights), 0.0)
            far = beyond > MARGIN * limit.number
            if far.any():
                place = first * beyond.shape[1] + int(far.argmax())
                raise _too_far(name, f"number {place}", limit.number)
            if math.isfinite(squared):
                squares = beyond * beyond
                columns = columns + _added(squares.T)
                far = _added(squares) > squared
                if far.any():
                    raise _too_far(name, f"row {first + int(far.argmax())}", limit.line)
        far = columns > squared
        if far.any():
            raise _too_far(name, f"column {int(far.argmax())}", limit.line)


def check_norms(change: State, limits: Mapping[str, float]) -> None:
    """PayloadError unless the L2 norm of each tensor is at most `MARGIN` times its limit. A tensor
    without a limit is not looked at."""
    for name in sorted(change.keys() & limits.keys()):
        if length(change[name]) > MARGIN * limits[name]:
            raise _too_far(name, "as a whole", limits[name])


def length(tensor: Tensor) -> float:
    """The L2 norm of an fp32 CPU tensor, the same on every machine."""
    parts = (_added((m * m).reshape(1, -1))[0] for _, m, _ in _blocks(tensor))
    return math.sqrt(math.fsum(parts))


def _blocks(moved: Tensor, weights: Tensor | None = None) -> Iterator[tuple[int, Table, Table]]:
    """Rows of both in float64, some at a time, with the first one's number. What is no matrix is
    one of rows as long as all but its first dimension."""
    if not moved.numel():
        return
    rows = moved.shape[0] if moved.dim() else 1
    tables = [t.reshape(rows, -1).numpy() for t in (moved, moved if weights is None else weights)]
    step = max(1, _CHUNK // tables[0].shape[1])
    for first in range(0, rows, step):
        one, other = (table[first : first + step].astype(np.float64) for table in tables)
        yield first, one, other


def _added(table: Table) -> Table:
    """The sum of each row, by adding its second half to its first until one number is left."""
    while (width := table.shape[1]) > 1:
        half = (width + 1) // 2
        folded = table[:, :half].copy()
        folded[:, : width - half] += table[:, half:]
        table = folded
    return table[:, 0]


def _too_far(name: str, what: str, most: float) -> PayloadError:
    return PayloadError(
        f"Tensor {name!r}, {what}, moved further than a round's steps can: more than "
        f"{MARGIN:g} times {most:.3g} beyond what decay takes."
    )
