# SPDX-License-Identifier: Apache-2.0
"""Bytes that are too many for memory, on disk for as long as somebody looks at them.

Rule: the file has no name, so the system frees its room with the process at the latest, however
that ends. Nothing in it is durable.

It lies where `TMPDIR` says, else in `/var/tmp`: in many systems `/tmp` is memory.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Final, Self

from agents.storage.cid import Buffer
from agents.storage.errors import StoreUnavailable

_SET: Final = ("TMPDIR", "TEMP", "TMP")  # by which an operator says where, for all programs
_ON_DISK: Final = "/var/tmp"


class Scratch:
    """A file that bytes are appended to. Any thread may read, one at a time writes.

    Raises StoreUnavailable where the disk refuses, here and in each method.
    """

    def __init__(self) -> None:
        self._folder = _folder()
        try:
            self._file = tempfile.TemporaryFile(buffering=0, dir=self._folder)  # noqa: SIM115
        except OSError as error:
            raise self._refused("make a file", error) from error
        self._free = weakref.finalize(self, self._file.close)
        self.size = 0
        """Bytes in it."""

    def append(self, data: Buffer) -> int:
        """Put bytes at the end; returns the place of the first one."""
        place, view = self.size, memoryview(data)
        try:
            while view:
                written = os.pwrite(self._file.fileno(), view, self.size)
                view, self.size = view[written:], self.size + written
        except OSError as error:
            raise self._refused("write", error) from error
        return place

    def read(self, place: int, count: int) -> bytes:
        """So many bytes from a place."""
        try:
            found = os.pread(self._file.fileno(), count, place)
        except OSError as error:
            raise self._refused("read", error) from error
        if len(found) != count:
            raise self._refused("read", OSError(f"it has {len(found)} of {count} bytes"))
        return found

    def cut(self, size: int) -> None:
        """Drop what lies behind so many bytes."""
        try:
            self._file.truncate(size)
        except OSError as error:
            raise self._refused("cut", error) from error
        self.size = size

    def close(self) -> None:
        """Free its room; it can't be read any more."""
        self._free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refused(self, action: str, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(
            f"cannot {action} in {self._folder}: {error}; free some room there, or set TMPDIR to "
            "a folder that has more"
        )


def _folder() -> str:
    if not any(os.environ.get(name) for name in _SET) and os.access(_ON_DISK, os.W_OK | os.X_OK):
        return _ON_DISK
    return tempfile.gettempdir()
