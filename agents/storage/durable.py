# SPDX-License-Identifier: Apache-2.0
"""Writing files that survive a crash.

Rule: a file under its final name is complete and on disk; everything else has a temporary name.
The bytes go to a temporary file, which is flushed, renamed, and its folder flushed. If the machine
stops before the end, the old file (or none) is there. No reader ever sees half a file.
The disk begins with a large file while the rest of it is still to come.
"""

from __future__ import annotations

import ctypes
import io
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PRIVATE_MODE = 0o600
_PART: Final = ".part-"  # what a temporary file's name begins with; then comes its process
_QUIET_S: Final = 600.0  # for which nobody who still writes pauses
_LONG_QUIET_S: Final = 86400.0
_BEHIND: Final = 8 << 20  # bytes of a file that go to the disk together, while more come
_SYNC_FILE_RANGE_WRITE: Final = 2  # of <linux/fs.h>: begin to write, wait for nothing

Commit = Callable[[Path], None]


def _writer() -> Callable[[int, int, int], object]:
    """What has the disk begin with (file, first byte, count); nothing where the system can't."""
    begin = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux's own
    if begin is None:
        return lambda file, first, count: None
    begin.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return lambda file, first, count: begin(file, first, count, _SYNC_FILE_RANGE_WRITE)


_begin_writing = _writer()


class _WrittenBehind(io.FileIO):
    """A new file, of whose bytes the disk is told as they come, so that few are left for the end.

    That alone makes nothing durable and no error of the disk is lost: `fsync` waits and reports.
    """

    _begun = 0
    _size = 0

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of the bytes; returns how many."""
        count = super().write(data)
        self._size += count
        if self._size - self._begun >= _BEHIND:
            _begin_writing(self.fileno(), self._begun, self._size - self._begun)
            self._begun = self._size
        return count


@contextmanager
def atomic_file(folder: Path, mode: int = 0o666) -> Iterator[tuple[BinaryIO, Commit]]:
    """Yield (file, commit). `commit(dest)` makes what was written appear durably as `dest`.

    Without a commit the temporary file is removed. `dest` must be on the file system of `folder`.
    Raises OSError.
    """
    temporary = folder / f"{_PART}{os.getpid()}-{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with io.BufferedWriter(_WrittenBehind(handle, "wb")) as file:

        def commit(dest: Path) -> None:
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(dest)
            sync_folder(dest.parent)

        try:
            yield file, commit
        finally:
            with suppress(FileNotFoundError):  # it was renamed
                temporary.unlink()


def drop_parts(folder: Path) -> None:
    """Remove what dead processes left half written in a folder.

    That is what nobody has written to for ten minutes and whose process is gone, or for a day: the
    process may be another one's by now, and one in another container can't be seen from here.
    """
    for part in folder.glob(f"{_PART}*"):
        with suppress(OSError):  # another process may have been faster
            quiet_s = time.time() - part.stat().st_mtime
            if quiet_s > _LONG_QUIET_S or (quiet_s > _QUIET_S and not _is_written(part)):
                part.unlink()


def _is_written(part: Path) -> bool:
    """Whether there is a process of the number that a temporary file is named by."""
    try:
        os.kill(int(part.name.split("-")[1]), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def write_atomic(path: Path | str, data: bytes, mode: int = PRIVATE_MODE) -> Path:
    """Make `data` the content of `path`; it is on disk when this returns.

    `mode`: the file's permissions, whatever the process's umask. Creates missing parent folders.
    Returns the path. Raises OSError when the disk refuses; the previous content is then untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path.parent, PRIVATE_MODE) as (file, commit):
        os.fchmod(file.fileno(), mode)
        file.write(data)
        commit(path)
    return path


def copy_atomic(path: Path, source: Path) -> None:
    """Make what `source` holds the content of `path`, as `write_atomic`, in bounded memory.

    Raises OSError when the disk refuses, or `source` can't be read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reading, atomic_file(path.parent, PRIVATE_MODE) as (file, commit):
        shutil.copyfileobj(reading, file)
        commit(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, such as that of a file just made. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
