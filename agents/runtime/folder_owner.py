# SPDX-License-Identifier: Apache-2.0
"""Whose files a folder of artefacts holds.

Two nodes of one round have files of one name. In one folder each would overwrite what the other has
committed to. So agents of one operator key work in it at a time. Several roles of that key may:
their files have different names. Another key may follow once they have ended, as where an owner
gives a node a new one.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

from agents.runtime.errors import ConfigError
from agents.storage.durable import PRIVATE_MODE, sync_folder

_NOTE = "operator"


def claim(folder: Path, address: str) -> BinaryIO:
    """Note in `folder` whose it is, for as long as the file that is returned is open.

    Raises ConfigError if agents of another operator work in it, OSError if the disk refuses the
    note.
    """
    handle = os.open(folder / _NOTE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    file = os.fdopen(handle, "r+b", buffering=0)
    try:
        if _is_alone(file):
            file.truncate(0)
            os.pwrite(handle, address.encode(), 0)
            os.fsync(handle)
            sync_folder(folder)
        # From now on another key is refused. One that came in between has noted itself.
        fcntl.flock(file, fcntl.LOCK_SH)
        noted = os.pread(handle, len(address), 0).decode(errors="replace")
        if noted.lower() != address.lower():
            raise ConfigError(
                f"an agent of the operator {noted} works in {folder}, and this one is {address}: "
                "each would overwrite what the other has committed to. Set another data_dir for "
                "this one. If it has worked in this one so far, move its journals "
                f"(*-{address}.journal) there first, and copy `artefacts` without `{_NOTE}`."
            )
    except BaseException:
        file.close()
        raise
    return file


def _is_alone(file: BinaryIO) -> bool:
    """Whether nobody else works in the folder; nobody else can begin to, then."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
