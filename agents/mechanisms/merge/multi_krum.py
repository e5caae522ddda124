# SPDX-License-Identifier: Apache-2.0
"""The merge rule `multi_krum`: averages the updates closest to the others, drops the rest.

Multi-Krum (Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries", NeurIPS
2017): of n updates at most f are from liars; update i scores the sum of its n - f - 2 smallest
*squared* distances to others; the n - f - 2 updates of least score are averaged. Everything up to
the selection is done with exact integers (gram.py), so every machine selects the same updates;
ties go to the lower node id. Before, updates are shortened to the median norm: nobody's length
counts for more than a typical one. f counts identities, so stake must not buy more than an
identity's worth: in the average a stake counts at most `stake_cap` times the median stake of the
round.

Source of the default f and of n - f - 2: ZIP-400, which takes unsquared distances; Krum's proof
needs squares. Optionally nearest-neighbour mixing first (Allouah et al., "Fixing by Mixing",
AISTATS 2023): each update is replaced by the mean of the n - f nearest to it, itself included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from torch import Tensor

from agents.mechanisms.merge import register
from agents.mechanisms.merge.parts.combine import combine, shares
from agents.mechanisms.merge.parts.gram import Gram, Integers, gram
from agents.mechanisms.merge.parts.options import MergeRefused, flag, liars, number
from agents.mechanisms.merge.parts.space import clip_factors, lowest, mixed, scaled
from agents.mechanisms.rows import Payload

_NAME = "multi_krum"


@register(_NAME)
@dataclass(frozen=True, kw_only=True)
class MultiKrum:
    """The merge rule `multi_krum`.

    Options: `byzantine_fraction` (0 to 0.499) gives f = floor(byzantine_fraction * n); `stake_cap`
    (1 to 1000) bounds a stake, in median stakes of the round; `clip` shortens updates to the median
    norm; `mixing` mixes nearest neighbours first.
    """

    byzantine_fraction: float = 0.3
    stake_cap: float = 2.0
    clip: bool = True
    mixing: bool = False

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or out of range."""
        number(_NAME, "byzantine_fraction", self.byzantine_fraction, 0.0, 0.499)
        number(_NAME, "stake_cap", self.stake_cap, 1.0, 1000.0)
        flag(_NAME, "clip", self.clip)
        flag(_NAME, "mixing", self.mixing)

    def __call__(
        self, payloads: Sequence[Payload], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """Stake-weighted mean of the selected updates; see `agents.mechanisms.merge.Merge`.

        Memory beyond input and output: 12 n * 64 KiB. MergeRefused unless 2 f + 2 < n.
        """
        count = len(payloads)
        counted = capped(stakes, count, self.stake_cap)
        bad = self.tolerated(count)
        matrix, factors = self._matrix(payloads)
        neighbours = [[index] for index in range(count)]
        if self.mixing:
            matrix, neighbours = mixed(matrix, count - bad)
        chosen = select(matrix, bad)
        weights = [counted[index] if index in chosen else 0 for index in range(count)]
        if not any(weights):
            weights = [int(index in chosen) for index in range(count)]
        pieces = [0] * count
        parts = shares(weights)
        for index, part in enumerate(parts):
            for neighbour in neighbours[index]:
                pieces[neighbour] += part
        divisor = sum(parts) * len(neighbours[0])
        rounded = [round(part * factor) for part, factor in zip(pieces, factors, strict=True)]
        return combine(payloads, rounded, divisor)

    def tolerated(self, count: int) -> int:
        """f for `count` updates; MergeRefused unless 2 f + 2 < count."""
        bad = liars(self.byzantine_fraction, count)
        if 2 * bad + 2 >= count:
            raise MergeRefused(
                f"multi_krum tolerates {bad} liars among {count} updates only if 2 * {bad} + 2 < "
                f"{count}, which does not hold; wait for more nodes, lower byzantine_fraction, or "
                "choose the merge rule median."
            )
        return bad

    def selected(self, payloads: Sequence[Payload]) -> list[int]:
        """Indices of the updates that are averaged, ascending; raises as a call does."""
        bad = self.tolerated(len(payloads))
        matrix, _ = self._matrix(payloads)
        return select(mixed(matrix, len(payloads) - bad)[0] if self.mixing else matrix, bad)

    def _matrix(self, payloads: Sequence[Payload]) -> tuple[Gram, list[float]]:
        matrix = gram(payloads)
        if not self.clip:
            return matrix, [1.0] * matrix.count
        factors = clip_factors(matrix)
        return scaled(matrix, factors), factors


def krum_scores(distances: Integers, bad: int) -> list[int]:
    """Per update the sum of its n - f - 2 smallest squared distances to others (f = `bad`)."""
    kept = len(distances) - bad - 2
    return [
        sum(sorted(row[:index] + row[index + 1 :])[:kept]) for index, row in enumerate(distances)
    ]


def select(matrix: Gram, bad: int) -> list[int]:
    """The n - f - 2 updates of least score, ascending; ties go to the lower index."""
    scores = krum_scores(matrix.distances(), bad)
    return sorted(lowest(scores, matrix.count - bad - 2))


def capped(stakes: Sequence[int] | None, count: int, cap: float) -> list[int]:
    """Stakes bounded by `cap` times their (lower) median; all 1 for None.

    ValueError unless there are `count` stakes, integers and none negative.
    """
    if stakes is None:
        return [1] * count
    if len(stakes) != count or any(type(stake) is not int or stake < 0 for stake in stakes):
        raise ValueError(f"Stakes must be {count} integers, none negative: one per update.")
    if not count:
        return []
    bound = int(Fraction(repr(cap)) * sorted(stakes)[(count - 1) // 2])
    return [min(stake, bound) for stake in stakes]
