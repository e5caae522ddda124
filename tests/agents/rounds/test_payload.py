# SPDX-License-Identifier: Apache-2.0
"""A stranger's payload is either exactly right or a PayloadError; nothing else can happen."""

import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec.parts.container import pack
from agents.rounds.payload import check_payload, max_payload_bytes, read_payload
from agents.training.state import PayloadError

SHAPES = {"w": (2, 3), "b": (4,)}
CODEC = codecs.get("dense")()
GOOD = CODEC.encode(
    {
        "w": torch.arange(6, dtype=torch.float32).reshape(2, 3) - 2.5,
        "b": torch.tensor([0.0, -0.0, 1e-40, -7.0]),
    }
)
FIELDS = {
    "b": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [16, 40]},
}
BODY = GOOD[-40:]


def built(head: object, body: bytes = BODY, separators: tuple[str, str] = (",", ":")) -> bytes:
    raw = head if isinstance(head, bytes) else json.dumps(head, separators=separators).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + body


def refusal(data: bytes) -> str:
    # The size limit is lifted here so that what comes after it is reached.
    with pytest.raises(PayloadError) as caught:
        check_payload(data, CODEC.layout(SHAPES), 1 << 24)
    text = str(caught.value)
    assert text.endswith(".") and len(text) < 400
    text.encode()
    return text


def changed(name: str, **fields: object) -> dict[str, object]:
    return {**FIELDS, name: {**FIELDS[name], **fields}}


def test_the_helper_builds_the_good_payload():
    assert built(FIELDS) == GOOD
    got = read_payload(GOOD, CODEC, SHAPES)
    assert got["w"].tolist() == [[-2.5, -1.5, -0.5], [0.5, 1.5, 2.5]]
    assert got["b"].shape == (4,)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "has 0 bytes; even its header length needs 8"),
        (GOOD[:7], "has 7 bytes"),
        (struct.pack("<Q", 1 << 63) + b"{}", "claims 9223372036854775808 bytes but only 2 follow"),
        (struct.pack("<Q", 1 << 21) + b" " * (1 << 21), "claims 2097152 bytes; the expected one"),
        (built(b"\xff\xfe"), "not UTF-8 JSON"),
        (built(b"{"), "not UTF-8 JSON"),
        (built(b"[" * 100_000), "nested too deeply"),
        (built(b'{"b":' + b"[" * 900 + b"]" * 900 + b"}"), "nested too deeply"),
        (built(b'{"a":' + b"9" * 5000 + b"}"), "not UTF-8 JSON"),
        (built(b'{"a":NaN}'), "the number NaN"),
        (built([1]), "not a JSON object"),
        (built(b'{"b":1,"b":2}'), "twice"),
        (built({**FIELDS, "c": FIELDS["b"]}), "unknown tensor 'c'"),
        (built({**FIELDS, "__metadata__": {"x": "y"}}), "unknown tensor '__metadata__'"),
        (built({"x" * 5000: 1}), "unknown tensor 'xxx"),
        (built(b'{"\\ud800":1}'), "unknown tensor"),
        (built({"b": FIELDS["b"]}), "lacks the tensor 'w'"),
        (built({**FIELDS, "b": 3}), "needs exactly a dtype, a shape and data_offsets"),
        (built(changed("b", extra=1)), "needs exactly"),
        (built(changed("b", dtype="F64")), "has dtype 'F64', not F32"),
        (built(changed("b", dtype=["F32"])), "has dtype ['F32'], not F32"),
        (built(changed("w", shape=[3, 2])), "has shape [3, 2], not [2, 3]"),
        (built(changed("w", shape=[6])), "has shape [6]"),
        (built(changed("w", shape=None)), "has shape None"),
        (built(changed("w", data_offsets=[0, 24])), "lies at [0, 24], not at [16, 40]"),
        (built(changed("w", data_offsets=[16, 1 << 80])), "lies at"),
        (built(changed("w", data_offsets=[-24, 0])), "lies at"),
        (built(FIELDS, separators=(", ", ": ")), "not canonical"),
        (built(dict(reversed(FIELDS.items()))), "not canonical"),
        (built(changed("b", shape=[4.0])), "not canonical"),
        (GOOD[:-1], "has 159 bytes, not 160"),
        (GOOD + b"\0", "has 161 bytes, not 160"),
    ],
    ids=lambda value: value if isinstance(value, str) else "bytes",
)
def test_each_defect_is_named(data, part):
    assert len(GOOD) == 160
    assert part in refusal(data)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf"), 2.0**64, -(2.0**64), 3.4e38]
)
def test_numbers_that_are_not_finite_or_far_too_large_are_refused(value):
    body = np.frombuffer(BODY, "<f4").copy()
    body[7] = value
    assert "Tensor 'w' holds a number at index 3" in refusal(built(FIELDS, body.tobytes()))
    body[7] = np.nextafter(np.float32(2.0**64), np.float32(0))
    assert read_payload(built(FIELDS, body.tobytes()), CODEC, SHAPES)["w"][1, 0] == body[7]


@pytest.mark.parametrize(
    ("dtype", "bits", "good"),
    [
        ("F16", 0x7C00, 0x7BFF),
        ("F16", 0xFC01, 0xFBFF),
        ("BF16", 0x7F80, 0x5F7F),
        ("U16", None, 0xFFFF),
    ],
)
def test_payloads_in_other_wire_dtypes_are_checked_too(dtype, bits, good):
    layout = {"a": (dtype, (2,))}
    check_payload(pack(layout, {"a": struct.pack("<HH", 0, good)}), layout, 1 << 20)
    if bits is not None:
        with pytest.raises(PayloadError, match="index 1"):
            check_payload(pack(layout, {"a": struct.pack("<HH", 0, bits)}), layout, 1 << 20)


def test_size_is_bounded_before_anything_is_parsed():
    assert max_payload_bytes(CODEC, SHAPES) == len(GOOD)
    with pytest.raises(PayloadError, match="has 161 bytes; at most 160 are allowed"):
        read_payload(GOOD + b"\0", CODEC, SHAPES)


def test_empty_tensors_are_allowed():
    data = CODEC.encode({"z": torch.zeros(0, 3)})
    assert read_payload(data, CODEC, {"z": (0, 3)})["z"].shape == (0, 3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["b", "w", "dtype", "shape", "data_offsets"]), inner)
    ),
    max_leaves=8,
)


def accepted_is_sound(data: bytes) -> None:
    try:
        got = read_payload(data, CODEC, SHAPES)
    except PayloadError:
        return
    assert {name: tuple(tensor.shape) for name, tensor in got.items()} == SHAPES
    assert all(tensor.dtype == torch.float32 and tensor.isfinite().all() for tensor in got.values())
    assert CODEC.encode(got) == data


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_refused(data):
    accepted_is_sound(data)
    with pytest.raises(PayloadError):
        check_payload(struct.pack("<Q", len(data)) + data, CODEC.layout(SHAPES), 1 << 20)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_any_header_is_refused_or_sound(head):
    refusal(built(head))
    refusal(built({**FIELDS, "b": head}))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, len(GOOD)),
)
def test_a_changed_payload_is_refused_or_sound(edits, keep):
    data = bytearray(GOOD)
    for where, value in edits:
        data[where] = value
    accepted_is_sound(bytes(data))
    if keep < len(GOOD):
        refusal(bytes(data[:keep]))


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=40, max_size=40))
def test_any_numbers_are_refused_or_sound(body):
    accepted_is_sound(built(FIELDS, body))
