# SPDX-License-Identifier: Apache-2.0
"""Every node has a lane; each cell says in words what its mark means."""

from __future__ import annotations

from agents.protocol.numbers import Phase
from scripts._report.page.lanes import KINDS, lanes
from scripts._report.story import Story
from tests.stage.memory.demo_run import NAMES, a_story
from tests.stage.memory.page_reader import Page


def drawn(story: Story) -> tuple[Page, dict[str, list[str]]]:
    """The table, and the kinds of cells by the row's first word."""
    page = Page("\n".join(lanes(story)))
    assert page.faults == []
    rows = {}
    for row in page.find("tr")[1:]:
        head, *cells = row.children
        rows[head.text.split(" ")[0]] = [cell.attributes["data-kind"] for cell in cells]
    return page, rows


def test_what_each_did() -> None:
    _, rows = drawn(a_story())
    assert len(rows) == len(NAMES)
    assert rows["trainer-1"] == ["paid", "paid", "paid"]
    assert rows["trainer-3"] == ["slashed", "suspended", "suspended"]
    assert rows["trainer-5"] == ["slashed", "absent", "absent"]
    assert rows["verifier-2"] == ["verified", "verified", "absent"]
    assert rows["aggregator-1"] == ["proposed"] * 3


def test_committed_revealed_and_unpaid() -> None:
    story = a_story()
    story.slashes.clear()
    story.rounds[2].paid.clear()
    story.rounds[3].committed.discard(1)
    story.rounds[3].paid.clear()
    story.rounds[3].revealed.clear()
    _, rows = drawn(story)
    assert rows["trainer-1"] == ["paid", "revealed", "absent"]
    assert rows["trainer-2"] == ["paid", "revealed", "committed"]
    assert rows["trainer-5"] == ["committed", "absent", "absent"]


def test_a_void_round__is_nobodys_absence() -> None:
    story = a_story()
    story.rounds[3].phase = Phase.VOID
    assert drawn(story)[1]["verifier-2"] == ["verified", "verified", "stood by"]


def test_words_for_every_mark() -> None:
    page, _ = drawn(a_story())
    for cell in page.find("td", kind="lane"):
        assert cell.attributes["title"]
        assert cell.attributes["title"] in cell.text
    words = [cell.attributes["title"] for cell in page.find("td", data_kind="verified")]
    assert words[0] == "attested and reported trainer-3 (noise)"
    legend = page.text("ul", kind="legend")
    used = {cell.attributes["data-kind"] for cell in page.find("td", kind="lane")}
    assert all((KINDS[kind][2] in legend) == (kind in used) for kind in KINDS)


def test_no_two_marks_are_alike() -> None:
    assert len({mark for mark, _, _ in KINDS.values()}) == len(KINDS)
