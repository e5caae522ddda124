# SPDX-License-Identifier: Apache-2.0
"""The page of a run of redundant tasks shows who was slashed for what, and what was recorded."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from agents.protocol.numbers import ZOO, Violation
from agents.storage.canonical import dumps
from scripts._demo import task_report
from scripts._demo.task_plan import Order
from scripts._report.story import Happening, NodeStory, Slash
from scripts._report.task_history import TaskHistory, TaskStory
from scripts._report.verdict import Check
from scripts._shared.economics import parameters
from tests.stage.memory.page_reader import Page

NAMES = {1: "executor-1", 2: "executor-2", 3: "executor-3 (forger)"}
PAYLOAD = dumps({"kind": "evaluate", "spec": "00", "loss": (2.25).hex(), "tokens": 64})
ROW = {
    "scenario": {"strategy": "pair", "dishonest": 3, "nodes": 10, "fee": ZOO, "rate": "1/4"},
    "tasks": 2_000,
    "success": {"exact": 0.1, "seen": 0.11, "interval": [0.09, 0.12], "inside": True},
    "profit": {"exact": -2.0, "seen": -1.9, "interval": [-2.1, -1.7], "inside": True},
    "honest": {"exact": 0.5, "seen": 0.7, "interval": [0.6, 0.8], "inside": False},
}


def a_history() -> TaskHistory:
    """One task, in which the third executor outvoted a forger."""
    story = TaskStory(1, "evaluate", "sponsor", 2 * ZOO, 100)
    story.drawn, story.settled_at, story.contested = [1, 3, 2], 113, True
    story.state, story.gas, story.result = "closed", 750_000, b"\1" * 32
    story.slashed = [(3, Violation.REDUNDANCY_MISMATCH, 20 * ZOO)]
    nodes = {
        number: NodeStory(
            number, name, f"0xpay{number}", stakes=[(90, 100 * ZOO)], payouts=[(113, ZOO)]
        )
        for number, name in NAMES.items()
    }
    return cast(
        TaskHistory,
        SimpleNamespace(
            tasks={1: story},
            nodes=nodes,
            began=100,
            now=120,
            slashes=[
                Slash(
                    3,
                    Violation.REDUNDANCY_MISMATCH,
                    20 * ZOO,
                    100 * ZOO,
                    113,
                    False,
                    reporter_share=0,
                    treasury_share=20 * ZOO,
                )
            ],
            fee_credits={"0xpay1": ZOO, "0xpay2": ZOO},
            happenings=[Happening(113, "task 1: <decided>", "good")],
            label=NAMES.__getitem__,
        ),
    )


def text_of(page: Path) -> str:
    """What a reader sees, cells apart by bars."""
    raw = page.read_text(encoding="utf-8")
    raw = re.sub(r"<(svg|style).*?</\1>", "", raw, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"</t[dh]><t[dh][^>]*>", "|", raw)))


def test_page__tells_the_story_of_each_task_and_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents.tasks.deterrence import deterrence

    record = tmp_path / "redundancy.json"
    record.write_text(json.dumps({"state": "", "rows": [ROW]}))
    monkeypatch.setattr(task_report, "RECORDED", record)
    order = cast(Order, SimpleNamespace(title="model 1, evaluate 1", line=0, number=1, spec=None))
    order.spec = SimpleNamespace(kind="evaluate")  # type: ignore[misc, assignment]
    page = task_report.write_report(
        tmp_path / "report",
        a_history(),
        {1: order},
        {1: PAYLOAD},
        [Check(True, "it <holds>")],
        {"tasks": "1 in 13 s"},
        deterrence(parameters({}, {"stake": 100 * ZOO, "fee": ZOO, "nodes": 9}, 0.5)),
    )
    text = text_of(page)
    assert Page(page.read_text(encoding="utf-8")).faults == []
    assert "1 cheat caught and slashed 20 ZOO; all 1 check of results" in text
    assert (tmp_path / "report" / "bounds.svg").is_file()
    who = "executor-1, executor-3 (forger), executor-2"
    assert f"1|model 1, evaluate 1|{who}|closed|13|750,000|Loss 2.250000" in text
    lanes = Page(page.read_text(encoding="utf-8"))
    kinds = [cell.attributes["data-kind"] for cell in lanes.find("td", kind="lane")]
    assert kinds == ["paid", "paid", "slashed"]
    assert "alone with its result: task 1" in text and "the comparison: task 1" in text
    assert "REDUNDANCY_MISMATCH in block" in text
    assert f"{20 * ZOO} wei ZOO of its stake of 100" in text
    assert text.count("The parts add up to the whole") == 2
    assert "it <holds>" in text and "<holds>" not in page.read_text(encoding="utf-8")
    # The article's last row, with its own stake.
    assert "100000|1000|99000|0.999702291|335.7985534" in text
    assert "pair, 25% audited, 3 of 10 nodes|1|2,000|0.1: 0.11 (0.09 to 0.12)" in text
    assert "0.5: 0.7 (0.6 to 0.8, outside)" in text


def test_page__without_recorded_figures_says_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_report, "RECORDED", tmp_path / "none.json")
    assert task_report._played() == []
