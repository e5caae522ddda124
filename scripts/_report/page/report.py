# SPDX-License-Identifier: Apache-2.0
"""The page of a training run, from what `run.json` holds."""

from __future__ import annotations

from pathlib import Path

from scripts._report.page.cheats import cheats
from scripts._report.page.document import document
from scripts._report.page.figures import figures, loss
from scripts._report.page.lanes import lanes
from scripts._report.page.money import money
from scripts._report.page.samples import samples
from scripts._report.page.stages import stages
from scripts._report.page.summary import headline, meaning, opening
from scripts._report.page.tables import check_list, events, facts, nodes, rounds
from scripts._report.page.verify import verify
from scripts._report.run import Run

PAGE = "index.html"
# Where `ape run figures` leaves its page, from that of a run: in the same folder, or beside it.
_DRAWN = ("figures/index.html", "../figures/index.html")


def render(run: Run, drawn: str = "") -> str:
    """The page as HTML. `drawn`: as `stages`."""
    story = run.story
    learnt = ["<div class='charts'>", loss(story), "</div>", *samples(run.samples)]
    return document(
        "Menagerie: a training run",
        opening(run.title, headline(run), meaning(run), run.checks),
        [
            ("cheats", "Who cheated, and what came of it", cheats(run)),
            ("lanes", "Who did what in each round", lanes(story)),
            ("stages", "Who held which stage", stages(run, drawn)),
            ("money", "Where the money went", money(run)),
            ("model", "What the model learnt", learnt),
            ("verify", "Verify it yourself", verify(run)),
            ("checks", "What must hold", [check_list(run.checks)]),
            ("curves", "Curves", figures(run)),
            ("nodes", "Nodes", [nodes(story)]),
            ("rounds", "Rounds", [rounds(story)]),
            ("figures", "Figures", [facts(run.facts)]),
            ("events", "Events", [events(story.happenings, story.start)]),
        ],
    )


def write_report(directory: Path, run: Run, checkpoint: bytes | None = None) -> Path:
    """Write the page, its data and the model into a folder; returns the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    if checkpoint is not None:
        (directory / "checkpoint.safetensors").write_bytes(checkpoint)
    run.write(directory)
    return write_page(directory, run)


def write_page(directory: Path, run: Run) -> Path:
    """Write the page alone, beside its data; returns its path."""
    drawn = next((place for place in _DRAWN if (directory / place).is_file()), "")
    page = directory / PAGE
    page.write_text(render(run, drawn), encoding="utf-8")
    return page
