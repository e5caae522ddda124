# SPDX-License-Identifier: Apache-2.0
"""Who held which stage of a pipeline, and what came of their passes and shards."""

from __future__ import annotations

from scripts._report.page.markup import count, table, text
from scripts._report.run import Run
from scripts._report.stages import StageLine
from scripts._report.story import Story

_WORDS = (
    "<p>Each miner holds one stage of the model. A backward pass counts if its sample went the way "
    "that the round's seed drew. Every two miners of a stage own a shard of it: both merge it and "
    "sign what they got. Whoever signed something else than the shard's merge misstated it.</p>"
)


def stages(run: Run) -> list[str]:
    """A line for each stage of each round; nothing of a run that is no pipeline."""
    if not run.stages:
        return []
    head = ["round, stage", "miners, and passes that count", "shards delivered", "owners agree"]
    rows = [_row(line, run.story) for line in run.stages]
    return [_WORDS, table([*head, "misstated"], rows, "Stages", numbers=False)]


def _row(line: StageLine, story: Story) -> list[str]:
    miners = ", ".join(f"{story.label(miner)}: {made}" for miner, made in line.passes.items())
    shards, agreed = "-", "-"
    if line.pairs:
        shards = f"{line.pairs - line.lost} of {line.pairs}"
        shards += "" if line.merged else ", too few: the stage keeps its weights"
        agreed = f"{line.agreed[0]} of {count(line.agreed[1], 'pair')}"
    lies = ", ".join(
        f"{story.label(owner)}: {count(shards, 'shard')}" for owner, shards in line.liars.items()
    )
    place = f"{line.round_id}, {line.stage}"
    return [place, text(miners), text(shards), text(agreed), text(lies or "-")]
