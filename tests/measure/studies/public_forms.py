# SPDX-License-Identifier: Apache-2.0
"""A rule that is tried, and in no job: what riders can make of the public past is taken out.

Taken out are, tensor by tensor and in numbers weighted by the past:

- the `HISTORY` newest merged updates and means of payloads, and the model;
- each node's last payload and the decayed sum of its payloads;
- m * 1[|m| in bin k] for m the decayed sum of the merges, of the means, and the last mean, in eight
  bins by powers of two: they span every odd function of m, up to steps;
- sign(m) * 1[m^2 / v in bin k] for m the decayed mean and v the decayed mean square of the
  payloads, likewise: odd functions of what Adam would step by.

Weights are the powers of two nearest to one over the numbers' usual magnitudes, so that a few large
ones don't decide. What is left is judged by how nearly it agrees with the others, beside what is
usual: x = alignment / median alignment of the others, and the quality rises from 0 at `LEAST` to 1
at `ENOUGH`. A node with fewer batches than the median, w of it, is held to sqrt(w) of that.

Everything but the projection is one exact or correctly rounded step per number, so a rule like this
can be computed alike on all machines; here the projection is in floating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import median

import torch
from torch import Tensor

from agents.mechanisms.score.parts.peers import (
    UNIT,
    alignments,
    copies,
    cosines,
    sizes,
    upper_middle,
)
from tests.attacks.riding import HISTORY, decayed, last, means, merges, squares
from tests.stage.memory.public_rounds import PublicRound

LEAST, ENOUGH = 0.5, 0.7
_BINS = 8
_ABOVE = 3  # bins above that of the largest tenth
_NOTHING = -500


class Forms:
    """What is left beyond all of these."""

    def __init__(
        self, tensors: Sequence[slice], past: Sequence[PublicRound], model: Tensor
    ) -> None:
        self._tensors = tensors
        exponents = _exponents(squares(past))
        self._weights = 2.0 ** -((exponents - _usual(exponents)) // 2).clamp(-4, 4).float()
        known = torch.stack([row for row in _known(past, model) if row.norm() > 0]) * self._weights
        self._axes = [_axes(known[:, piece]) for piece in tensors]

    def left(self, rows: Tensor) -> Tensor:
        rest = rows * self._weights
        for piece, axes in zip(self._tensors, self._axes, strict=True):
            rest[:, piece] -= (rest[:, piece] @ axes.T) @ axes
        return rest

    def back(self, rows: Tensor) -> Tensor:
        return rows / self._weights


def _known(past: Sequence[PublicRound], model: Tensor) -> list[Tensor]:
    recent = past[:HISTORY]
    total = sum(0.8**age for age in range(len(recent)))
    nodes = range(len(recent[0].sent))
    return [
        *(one.merged for one in recent),
        *(last(one) for one in recent),
        model,
        *recent[0].sent,
        *(decayed([one.sent[node] for one in recent]) for node in nodes),
        *_by_magnitude(merges(past)),
        *_by_magnitude(means(past)),
        *_by_magnitude(last(recent[0])),
        *_by_ratio(means(past), squares(past) * total),
    ]


def _exponents(row: Tensor) -> Tensor:
    """e with 2^(e-1) <= |x| < 2^e; far below all others for 0."""
    return torch.where(row != 0, torch.frexp(row).exponent, _NOTHING)


def _usual(exponents: Tensor) -> int:
    """That of the largest tenth."""
    return int(torch.kthvalue(exponents, max(1, exponents.numel() * 9 // 10)).values)


def _by_magnitude(row: Tensor) -> list[Tensor]:
    exponents = _exponents(row)
    place = (_usual(exponents) + _ABOVE - exponents).clamp(0, _BINS - 1)
    return [torch.where(place == k, row, 0.0) for k in range(_BINS)]


def _by_ratio(row: Tensor, square: Tensor) -> list[Tensor]:
    place = (-_exponents(row.square() / (square + 1e-38))).clamp(0, _BINS - 1)
    return [torch.where(place == k, row.sign(), 0.0) for k in range(_BINS)]


def _axes(known: Tensor) -> Tensor:
    """An orthonormal base [k, n] of the span of rows."""
    rows = known.double()
    lengths = rows.norm(dim=1)
    rows = rows[lengths > 0] / lengths[lengths > 0, None]
    if not len(rows):
        return known[:0]
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    good = values > 1e-9
    return ((vectors[:, good] / values[good].sqrt()).T @ rows).float()


def forms_quality(rows: Tensor, batches: Sequence[int]) -> list[int]:
    """Quality of each node in ppm, of what is left of its update."""
    length = rows.double().norm(dim=1)
    live = [i for i in range(len(rows)) if length[i] > 1e-6 * length.max()]
    unit = rows[live].double() / length[live, None]
    gram = [[round(value * 2**40) for value in row] for row in (unit @ unit.T).tolist()]
    cosine = cosines(gram)
    same = copies(cosine, UNIT * 99 // 100)
    usual = median(batches)
    found = [
        part / sqrt(min(1, batches[i] / usual))
        for i, part in zip(live, alignments(cosine, same), strict=True)
    ]
    relative = [int((float(length[i]) / float(length.max())) ** 2 * 2**60) + 1 for i in live]
    size = sizes(relative, [batches[i] for i in live], UNIT // 2, 2 * UNIT)
    quality = [0] * len(rows)
    for k, i in enumerate(live):
        others = [int(part) for part in (*found[:k], *found[k + 1 :])]
        reference = upper_middle(others) if others else 0
        share = found[k] / reference if reference else 0.0
        earned = min(1.0, max(0.0, (share - LEAST) / (ENOUGH - LEAST)))
        quality[i] = int(earned * size[k] / UNIT / (1 + len(same[k])) * 1_000_000)
    return quality
