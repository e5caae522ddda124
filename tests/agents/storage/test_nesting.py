# SPDX-License-Identifier: Apache-2.0
"""How deep a stranger's JSON nests is known before it is parsed, for no more than its own bytes."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.storage.canonical import CanonicalError, loads
from agents.storage.nesting import MAX_DEPTH, nests_deeper, parse_json

TEXT = st.text(st.sampled_from('\\"[]{}a\n'), max_size=12)
VALUES = st.recursive(
    TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


@given(VALUES)
def test_the_depth_is_that_of_the_value(value: Any) -> None:
    """Whatever brackets, quotes and backslashes its strings hold."""
    raw, depth = json.dumps(value).encode(), _depth(value)
    assert not nests_deeper(raw, depth)
    if depth:
        assert nests_deeper(raw, depth - 1)


@pytest.mark.parametrize(
    ("raw", "deeper"),
    [
        (b"[" * 65 + b"]" * 65, True),
        (b"[" * 64 + b"]" * 64, False),
        (b"[]" * 1_000, False),
        (b'"' + b"[" * 1_000, False),
        (b'"\\\\"' + b"[" * 65, True),
        (b'"\\\\\\"' + b"[" * 65, False),
        (b'{"a":' * 65, True),
    ],
    ids=["deep", "just not", "flat", "open string", "backslash", "quote", "objects"],
)
def test_brackets_in_strings_do_not_count(raw: bytes, deeper: bool) -> None:
    assert nests_deeper(raw, MAX_DEPTH) is deeper


@pytest.mark.parametrize("end", [b'"', b""], ids=["closed", "open"])
def test_a_string_of_escapes_takes_no_memory(end: bytes) -> None:
    """A file of 16 MiB took 920 MB, because a regular expression noted each escape."""
    raw = b'["' + b"\\n" * (1 << 19) + end + b"]" + b"[]" * 70
    tracemalloc.start()
    try:
        nests_deeper(raw, MAX_DEPTH)
        for read in (loads, parse_json):
            with pytest.raises((CanonicalError, ValueError)):
                read(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(raw)
