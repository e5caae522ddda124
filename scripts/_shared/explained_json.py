# SPDX-License-Identifier: Apache-2.0
"""An explanation for programs: what `ape run explain --json` prints and the web page serves."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from agents.storage.cid import cid_from_digest


def json_of(found: Any) -> Any:
    """Return dataclasses as objects: amounts as strings, transactions in hex, digests as CIDs."""
    if is_dataclass(found):
        return {f.name: _json_field(f.name, getattr(found, f.name)) for f in fields(found)}
    return [json_of(each) for each in found] if isinstance(found, tuple) else found


def _json_field(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return cid_from_digest(value) if name == "digest" else f"0x{value.hex()}"
    if name in ("amount", "due", "pool", "value"):
        return str(value)
    return json_of(value)
