# SPDX-License-Identifier: Apache-2.0
"""What the miners of a pipeline did: seats, passes that count, and shards, for its report.

Seats follow from a round's seed. Passes and the record of shards are what the round's published
report says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.storage.canonical import loads
from agents.storage.errors import StoreError
from scripts._report.story import Story

Seats = Sequence[Sequence[int]]  # the miners of each stage


@dataclass(frozen=True)
class StageLine:
    """One stage in one round.

    Attributes:
        round_id, stage: numbers, from 1 on.
        passes: by miner that held the stage, the backward passes that count; 0 for one that was not
            there or did not deliver.
        pairs: shards of the stage's butterfly; 0 where it had none.
        lost: of these, how many kept their weights.
        liars: miners that misstated shards, with how many.
        agreed: pairs of owners of which both stated the same, and pairs in all that both stated.
        merged: whether the butterfly was accepted.
    """

    round_id: int
    stage: int
    passes: dict[int, int]
    pairs: int = 0
    lost: int = 0
    liars: dict[int, int] = field(default_factory=dict)
    agreed: tuple[int, int] = (0, 0)
    merged: bool = True


def stages_of(
    story: Story, seats_of: Callable[[int], Seats], read: Callable[[str], bytes]
) -> list[StageLine]:
    """The lines of all rounds of a pipeline that have a report.

    Args:
        seats_of: the seats of a round by its number.
        read: the bytes of a record of shards by its CID.
    """
    found = []
    for number, told in sorted(story.rounds.items()):
        if told.report is None:
            continue
        cid = told.report.shards
        records = {} if cid is None else _records(cid, read)
        counts = {line.node: line.batches for line in told.report.nodes if line.accepted}
        for stage, miners in enumerate(seats_of(number)):
            passes = {miner: counts.get(miner, 0) for miner in miners}
            found.append(StageLine(number, stage + 1, passes, **records.get(stage, {})))
    return found


def _records(cid: str, read: Callable[[str], bytes]) -> dict[int, dict[str, Any]]:
    """By stage, what its butterfly came to; nothing of a record that the store lacks or that holds
    something else. A result that ends void may name any file as its record."""
    try:
        return {one["stage"]: _merged(one) for one in loads(read(cid))["stages"]}
    except (StoreError, ValueError, LookupError, TypeError):
        return {}


def _merged(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a stage's butterfly came to, as fields of `StageLine`."""
    above = [mark for row, own in enumerate(record["agreement"]) for mark in own[row + 1 :]]
    marks = [mark for mark in above if mark is not None]
    return {
        "pairs": math.comb(len(record["owners"]), 2),
        "lost": len(record["lost"]),
        "liars": {owner: len(shards) for owner, shards in record["liars"]},
        "agreed": (sum(marks), len(marks)),
        "merged": record["accepted"],
    }
