# SPDX-License-Identifier: Apache-2.0
"""Measures how deep JSON from strangers is nested, before it is parsed.

Python's C parser recurses. Where a library has raised the recursion limit, 100 kB of ``[`` ends
the process instead of raising RecursionError, so depth is counted first, in linear time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64

_QUOTE, _OPENING = ord('"'), frozenset(b"[{")
_REST = bytes(set(range(256)) - set(b'"[]{}'))

Hook = Callable[[list[tuple[str, Any]]], Any]


def nests_deeper(raw: bytes, most: int) -> bool:
    """Whether JSON in these bytes nests lists and objects more than ``most`` deep.

    Time is linear and memory that of two copies of the bytes, whatever they are.
    """
    if raw.count(b"[") + raw.count(b"{") <= most:
        return False
    # Escapes go first, those of the backslash before those of the quote: what is left of a run of
    # backslashes, from left to right, escapes what follows it. No regular expression skips strings
    # here: Python's keep about a hundred bytes for each escape that a repeated group matches.
    marks = raw.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _REST)
    depth, inside = 0, False
    for mark in marks:
        if mark == _QUOTE:
            inside = not inside
        elif not inside:
            depth += 1 if mark in _OPENING else -1
            if depth > most:
                return True
    return False


def parse_json(raw: bytes, pairs_hook: Hook | None = None) -> Any:
    """``json.loads`` of UTF-8 nested at most ``MAX_DEPTH`` deep; ValueError for anything else."""
    if nests_deeper(raw, MAX_DEPTH):
        raise ValueError(f"it nests deeper than {MAX_DEPTH}")
    return json.loads(raw.decode("utf-8"), object_pairs_hook=pairs_hook)
