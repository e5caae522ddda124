# SPDX-License-Identifier: Apache-2.0
"""A report is a stranger's file: whatever its bytes, it is read exactly or refused in words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rounds.report import ReportError, RoundReport
from agents.storage.canonical import dumps
from agents.storage.cid import cid_of_bytes

CID = cid_of_bytes(b"update")
FIELDS: dict[str, Any] = {
    "version": 1,
    "job": 1,
    "round": 2,
    "step": 1,
    "prev_model": "aa" * 32,
    "model": "bb" * 32,
    "update": CID,
    "checkpoint": None,
    "codec": "dense",
    "merge": "median",
    "score": "shares",
    "carry_in": [[0, 4]],
    "cursor_in": 12,
    "nodes": [
        {
            "node": 3,
            "content": "cc" * 32,
            "accepted": True,
            "merged": True,
            "reason": "",
            "batches": 3,
            "quality_ppm": 900_000,
            "gain_ppm": 0,
            "contribution": 2_700_000,
        }
    ],
    "val_loss_before": 5.5,
    "val_loss": 5.25,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def read(raw: bytes) -> RoundReport | None:
    """None for a refusal; anything but a refusal in words is a failure."""
    try:
        return RoundReport.from_bytes(raw)
    except ReportError as error:
        assert str(error)
        return None


def test_a_report_is_read_as_it_was_written() -> None:
    report = RoundReport.from_bytes(dumps(FIELDS))
    assert report.to_bytes() == dumps(FIELDS)
    assert report.carry_in == [(0, 4)]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_no_report(raw: bytes) -> None:
    assert read(raw) is None


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_json_is_no_report(value: Any) -> None:
    try:
        raw = dumps(value)
    except ValueError:
        return
    assert read(raw) is None


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_value_in_a_field_is_refused_or_has_one_spelling(data: st.DataObject) -> None:
    fields = json.loads(json.dumps(FIELDS))
    target = fields["nodes"][0] if data.draw(st.booleans()) else fields
    name = data.draw(st.sampled_from([*target, "surprise"]))
    target[name] = data.draw(JSON)
    try:
        raw = dumps(fields)
    except ValueError:
        return
    report = read(raw)
    # One report, one spelling: whoever reads it and writes it again gets the digest on chain.
    assert report is None or report.to_bytes() == raw


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_one_wrong_byte_is_refused_or_has_one_spelling(place: int, value: int) -> None:
    raw = bytearray(dumps(FIELDS))
    raw[place % len(raw)] = value
    report = read(bytes(raw))
    assert report is None or report.to_bytes() == bytes(raw)


@pytest.mark.parametrize("cut", [0, 1, 50, -1])
def test_a_truncated_report_is_refused(cut: int) -> None:
    assert read(dumps(FIELDS)[:cut]) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("val_loss", "Infinity"), ("job", 0), ("round", -1), ("cursor_in", -1)],
        *[("model", "AA" * 32), ("model", "aa" * 31), ("carry_in", [[0]])],
        *[("update", "../../etc/passwd"), ("checkpoint", "Qm" + "a" * 44)],
    ],
)
def test_values_out_of_range_are_named(name: str, value: Any) -> None:
    with pytest.raises(ReportError, match=name):
        RoundReport.from_bytes(dumps({**FIELDS, name: value}))


def test_deep_nesting_is_refused() -> None:
    assert read(b"[" * 100_000) is None
