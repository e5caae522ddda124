# SPDX-License-Identifier: Apache-2.0
"""A block header, as much of it as agents use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Head:
    """A block header. `reorged` says that blocks seen before are no longer in the chain."""

    number: int
    hash: bytes
    parent: bytes
    timestamp: int
    base_fee: int = 0
    reorged: bool = False


def head_from_json(raw: dict[str, Any]) -> Head:
    """Return the Head in a JSON-RPC block or newHeads notification.

    Raises ValueError for what is no header, such as one whose number is null.
    """
    try:
        return Head(
            number=int(raw["number"], 16),
            hash=bytes.fromhex(raw["hash"][2:]),
            parent=bytes.fromhex(raw["parentHash"][2:]),
            timestamp=int(raw["timestamp"], 16),
            base_fee=int(raw.get("baseFeePerGas") or "0x0", 16),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"no block header: {str(raw)[:200]}") from error
