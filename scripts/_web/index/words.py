# SPDX-License-Identifier: Apache-2.0
"""The chain's values as the index keeps them: text that both databases and JSON can hold."""

from __future__ import annotations

from typing import Any


def hexed(value: bytes) -> str:
    """Return a digest, a hash or a seed as 0x and hexadecimal digits."""
    return "0x" + value.hex()


def plain(value: Any) -> Any:
    """Return an argument of an event as JSON can hold it: numbers of the chain are text."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return hexed(value)
    if hasattr(value, "_asdict"):
        return {name: plain(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
