# SPDX-License-Identifier: Apache-2.0
"""Of a round whose payloads are sealed for others the report is held to all that is public."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.audit.sources.findings import Part
from agents.audit.work.comparing import compare_unread
from agents.protocol.numbers import UNCLAIMED
from agents.rounds.outcome import paid_by
from agents.rounds.report import UNAVAILABLE, NodeLine, RoundReport
from agents.storage.cid import cid_of_bytes, digest_of

JOB, ROUND = 3, 2
MODEL, BEFORE = bytes([7]) * 32, bytes([6]) * 32
UPDATE = cid_of_bytes(b"update")
SPEC = SimpleNamespace(codec="dense", merge="mean", score="shares", checkpoint_every=5, rounds=9)
PLAN: Any = SimpleNamespace(
    manifest=SimpleNamespace(of=lambda _: SimpleNamespace(batches=2)),
    step=1,
    carry_in=[],
    cursor_in=0,
)
CONTEXT: Any = SimpleNamespace(
    spec=SPEC, slices=None, verification=SimpleNamespace(validators_score=False)
)


def line(node: int, read: bool = True) -> NodeLine:
    return NodeLine(
        node=node,
        content=f"{node:064x}",
        accepted=read,
        merged=read,
        reason="" if read else f"{UNAVAILABLE}not in the store",
        batches=2,
        quality_ppm=1_000_000 if read else 0,
        gain_ppm=0,
        contribution=2_000_000 if read else 0,
    )


def differences(lines: list[NodeLine], **changes: Any) -> list[str]:
    """Of a report that says so, and of the result that follows from its lines."""
    fields = {
        "job": JOB,
        "round": ROUND,
        "step": 1,
        "prev_model": BEFORE.hex(),
        "model": MODEL.hex(),
        "update": UPDATE,
        "checkpoint": None,
        "codec": SPEC.codec,
        "merge": SPEC.merge,
        "score": SPEC.score,
        "carry_in": [],
        "cursor_in": 0,
        "nodes": lines,
        "val_loss_before": 1.0,
        "val_loss": 1.0,
    }
    report = RoundReport(**{**fields, **changes})
    paid = paid_by(CONTEXT, PLAN, lines)
    proposal = SimpleNamespace(
        nodes=tuple(paid),
        contributions=tuple(paid.values()),
        update=digest_of(UPDATE),
        model=MODEL,
    )
    standing: Any = SimpleNamespace(proposal=proposal, invalid=frozenset())
    reveals: Any = [
        SimpleNamespace(node=one.node, content=bytes.fromhex(one.content)) for one in lines
    ]
    part = Part(ROUND)
    compare_unread(part, CONTEXT, JOB, PLAN, BEFORE, reveals, standing, report)
    return [d.sentence for d in part.differences]


def test_an_honest_report_holds() -> None:
    assert differences([line(6), line(7)]) == []


def test_a_payload_that_was_left_out_is_no_difference() -> None:
    """Its part is nobody's, which no line of the report says. It was a difference."""
    lines = [line(6), line(7), line(8, read=False)]
    assert paid_by(CONTEXT, PLAN, lines)[UNCLAIMED] == 2_000_000
    assert differences(lines) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("job", 99),
        ("round", 77),
        ("prev_model", "aa" * 32),
        ("codec", "sparse"),
        ("merge", "median"),
        ("score", "alignment"),
        ("checkpoint", UPDATE),
    ],
)
def test_a_field_that_anybody_can_know_is_compared(name: str, value: Any) -> None:
    [sentence] = differences([line(6), line(7)], **{name: value})
    assert name in sentence
