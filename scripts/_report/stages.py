# SPDX-License-Identifier: Apache-2.0
"""What the miners of a pipeline did: seats, passes that count, and shards, for its report.

Seats follow from a round's seed. Passes and the record of shards are what the round's published
report says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.storage.canonical import loads
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
    story: Story, seats_of: Callable[[int], Seats | None], read: Callable[[str], bytes]
) -> list[StageLine]:
    """The lines of all rounds with a report; none of a job that is no pipeline.

    Args:
        seats_of: the seats of a round by its number, None of a job without.
        read: the bytes of a record of shards by its CID.
    """
    found = []
    for number, told in sorted(story.rounds.items()):
        seats = seats_of(number) if told.report is not None else None
        if told.report is None or seats is None:
            continue
        cid = told.report.shards
        records = {} if cid is None else {one["stage"]: one for one in loads(read(cid))["stages"]}
        counts = {line.node: line.batches for line in told.report.nodes if line.accepted}
        for stage, miners in enumerate(seats):
            passes = {miner: counts.get(miner, 0) for miner in miners}
            line = StageLine(number, stage + 1, passes)
            if (record := records.get(stage)) is not None:
                owners = len(record["owners"])
                marks = [
                    mark
                    for row, own in enumerate(record["agreement"])
                    for mark in own[row + 1 :]
                    if mark is not None
                ]
                line = StageLine(
                    number,
                    stage + 1,
                    passes,
                    owners * (owners - 1) // 2,
                    len(record["lost"]),
                    {owner: len(shards) for owner, shards in record["liars"]},
                    (sum(marks), len(marks)),
                    record["accepted"],
                )
            found.append(line)
    return found
