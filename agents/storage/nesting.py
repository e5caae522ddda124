# SPDX-License-Identifier: Apache-2.0
"""Measures how deep JSON from strangers is nested, before it is parsed.

Python's C parser recurses. Where a library has raised the recursion limit, 100 kB of ``[`` ends
the process instead of raising RecursionError, so depth is counted first, in linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64

# A string, closed or running to the end, or one bracket.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)

Hook = Callable[[list[tuple[str, Any]]], Any]


def parse_json(raw: bytes, pairs_hook: Hook | None = None) -> Any:
    """``json.loads`` of UTF-8 nested at most ``MAX_DEPTH`` deep; ValueError for anything else."""
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        depth = 0
        for token in _TOKEN.finditer(raw):
            first = raw[token.start() : token.start() + 1]
            if first in (b"[", b"{"):
                depth += 1
                if depth > MAX_DEPTH:
                    raise ValueError(f"it nests deeper than {MAX_DEPTH}")
            elif first in (b"]", b"}"):
                depth -= 1
    return json.loads(raw.decode("utf-8"), object_pairs_hook=pairs_hook)
