# SPDX-License-Identifier: Apache-2.0
"""What the page of a pipeline says of stages: from a round's seats, its report and its record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.storage.canonical import dumps
from agents.storage.content_store import open_store
from scripts._report.page.report import render, write_report
from scripts._report.stages import StageLine, stages_of
from scripts._report.story import RoundStory
from tests.stage.memory.demo_run import CID, HOSTILE, NAMES, a_run
from tests.stage.memory.page_reader import Page

SEATS = ((2, 3, 4), (5,))
RECORD = dumps(
    {
        "stages": [
            {
                "stage": 0,
                "owners": [2, 3, 4],
                "agreement": [[None, True, None], [True, None, False], [None, False, None]],
                "lost": [1],
                "liars": [[4, [0, 2]]],
                "accepted": True,
            }
        ]
    }
)


def told(shards: str | None) -> Any:
    lines = [
        SimpleNamespace(node=2, batches=8, accepted=True),
        SimpleNamespace(node=3, batches=7, accepted=True),
        SimpleNamespace(node=4, batches=9, accepted=False),
        SimpleNamespace(node=5, batches=15, accepted=True),
    ]
    return RoundStory(1, 0, report=SimpleNamespace(nodes=lines, shards=shards))  # type: ignore[arg-type]


def story(*rounds: Any) -> Any:
    return SimpleNamespace(rounds={one.round_id: one for one in rounds})


def test_passes_are_those_of_the_report_and_shards_those_of_the_record() -> None:
    found = stages_of(story(told("cid")), lambda number: SEATS, lambda cid: RECORD)
    assert found == [
        StageLine(1, 1, {2: 8, 3: 7, 4: 0}, 3, 1, {4: 2}, (1, 2), True),
        StageLine(1, 2, {5: 15}),
    ]


@pytest.mark.parametrize(
    "record",
    [
        b"\xff",
        b"[]",
        b"{}",
        b'{"stages":7}',
        b'{"stages":[7]}',
        b'{"stages":[{"stage":0}]}',
        b'{"stages":[{"stage":[]}]}',
        RECORD.replace(b"[[4,[0,2]]]", b"[[4]]"),
        RECORD.replace(b"[[4,[0,2]]]", b"[4]"),
        RECORD.replace(b'"lost":[1]', b'"lost":1'),
        RECORD.replace(b"[null,true,null]", b"7"),
        RECORD.replace(b"[null,true,null]", b'[null,"a","b"]'),
    ],
)
def test_a_record_that_is_something_else_costs_no_report(tmp_path: Path, record: bytes) -> None:
    store = open_store(str(tmp_path))
    cid = store.put_bytes(record)
    found = stages_of(story(told(cid)), lambda number: SEATS, lambda cid: store.get(cid, 1 << 20))
    assert found == [StageLine(1, 1, {2: 8, 3: 7, 4: 0}), StageLine(1, 2, {5: 15})]


def test_a_record_that_the_store_lacks_costs_no_report(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    found = stages_of(story(told(CID)), lambda number: SEATS, lambda cid: store.get(cid, 1 << 20))
    assert [one.pairs for one in found] == [0, 0]


def test_a_job_without_a_butterfly_and_a_round_without_a_report() -> None:
    assert all(not one.pairs for one in stages_of(story(told(None)), lambda _: SEATS, dict.get))  # type: ignore[arg-type]
    assert stages_of(story(RoundStory(1, 0)), lambda _: SEATS, lambda cid: RECORD) == []


def test_the_page_shows_them() -> None:
    lines = [
        StageLine(1, 1, {2: 8, 3: 7, 4: 0}, 3, 1, {4: 2}, (1, 2)),
        StageLine(1, 2, {5: 15}, 3, 3, merged=False),
    ]
    page = Page(render(replace(a_run(), stages=lines)))
    assert page.faults == []
    said = page.text("section", id="stages")
    assert "2 of 3" in said and "1 of 2 pairs" in said and f"{NAMES[4][0]}: 2 shards" in said
    assert "0 of 3, too few: the stage keeps its weights" in said
    assert HOSTILE.replace("\u202e", "\ufffd").replace("\x07", "\u2407") in said
    assert not Page(render(a_run())).find("section", id="stages")


@pytest.mark.parametrize("place", ["report/figures", "figures"])
def test_the_page_links_the_primers_figures_where_they_lie_beside_it(
    tmp_path: Path, place: str
) -> None:
    """Control: where there are none it says what makes them."""
    report, run = tmp_path / "report", replace(a_run(), stages=[StageLine(1, 1, {2: 8})])

    def linked() -> list[str]:
        page = Page(write_report(report, run).read_text(encoding="utf-8"))
        assert page.faults == []
        assert ("ape run figures pipeline" in page.text("section", id="stages")) == (not found())
        links = [one.attributes["href"] for one in page.find("a") if "href" in one.attributes]
        return [link for link in links if "figures/" in link]

    def found() -> bool:
        return (tmp_path / place / "index.html").is_file()

    assert linked() == []
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "index.html").write_text("drawn", encoding="utf-8")
    (link,) = linked()
    assert (report / link).read_text(encoding="utf-8") == "drawn"
