# SPDX-License-Identifier: Apache-2.0
"""One hash, one file, one outer step; nothing but PayloadError comes out of bad bytes."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.training.state import (
    PayloadError,
    apply_outer,
    file_bound,
    header_bound,
    load_state,
    model_hash,
    save_state,
)

STATE = {"b": torch.tensor([1.0, -2.5]), "a.w": torch.tensor([[0.5, 3.0, -1.0]])}
SHAPES = {"b": (2,), "a.w": (1, 3)}
FILE = save_state(STATE)

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def pack_file(header: object, data: bytes) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def entry(start: int, stop: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_model_hash_by_hand() -> None:
    body = b"a.w\0float32\0" + b"1,3\0" + struct.pack("<3f", 0.5, 3.0, -1.0)
    body += b"b\0float32\0" + b"2\0" + struct.pack("<2f", 1.0, -2.5)
    assert model_hash(STATE) == hashlib.sha256(body).digest()
    assert model_hash(dict(reversed(STATE.items()))) == model_hash(STATE)


def test_model_hash_sees_the_sign_of_zero_shape_name_and_layout() -> None:
    base = {"w": torch.zeros(2, 3)}
    others = [{"w": -torch.zeros(2, 3)}, {"w": torch.zeros(3, 2)}, {"v": torch.zeros(2, 3)}]
    assert len({model_hash(s) for s in [base, *others]}) == 4
    turned = torch.arange(6.0).reshape(3, 2).T
    assert model_hash({"w": turned}) == model_hash({"w": turned.contiguous()})


@given(st.lists(floats, min_size=6, max_size=6))
def test_file_round_trip_keeps_every_bit(values: list[float]) -> None:
    state = {"x": torch.tensor(values[:4]).reshape(2, 2), "y": torch.tensor(values[4:])}
    raw = save_state(state)
    shapes = {"x": (2, 2), "y": (2,)}
    again = load_state(raw, shapes)
    assert model_hash(again) == model_hash(state)
    assert save_state(again) == raw
    assert len(raw) <= file_bound(shapes)


B, A = entry(0, 8, [2]), entry(8, 20, [1, 3])  # a good file's header


def both(b: dict[str, object], a: dict[str, object], data: bytes | int) -> bytes:
    return pack_file({"b": b, "a.w": a}, bytes(data) if isinstance(data, int) else data)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "too few"),
        (FILE[:-1], "the data has"),
        (FILE + b"\0", "the data has"),
        (b"\xff" * 8 + FILE[8:], "header claims"),
        (pack_file(b"{", b""), "not valid JSON"),
        (pack_file(b"[" * 300, b""), "nests deeper than 64"),
        (pack_file(b"[]" * 300, b""), "not valid JSON"),
        (pack_file([], b""), "not a JSON object"),
        (pack_file({"__metadata__": {}}, b""), "metadata"),
        (pack_file(b'{"b":1,"b":2}', b""), "twice"),
        (pack_file({"b": 1}, b""), "missing ['a.w']"),
        (pack_file({"b": 1, "a.w": 1, "c": 1}, b""), "unexpected ['c']"),
        (pack_file({"b": 1, "a.w": 1}, b""), "exactly dtype"),
        (both(entry(0, 4, [2], "F16"), entry(4, 16, [1, 3]), 16), "expected F32"),
        (both(B, entry(8, 20, [3, 1]), 20), "expected [1, 3]"),
        (both(B, entry(8, 21, [1, 3]), 21), "must span 12"),
        (both(B, entry(4, 16, [1, 3]), 16), "starts at byte 4, expected 8"),
        (both(B, entry(9, 21, [1, 3]), 21), "expected 8"),
        (both(entry(0, 8, [True]), A, 20), "has shape"),
        (both(B, A, bytes(16) + struct.pack("<f", float("nan"))), "NaN or infinity"),
        (bytes(file_bound(SHAPES) + 1), "at most"),
    ],
)
def test_bad_files_are_named(raw: bytes, message: str) -> None:
    with pytest.raises(PayloadError) as caught:
        load_state(raw, SHAPES)
    assert message in str(caught.value)


def test_a_header_is_read_up_to_its_own_bound_and_not_to_that_of_the_file() -> None:
    """In the place of a large model's numbers it has room for millions of lists."""
    most = header_bound(SHAPES)
    for length, message in ((most, "not valid JSON"), (most + 1, f"at most {most} are expected")):
        with pytest.raises(PayloadError, match=message):
            load_state(pack_file(b"[]" + bytes(length - 2), b""), SHAPES)


@settings(max_examples=300)
@given(st.data())
def test_corrupted_files_raise_only_payload_errors(data: st.DataObject) -> None:
    raw = bytearray(FILE)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        action = data.draw(st.sampled_from(["set", "cut", "insert"]))
        if action == "set":
            raw[place] = data.draw(st.integers(0, 255))
        elif action == "cut":
            del raw[place : place + data.draw(st.integers(1, 9))]
        else:
            raw[place:place] = data.draw(st.binary(min_size=1, max_size=9))
        if not raw:
            break
    try:
        state = load_state(bytes(raw), SHAPES)
    except PayloadError:
        return
    assert {n: tuple(t.shape) for n, t in state.items()} == SHAPES
    assert all(bool(torch.isfinite(t).all()) for t in state.values())


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_payload_errors(raw: bytes) -> None:
    with pytest.raises(PayloadError):
        load_state(raw, SHAPES)


def test_saving_refuses_what_loading_would() -> None:
    with pytest.raises(PayloadError, match="NaN"):
        save_state({"w": torch.tensor([float("nan")])})
    with pytest.raises(PayloadError, match="expected float32"):
        save_state({"w": torch.zeros(1, dtype=torch.float64)})


@given(floats, floats, st.floats(1e-4, 10.0))
def test_outer_step_is_two_roundings(theta: float, merged: float, rate: float) -> None:
    scaled = np.float32(np.float64(np.float32(rate)) * merged)  # exact in fp64: 48 bits
    with np.errstate(over="ignore"):
        expected = np.float32(np.float64(theta) - np.float64(scaled))
    args = {"w": torch.tensor([theta])}, {"w": torch.tensor([merged])}, rate
    if not np.isfinite(expected):
        with pytest.raises(PayloadError, match="NaN or infinity"):
            apply_outer(*args)
        return
    assert apply_outer(*args)["w"].item() == expected


def test_outer_step_by_hand_and_descends() -> None:
    state, merged = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([0.5, -0.25])}
    assert apply_outer(state, merged, 0.5)["w"].tolist() == [0.75, 2.125]
    assert state["w"].tolist() == [1.0, 2.0]


def test_outer_step_refuses_other_tensors() -> None:
    with pytest.raises(PayloadError, match="missing"):
        apply_outer(STATE, {"b": STATE["b"]}, 1.0)
    with pytest.raises(PayloadError, match="expected float32"):
        apply_outer(STATE, STATE | {"b": torch.zeros(3)}, 1.0)
