# SPDX-License-Identifier: Apache-2.0
"""How stores spell the name of a box (`agents.storage.content_store`)."""

from __future__ import annotations

from agents.storage.errors import InvalidCid


def box_name(box: bytes) -> str:
    """A box as text, for files and paths; InvalidCid unless it has 32 bytes."""
    if len(box) != 32:
        raise InvalidCid(f"a box is named by 32 bytes, not {len(box)}")
    return box.hex()
