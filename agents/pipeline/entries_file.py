# SPDX-License-Identifier: Apache-2.0
"""A miner's entries on disk, each durable before it is executed.

Rule: an entry is flushed to the disk, then executed, then what came of it is sent. So whatever
left this machine can be made again from the file, with the same bits: in the determinism class that
it was made in, which stands in a file beside it.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from pathlib import Path

from agents.pipeline import inbox
from agents.pipeline.inbox import Entry, EntryReader
from agents.pipeline.stored_entries import StoredEntries
from agents.storage.cid import read_pieces
from agents.storage.durable import PRIVATE_MODE, sync_folder, write_atomic

_CLASS = ".class"  # what the name of that file ends with


def class_of_entries(path: Path, label: str) -> str:
    """The determinism class that the entries of this file were made in; `label` if there are none.

    Call it before the file is opened: `label` is noted then, unless there is another one. A file of
    an older version has entries and no class. They count as made in `label`, as that version took
    them. Raises OSError.
    """
    noted = path.with_suffix(_CLASS)
    if path.exists() and path.stat().st_size > len(inbox.head()) and noted.exists():
        return noted.read_text(encoding="utf-8")
    write_atomic(noted, label.encode())
    return label


class EntriesFile:
    """The file of one epoch. Memory holds where each entry ends, and no entry."""

    def __init__(self, path: Path, max_message: int) -> None:
        """Open or begin the file, and cut what a crash left of an entry at its end.

        Raises:
            PayloadError: the file is no inbox, or holds an entry that this miner can't have taken.
            OSError: the disk refuses.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        self._file = os.fdopen(handle, "r+b", buffering=0)
        head = inbox.head()
        began = os.pread(handle, len(head), 0)
        if len(began) < len(head) and head.startswith(began):
            self._write(0, head)
            sync_folder(path.parent)
        self._ends = array("Q")
        reader = EntryReader(self._begin, max_message)
        for piece in read_pieces(self._file):
            reader.write(piece)
        reader.check(whole=False)
        self._file.truncate(self._ends[-1])

    def read(self) -> StoredEntries:
        """The entries that there are now, each of which is read when it is looked at. What looks at
        one raises OSError."""
        return StoredEntries(self._read, self._ends[:])

    def append(self, entry: Entry) -> None:
        """Write an entry; it is on the disk when this returns. Raises OSError."""
        data = entry.to_bytes()
        self._write(self._ends[-1], data)
        self._ends.append(self._ends[-1] + len(data))

    def cut_last(self) -> None:
        """Take back the entry that was appended last. Raises OSError."""
        self._file.truncate(self._ends[-2])
        os.fsync(self._file.fileno())
        self._ends.pop()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin(self) -> Callable[[Entry], None]:
        self._ends = array("Q", (len(inbox.head()),))
        return lambda entry: self._ends.append(self._ends[-1] + entry.size)

    def _read(self, place: int, count: int) -> bytes:
        found = os.pread(self._file.fileno(), count, place)
        if len(found) != count:
            raise OSError(f"the file of entries ends at {place + len(found)}, in an entry")
        return found

    def _write(self, place: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file.fileno(), view, place)
            view, place = view[written:], place + written
        os.fsync(self._file.fileno())
