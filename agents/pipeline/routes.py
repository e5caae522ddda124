# SPDX-License-Identifier: Apache-2.0
"""Which miners a sample passes: one of each stage, drawn by a public seed.

Each miner of a stage has the same chance, or one in proportion to its weight
(`agents.pipeline.pace`). Nobody chooses its neighbours. A log is compared with the route of each of
its samples, so a sample that took another way earns nothing, and what `clasp` assumes of pathways
holds by construction: stages are drawn independently of each other.

Weights are divided by their greatest common divisor. So equal ones give the draw without weights,
to the bit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import gcd

from agents.pipeline.lots import word

Weights = Mapping[int, int]


def route(
    seed: bytes,
    sample: int,
    stages: Sequence[Sequence[int]],
    absent: Collection[int] = (),
    weights: Weights | None = None,
) -> tuple[int, ...]:
    """The miner of each stage that processes a sample.

    One is drawn of each stage; if it is absent, another of the rest, until one is present. So an
    absence moves the samples of that miner only.

    Args:
        seed: of the epoch, 32 bytes, drawn after the seats were known.
        sample: its number, at least 0.
        stages: miners by stage, in any order within a stage.
        absent: miners that everybody knows to be gone.
        weights: of each miner, at least 1; None where all count alike.

    Raises:
        ValueError: a stage without a miner that is present.
    """
    found = []
    for stage, miners in enumerate(stages):
        here = (m for m in in_order(seed, sample, stage, miners, weights) if m not in absent)
        first_here = next(here, None)
        if first_here is None:
            raise ValueError(f"No miner of stage {stage} is present to process sample {sample}.")
        found.append(first_here)
    return tuple(found)


def order(
    seed: bytes, sample: int, stage: int, miners: Iterable[int], weights: Weights | None = None
) -> tuple[int, ...]:
    """All miners of a stage in the order in which they are asked to do a sample."""
    return tuple(in_order(seed, sample, stage, miners, weights))


def in_order(
    seed: bytes, sample: int, stage: int, miners: Iterable[int], weights: Weights | None = None
) -> Iterator[int]:
    """`order`, drawn one by one: most who ask need the first of it that they know to be there.

    Each next one is drawn among the rest, in proportion to its weight. ValueError for a weight
    below 1.
    """
    left = sorted(miners)
    parts = _parts(left, weights)
    while left:
        ends = list(accumulate(parts))
        place = bisect_right(ends, word(seed, "route", sample, stage, len(left)) % ends[-1])
        del parts[place]
        yield left.pop(place)


def first(
    seed: bytes, sample: int, stage: int, miners: Collection[int], weights: Weights | None = None
) -> int:
    """The miner that is asked first, `order(...)[0]`; ValueError for a stage without any."""
    found = next(in_order(seed, sample, stage, miners, weights), None)
    if found is None:
        raise ValueError(f"There is no miner of stage {stage} to process sample {sample}.")
    return found


def _parts(miners: Sequence[int], weights: Weights | None) -> list[int]:
    """The weights, as small as they can be."""
    if weights is None:
        return [1] * len(miners)
    parts = [weights[miner] for miner in miners]
    if min(parts, default=1) < 1:
        raise ValueError("A miner's weight is at least 1.")
    common = gcd(*parts)
    return [part // common for part in parts]
