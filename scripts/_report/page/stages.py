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


def stages(run: Run, drawn: str = "") -> list[str]:
    """A line for each stage of each round; nothing of a run that is no pipeline. `drawn`: where the
    primer's figures lie, from the page; empty where nobody drew them beside it."""
    if not run.stages:
        return []
    head = ["round, stage", "miners, and passes that count", "shards delivered", "owners agree"]
    rows = [_row(line, run.story) for line in run.stages]
    return [_WORDS, table([*head, "misstated"], rows, "Stages", numbers=False), _primer(drawn)]


def _primer(drawn: str) -> str:
    """Where the figures of the primer are, which are of no run."""
    made = "the figures of the primer that this mode is built on, drawn by the same rules"
    if drawn:
        return f"<p>Not of this run: <a href='{text(drawn)}'>{made}</a>.</p>"
    return f"<p>Not of this run: <code>ape run figures pipeline</code> makes {made}.</p>"


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
