# SPDX-License-Identifier: Apache-2.0
"""Writing files that survive a crash.

Rule: when `write_atomic` returns, the whole content is on disk under its final name; if the
machine stops before, the old file (or none) is there. No reader ever sees half a file.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PRIVATE_MODE = 0o600


def sync_directory(directory: Path) -> None:
    """Flush a directory's entries, so that a file created or renamed in it survives a crash."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path | str, data: bytes, mode: int = PRIVATE_MODE) -> Path:
    """Write `data` to `path` (temporary file, fsync, rename, fsync of the directory).

    Creates missing parent directories. Returns the path. Raises OSError when the disk refuses;
    the previous content is then untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
    return path
