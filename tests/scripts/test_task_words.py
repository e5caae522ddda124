# SPDX-License-Identifier: Apache-2.0
"""What people are told of a redundant task: who is waited for, until when, and what came out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import LaneState, TaskStatus
from agents.storage.canonical import dumps
from agents.tasks.contract import Task
from agents.training.state import save_state
from scripts._shared.task_words import NoAnswer, lane_rows, result_lines, sentence

NOBODY, SOMEBODY = "0x" + "0" * 40, "0x" + "5" * 40


def ended(result: bytes, overturned: bool, decided_at: int = 5, by: str = NOBODY) -> Any:
    """An appeal that is over; `by`: who objected to its verdict."""
    return SimpleNamespace(
        appellant="0x", decided_at=decided_at, result=result, overturned=overturned, objector=by
    )


NONE = ended(bytes(32), False, decided_at=0)
RUNNING = Task(
    task_id=3,
    status=TaskStatus.RUNNING,
    creator="0xc0ffee",
    class_id=0,
    spec=bytes(32),
    fee=10**18,
    run_s=60,
    time=1_060,
    seed_block=7,
    draw_until=0,
    nodes=(4, 9),
    states=(LaneState.COMMITTED, LaneState.RUNNING),
    answers=(b"\x0a" * 32, bytes(32)),
    wanted=0,
)


def lanes(*states: LaneState) -> dict[str, Any]:
    """Fields of a task with these lanes, of nodes 1, 2, 3, ..."""
    nodes = tuple(range(1, len(states) + 1))
    return {"nodes": nodes, "states": states, "answers": (b"\x0b" * 32,) * len(states)}


def test_running__names_whom_it_waits_for_and_how_long() -> None:
    text = sentence(RUNNING, NONE, 1_000, [])
    assert "node 9" in text
    assert "node 4" not in text
    assert "0:01:00" in text


def test_running__in_the_deadlines_second_it_is_not_over_and_then_it_is() -> None:
    assert "advance" not in sentence(RUNNING, NONE, 1_060, [])
    assert "advance" in sentence(RUNNING, NONE, 1_061, [])


@pytest.mark.parametrize(
    ("state", "taken"), [(LaneState.REVEALED, True), (LaneState.ABORTED, False)]
)
def test_undecided__nobody_is_told_to_appeal_where_the_contract_refuses_it(
    state: LaneState, taken: bool
) -> None:
    lane = lanes(LaneState.ABORTED, state)
    task = replace(RUNNING, status=TaskStatus.UNDECIDED, **lane)
    assert ("may appeal" in sentence(task, NONE, 1_060, [])) is taken
    assert task.appealable(1_060) is taken
    assert not task.appealable(1_061)


def test_drawing__names_the_expected_once_they_are_known() -> None:
    task = replace(RUNNING, status=TaskStatus.DRAWING, draw_until=3_600, wanted=2, **lanes())
    assert sentence(task, NONE, 0, [5, 6]).startswith("Node 5 and node 6 will be drawn")
    assert "waits, for 1:00:00 at most" in sentence(task, NONE, 0, [])


def test_decided__says_who_is_alone_and_what_happens_when() -> None:
    states = (LaneState.AGREED, LaneState.REVEALED, LaneState.OPENED)
    task = replace(RUNNING, status=TaskStatus.DECIDED, **lanes(*states))
    before, after = (sentence(task, NONE, now, []) for now in (1_000, 1_061))
    for text in (before, after):
        assert text.startswith("Node 1 and node 3 agree")
        assert "node 2 is alone" in text
    assert "finalize" not in before
    assert "finalize" in after


@pytest.mark.parametrize(
    ("appeal", "said"),
    [
        (NONE, "who was alone is slashed"),
        (ended(bytes(32), False), "no verdict in time"),
        (ended(b"\1" * 32, True), "overturned"),
        (ended(b"\1" * 32, False), "confirmed"),
    ],
)
def test_closed__tells_how_it_ended(appeal: Any, said: str) -> None:
    states = (LaneState.AGREED, LaneState.REVEALED, LaneState.OPENED)
    task = replace(RUNNING, status=TaskStatus.CLOSED, **lanes(*states))
    assert said in sentence(task, appeal, 2_000, [])


@pytest.mark.parametrize("overturned", [True, False])
def test_closed__nobody_is_slashed_where_the_committee_did_not_decide(overturned: bool) -> None:
    """An objection that lapses slashes nobody, whatever the verdict was. The page of the network
    does not know whether it lapsed."""
    states = (LaneState.AGREED, LaneState.REVEALED, LaneState.OPENED)
    task = replace(RUNNING, status=TaskStatus.CLOSED, **lanes(*states))
    appeal = ended(b"\1" * 32, overturned, by=SOMEBODY)
    lapsed, unknown, resolved = (
        sentence(task, appeal, 2_000, [], decided=decided) for decided in (False, None, True)
    )
    assert "so nobody is slashed" in lapsed and SOMEBODY in lapsed
    assert "is slashed if the committee decided" in unknown
    assert resolved == sentence(task, ended(b"\1" * 32, overturned), 2_000, [])


def test_closed__inputs_that_nobody_could_get_are_no_result() -> None:
    lane = lanes(LaneState.AGREED, LaneState.OPENED) | {"answers": (b"\0" * 32, UNAVAILABLE)}
    text = sentence(replace(RUNNING, status=TaskStatus.CLOSED, **lane), NONE, 2_000, [])
    assert text.startswith("Over: node 1 and node 2 found that the inputs can't be had")


def test_lane_rows__an_aborted_lanes_answer_is_not_shown() -> None:
    states = (LaneState.ABORTED, LaneState.OPENED)
    rows = lane_rows(replace(RUNNING, **lanes(*states)), lambda node: f"n{node}")
    assert [row[:2] for row in rows] == [("0", "n1"), ("1", "n2")]
    assert rows[0][3] == "-"
    assert rows[1][3] == f"result {'0b' * 8}…"


def test_result_lines__each_kind_and_a_refusal() -> None:
    loss = dumps({"kind": "evaluate", "spec": "00", "loss": (1.5).hex(), "tokens": 1_024})
    assert result_lines("evaluate", loss)[0].startswith("Loss 1.500000 nats per token, over 1,024")
    outputs = [{"tokens": [104, 105], "text": "hi"}, {"tokens": [7], "text": None}]
    written = dumps({"kind": "generate", "spec": "00", "outputs": outputs})
    assert result_lines("generate", written)[1:] == ["1. 'hi'", "2. [7]"]
    assert "8 bytes" in result_lines("train_steps", b"\0" * 8)[0]
    for kind in ("evaluate", "train_steps", "generate"):
        (line,) = result_lines(kind, dumps({"refused": "too_long"}))
        assert "refused" in line
        assert "more work than the paid time" in line


_SHAPES = {"w": (2, 2)}
_LOSS = {"kind": "evaluate", "spec": "00", "loss": (1.5).hex(), "tokens": 1_024}
_TEXT = {"kind": "generate", "spec": "00", "outputs": [{"tokens": [104], "text": "h"}]}


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("evaluate", b"invented for task 7"),
        ("evaluate", b"\xff\xfe"),
        ("evaluate", b"[]"),
        ("evaluate", b"{}"),
        ("evaluate", dumps(_LOSS | {"loss": 1.5})),
        ("evaluate", dumps(_LOSS | {"loss": "nan"})),
        ("evaluate", dumps(_LOSS | {"loss": "0x1p9999999"})),
        ("evaluate", dumps(_LOSS | {"tokens": "\x1b[2J"})),
        ("evaluate", dumps(_LOSS | {"spec": "01"})),
        ("evaluate", dumps(_TEXT)),
        ("evaluate", dumps({"refused": "because"})),
        ("evaluate", dumps({"refused": ["too_long"]})),
        ("generate", dumps(_TEXT | {"outputs": 3})),
        ("generate", dumps(_TEXT | {"outputs": [{"tokens": 1, "text": "h"}]})),
        ("generate", dumps(_TEXT | {"outputs": [{"tokens": ["x"], "text": None}]})),
        ("generate", dumps(_TEXT | {"outputs": [{"tokens": [1], "text": {}}]})),
        ("generate", b"[" * 100_000),
        ("train_steps", b"invented for task 7"),
        ("train_steps", save_state({"w": torch.zeros(2, 3)})),
        ("train_steps", b'{"refused":"nothing"}'),
        ("", dumps(_LOSS)),
    ],
)
def test_result_lines__strangers_bytes_are_no_answer(kind: str, payload: bytes) -> None:
    with pytest.raises(NoAnswer):
        result_lines(kind, payload, bytes(1), _SHAPES)


def test_result_lines__what_the_task_gives_is_an_answer() -> None:
    checkpoint = save_state({"w": torch.zeros(2, 2)})
    for kind, payload in (
        ("evaluate", dumps(_LOSS)),
        ("generate", dumps(_TEXT)),
        ("train_steps", checkpoint),
        ("", dumps({"refused": "bad_spec"})),
    ):
        assert result_lines(kind, payload, bytes(1), _SHAPES)
