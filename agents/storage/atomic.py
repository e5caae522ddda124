# SPDX-License-Identifier: Apache-2.0
"""Rule: a file under its final name is complete and on disk; everything else has a temporary name.

Write to a temporary file, fsync it, rename it, fsync the folder. A crash at any point leaves
either the whole file or none.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
