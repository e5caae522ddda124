# SPDX-License-Identifier: Apache-2.0
"""A chain of quick blocks with some events long ago: as long as a fortnight, at four blocks a
second. No number of blocks that is written for a chain with a block in 12 seconds reaches so far.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agents.runtime.contracts import Event
from agents.runtime.head import Head

FORTNIGHT_S = 14 * 86_400
PER_S = 4


class QuickChain:
    """Its blocks from 1 on; `told`: its events, names with arguments, all in block 1, which is
    `age_s` seconds old."""

    def __init__(self, *told: tuple[str, dict[str, Any]], age_s: int = FORTNIGHT_S) -> None:
        self.told: list[Any] = [
            SimpleNamespace(spec=Event, name=name, args=args, block=1, log_index=place)
            for place, (name, args) in enumerate(told)
        ]
        self.height = 1 + age_s * PER_S

    def head(self) -> Head:
        """The newest block."""
        return Head(self.height, b"\1" * 32, b"\2" * 32, self.timestamp(self.height))

    def timestamp(self, block: int) -> int:
        """When a block was made."""
        return block // PER_S

    def block_hash(self, _: int) -> bytes:
        """Nothing is ever taken back."""
        return b"\1" * 32

    def events(self, _: Any, name: str, first: int, last: int, *__: Any) -> list[Any]:
        """Those of a name, in a range that has them."""
        return [event for event in self.told if event.name == name and first <= 1 <= last]
