# SPDX-License-Identifier: Apache-2.0
"""A store that says what was pinned."""

from __future__ import annotations

from pathlib import Path

from agents.storage.embedded import EmbeddedStore


class Pins(EmbeddedStore):
    """Attributes: `pinned`: the CIDs."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.pinned: set[str] = set()

    def pin(self, cid: str) -> None:
        super().pin(cid)
        self.pinned.add(cid)
