# SPDX-License-Identifier: Apache-2.0
"""A miner's entries on disk, each durable before it is executed.

Rule: an entry is flushed to the disk, then executed, then what came of it is sent. So whatever
left this machine can be made again from the file, with the same bits: in the determinism class that
it was made in, which stands in a file beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

from agents.pipeline import inbox
from agents.pipeline.inbox import Entry, Inbox
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
    """The file of one epoch."""

    def __init__(self, path: Path, max_message: int) -> None:
        """Open or begin the file, and cut what a crash left of an entry at its end.

        Raises:
            PayloadError: the file is no inbox, or holds an entry that this miner can't have taken.
            OSError: the disk refuses.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._max_message = path, max_message
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        self._file = os.fdopen(handle, "r+b", buffering=0)
        raw, head = path.read_bytes(), inbox.head()
        if len(raw) < len(head) and head.startswith(raw):
            raw = head
            self._write(0, head)
            sync_folder(path.parent)
        whole, self._end = Inbox.whole_part(raw, max_message)
        last = len(whole.entries[-1].to_bytes()) if whole.entries else 0
        self._file.truncate(self._end)
        self._last = self._end - last

    def read(self) -> tuple[Entry, ...]:
        """All entries."""
        return Inbox.from_bytes(self.content(), self._max_message).entries

    def append(self, entry: Entry) -> None:
        """Write an entry; it is on the disk when this returns. Raises OSError."""
        data = entry.to_bytes()
        self._last = self._end
        self._write(self._end, data)
        self._end += len(data)

    def cut_last(self) -> None:
        """Take back the entry that was appended last, once. Raises OSError."""
        self._file.truncate(self._last)
        os.fsync(self._file.fileno())
        self._end = self._last

    def content(self) -> bytes:
        """All of the file."""
        return self._path.read_bytes()[: self._end]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, place: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file.fileno(), view, place)
            view, place = view[written:], place + written
        os.fsync(self._file.fileno())
