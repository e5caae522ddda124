# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON: one value has one spelling, so a digest of it names exactly one value.

Canonical: UTF-8, keys sorted by code point, no spaces, no duplicate keys, no NaN or infinity,
floats by Python's shortest round-trip repr. `loads` accepts only bytes that `dumps` would write.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from agents.storage.nesting import nests_deeper

MAX_BYTES: Final = 16 * 1024 * 1024
"""Default limit on one document."""
MAX_DEPTH: Final = 64
"""Limit on nested lists and objects."""


class CanonicalError(ValueError):
    """The value or the bytes are not canonical JSON; the message says where and why."""


def dumps(value: Any, max_bytes: int = MAX_BYTES) -> bytes:
    """Encode None, bool, int, finite float, str, list and dict with str keys.

    Raises CanonicalError for any other type, for lone surrogates, deep nesting or too many bytes.
    """
    _check(value, "$", 0)
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )
        data = text.encode("utf-8")
    except ValueError as error:  # includes UnicodeEncodeError
        raise CanonicalError(f"the value has no canonical form: {error}") from error
    if len(data) > max_bytes:
        raise CanonicalError(f"the document has {len(data)} bytes; the limit is {max_bytes}")
    return data


def loads(data: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Decode canonical JSON. Raises CanonicalError for anything `dumps` would not have written."""
    if len(data) > max_bytes:
        raise CanonicalError(f"the document has {len(data)} bytes; the limit is {max_bytes}")
    data = bytes(data)
    if nests_deeper(data, MAX_DEPTH + 1):
        raise CanonicalError(f"the document nests deeper than {MAX_DEPTH}")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
        )
    except CanonicalError:
        raise
    except ValueError as error:
        raise CanonicalError(f"the document is not JSON in UTF-8: {error}") from error
    again = dumps(value, max_bytes=len(data) + max_bytes)
    if again != data:
        at = next(
            (i for i, (a, b) in enumerate(zip(again, data, strict=False)) if a != b),
            min(len(again), len(data)),
        )
        raise CanonicalError(
            f"the document is JSON but not canonical from byte {at} on; write it with sorted keys, "
            "no spaces and shortest numbers"
        )
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise CanonicalError(f"the key {key[:80]!r} appears twice in one object")
        found[key] = value
    return found


def _no_constant(name: str) -> None:
    raise CanonicalError(f"{name} is not allowed in canonical JSON")


def _check(value: Any, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CanonicalError(f"the value nests deeper than {MAX_DEPTH} at {_shown(where)}")
    if value is None or isinstance(value, bool | int | str):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CanonicalError(f"{value!r} at {_shown(where)} is not a finite number")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, f"{where}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise CanonicalError(f"the key {key!r} at {_shown(where)} is not a string")
            _check(item, f"{where}.{key[:40]}", depth + 1)
    else:
        raise CanonicalError(
            f"{type(value).__name__} at {_shown(where)} has no canonical form; "
            "use None, bool, int, float, str, list or dict"
        )


def _shown(where: str) -> str:
    """A place, in text that has a form in UTF-8. A stranger's key may be a lone surrogate, and what
    is wrong with a stranger's bytes stands in records and reports."""
    return where[:80].encode("utf-8", "backslashreplace").decode("utf-8")
