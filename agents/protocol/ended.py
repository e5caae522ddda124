# SPDX-License-Identifier: Apache-2.0
"""Which cases are still looked after: all whose end is not known, however old they are.

Rule: a case lives for windows in seconds, and no number of blocks is as long on every chain. So all
of them are found from their events, and one that has ended is read until no reorg can take that
back. Then it is forgotten, so a look costs no more with old cases.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
_REORG_BLOCKS = 128  # that may be taken back


class Ended(Generic[T]):
    """The cases that have ended, with the block at which that was seen."""

    def __init__(self) -> None:
        self._at: dict[T, int] = {}

    def add(self, case: T, block: int) -> None:
        """A case was over when it was read. `block`: the newest one."""
        self._at.setdefault(case, block)

    def discard(self, case: T) -> None:
        """A case was open when it was read: if it had ended, a reorg took that back."""
        self._at.pop(case, None)

    def left(self, cases: Iterable[T], block: int) -> list[T]:
        """The cases that are to be read, each once, in order. `block`: the newest one."""
        reach = block - _REORG_BLOCKS
        return [one for one in dict.fromkeys(cases) if self._at.get(one, reach) >= reach]
