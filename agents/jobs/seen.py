# SPDX-License-Identifier: Apache-2.0
"""How much of the data a trainer comes to hold keys of, round by round.

A key that was given can't be taken back, so what a node may read only grows. Keys for each shard
bound what one round tells a node; after enough rounds a node that stays has seen most of the data.
"""

from __future__ import annotations

from collections.abc import Collection

from agents.training.assignment import assign
from agents.training.data import DataSource
from agents.training.spec import JobSpec


def seen(data: DataSource, spec: JobSpec, trainers: int, rounds: Collection[int]) -> list[float]:
    """The share of the data's shards whose keys the trainer that was given most of them holds
    after so many rounds, for each of `rounds`.

    For trainers of equal weight whose work is all merged. What weights, missed batches and a
    changing crowd change is not foreseen.
    """
    held: dict[int, set[int]] = {node: set() for node in range(1, trainers + 1)}
    found: dict[int, float] = {0: 0.0}
    total = len(data.dataset.shards)
    cursor = 0
    for number in range(1, max(rounds, default=0) + 1):
        seed = number.to_bytes(32, "big")
        manifest = assign(seed, list(held), [1] * trainers, spec, (), cursor)
        cursor = manifest.cursor
        for one in manifest.assignments:
            held[one.node] |= data.shards_of(one.ranges)
        found[number] = max(map(len, held.values())) / total
    return [found[number] for number in rounds]


def seen_sentence(data: DataSource, spec: JobSpec, trainers: int) -> str:
    """What a sponsor should know before it pays."""
    most = min(spec.rounds, 200)
    rounds = sorted({1, min(10, most), most})
    shares = seen(data, spec, trainers, rounds)
    parts = [f"{share:.1%} after {number}" for number, share in zip(rounds, shares, strict=True)]
    return (
        f"the data has {len(data.dataset.shards)} shards, each with a key of its own. Of "
        f"{trainers} trainers of equal weight one holds the keys of at most "
        f"{', '.join(parts)} round{'s' if most > 1 else ''}, and a key that was given can't be "
        "taken back"
    )
