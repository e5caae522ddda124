# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON: one value, one spelling; every other spelling is refused with a reason."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.storage.canonical import MAX_DEPTH, CanonicalError, dumps, loads

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_round_trip(value: Any) -> None:
    data = dumps(value)
    again = loads(data)
    assert again == value
    assert dumps(again) == data


def test_the_canonical_form_of_one_value_is_this() -> None:
    value = {"z": [1, -0.5, 1e30, True, None], "é": "ü\n", "a": {"b": {}}}
    assert dumps(value) == '{"a":{"b":{}},"z":[1,-0.5,1e+30,true,null],"é":"ü\\n"}'.encode()


@given(st.dictionaries(TEXT, st.integers(), min_size=2, max_size=5))
def test_order_of_insertion_does_not_matter(value: dict[str, int]) -> None:
    assert dumps(value) == dumps(dict(reversed(value.items())))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a":1,"a":1}', "appears twice"),
        (b'{"b":1,"a":2}', "not canonical from byte 2"),
        (b'{"a": 1}', "not canonical"),
        (b"[1]\n", "not canonical from byte 3"),
        (b"1.0e2", "not canonical"),
        (b"1.50", "not canonical"),
        (b"-0", "not canonical"),
        (b'"\\u0041"', "not canonical"),
        (b'"\\/"', "not canonical"),
        (b"NaN", "NaN is not allowed"),
        (b"-Infinity", "-Infinity is not allowed"),
        (b"1e999", "not a finite number"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1,]", "not JSON"),
        (b"\xef\xbb\xbf1", "not JSON"),
        (b'"\xff"', "not JSON in UTF-8"),
        (b'"\\ud800"', "no canonical form"),
        (b"[" * 100_000, "nests deeper"),
        (b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2), "nests deeper"),
        (b"9" * 5000, "not JSON"),
    ],
)
def test_other_spellings_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CanonicalError, match=reason):
        loads(data)


@given(st.binary(max_size=64))
def test_bytes_are_canonical_or_refused(data: bytes) -> None:
    try:
        value = loads(data)
    except CanonicalError:
        return
    assert dumps(value) == data


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ((1, 2), r"tuple at \$ has no canonical form"),
        ({"a": {1}}, r"set at \$\.a"),
        ([b"x"], r"bytes at \$\[0\]"),
        ({1: 2}, "key 1 at .* is not a string"),
        ({"a": [float("nan")]}, r"nan at \$\.a\[0\]"),
        (float("inf"), "not a finite number"),
        ("\ud800", "no canonical form"),
        (Colour.RED, "Colour at"),
        (10**5000, "no canonical form"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_without_a_form_are_refused(value: Any, reason: str) -> None:
    with pytest.raises(CanonicalError, match=reason):
        dumps(value)


def test_depth_has_a_limit() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert loads(dumps(value)) == value
    with pytest.raises(CanonicalError, match=f"deeper than {MAX_DEPTH}"):
        dumps([value])


def test_size_has_a_limit() -> None:
    assert loads(dumps("x" * 98, max_bytes=100), max_bytes=100) == "x" * 98
    for call, value in ((dumps, "x" * 99), (loads, dumps("x" * 99))):
        with pytest.raises(CanonicalError, match="101 bytes; the limit is 100"):
            call(value, max_bytes=100)
