# SPDX-License-Identifier: Apache-2.0
"""Which miners a sample passes: one of each stage, drawn by a public seed, each with equal chance.

Nobody chooses its neighbours. A log is compared with the route of each of its samples, so a sample
that took another way earns nothing, and what `clasp` assumes of pathways holds by construction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from agents.pipeline.lots import word


def route(
    seed: bytes, sample: int, stages: Sequence[Sequence[int]], absent: Collection[int] = ()
) -> tuple[int, ...]:
    """The miner of each stage that processes a sample.

    One is drawn of each stage; if it is absent, another of the rest, until one is present. So an
    absence moves the samples of that miner only.

    Args:
        seed: of the epoch, 32 bytes, drawn after the seats were known.
        sample: its number, at least 0.
        stages: miners by stage, in any order within a stage.
        absent: miners that everybody knows to be gone.

    Raises:
        ValueError: a stage without a miner that is present.
    """
    found = []
    for stage, miners in enumerate(stages):
        here = (m for m in in_order(seed, sample, stage, miners) if m not in absent)
        first_here = next(here, None)
        if first_here is None:
            raise ValueError(f"No miner of stage {stage} is present to process sample {sample}.")
        found.append(first_here)
    return tuple(found)


def order(seed: bytes, sample: int, stage: int, miners: Iterable[int]) -> tuple[int, ...]:
    """All miners of a stage in the order in which they are asked to do a sample."""
    return tuple(in_order(seed, sample, stage, miners))


def in_order(seed: bytes, sample: int, stage: int, miners: Iterable[int]) -> Iterator[int]:
    """`order`, drawn one by one: most who ask need the first of it that they know to be there."""
    left = sorted(miners)
    while left:
        yield left.pop(word(seed, "route", sample, stage, len(left)) % len(left))


def first(seed: bytes, sample: int, stage: int, miners: Collection[int]) -> int:
    """The miner that is asked first, `order(...)[0]`; ValueError for a stage without any."""
    if not miners:
        raise ValueError(f"There is no miner of stage {stage} to process sample {sample}.")
    return sorted(miners)[word(seed, "route", sample, stage, len(miners)) % len(miners)]


def on_route(
    seed: bytes,
    samples: Iterable[int],
    stages: Sequence[Sequence[int]],
    miner: int,
    absent: Collection[int] = (),
) -> set[int]:
    """The samples of a log that its miner was drawn for; passes of all others earn nothing.

    `samples`: numbers that the epoch hands out; the caller leaves out what is none of them.
    """
    return {sample for sample in samples if miner in route(seed, sample, stages, absent)}
