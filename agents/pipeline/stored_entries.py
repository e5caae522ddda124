# SPDX-License-Identifier: Apache-2.0
"""Entries on this machine's disk, of which each is read when it is looked at.

Rule: an inbox may have gigabytes, so nobody holds more of it than the entry at hand. Whoever goes
through one once takes it as it comes (`agents.pipeline.inbox.EntryReader`). Who needs another
miner's more often has them in `ScratchEntries` until its judgement is over. Memory holds where each
entry ends, 8 bytes of each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Self, overload

from agents.pipeline.inbox import Entry
from agents.storage.scratch import Scratch


class StoredEntries(Sequence[Entry]):
    """Entries in their order; a slice of them reads the same file."""

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        ends: Sequence[int],
        part: range | None = None,
    ) -> None:
        """
        Args:
            read: so many bytes from a place; what it raises goes through.
            ends: where each entry ends, behind where the first one begins.
            part: places of those that are in this sequence; None for all.
        """
        self._read, self._ends, self._part = read, ends, part

    @property
    def _places(self) -> range:
        return range(len(self._ends) - 1) if self._part is None else self._part

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> StoredEntries: ...

    def __getitem__(self, index: int | slice) -> Entry | StoredEntries:
        if isinstance(index, slice):
            return StoredEntries(self._read, self._ends, self._places[index])
        place = self._places[index]
        first, end = self._ends[place], self._ends[place + 1]
        return Entry.from_bytes(self._read(first, end - first))


class ScratchEntries(StoredEntries):
    """Those of another miner, in a file that is gone once this is closed.

    Raises StoreUnavailable where the disk refuses.
    """

    def __init__(self) -> None:
        self._scratch, self._own_ends = Scratch(), array("Q", (0,))
        super().__init__(self._scratch.read, self._own_ends)

    def begin(self) -> Callable[[Entry], None]:
        """Drop all; what takes the entries that come, as `EntryReader` asks for it."""
        self._scratch.cut(0)
        del self._own_ends[1:]
        return self._append

    def _append(self, entry: Entry) -> None:
        self._scratch.append(entry.to_bytes())
        self._own_ends.append(self._scratch.size)

    def close(self) -> None:
        """Free the room on disk. No entry can be read any more, of a slice neither."""
        self._scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
