# SPDX-License-Identifier: Apache-2.0
"""Writing files that survive a crash.

Rule: a file under its final name is complete and on disk; everything else has a temporary name.
The bytes go to a temporary file, which is flushed, renamed, and its folder flushed. If the machine
stops before the end, the old file (or none) is there. No reader ever sees half a file.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE_MODE = 0o600

Commit = Callable[[Path], None]


@contextmanager
def atomic_file(folder: Path, mode: int = 0o666) -> Iterator[tuple[BinaryIO, Commit]]:
    """Yield (file, commit). `commit(dest)` makes what was written appear durably as `dest`.

    Without a commit the temporary file is removed. `dest` must be on the file system of `folder`.
    Raises OSError.
    """
    temporary = folder / f".part-{os.getpid()}-{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:

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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, such as that of a file just made. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
