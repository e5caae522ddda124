# SPDX-License-Identifier: Apache-2.0
"""Whose files a folder of artefacts holds.

Two nodes of one round have files of one name. In one folder each would overwrite what the other has
committed to. So the folder is of the operator key that used it first. Several roles of one key may
share it: their files have different names.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from agents.runtime.errors import ConfigError
from agents.storage.durable import PRIVATE_MODE, sync_folder

_NOTE = "operator"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def claim(folder: Path, address: str) -> None:
    """Note in `folder` whose it is; of several processes at once one gets it.

    Raises ConfigError if it is another operator's, OSError if the disk refuses the note.
    """
    handle = os.open(folder / _NOTE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed, so no reader finds half a note
        noted = file.read().decode(errors="replace")
        if _ADDRESS.fullmatch(noted) is None:  # none yet, or what a crash left of one
            file.truncate(0)
            os.pwrite(handle, address.encode(), 0)
            os.fsync(handle)
            sync_folder(folder)
        elif noted.lower() != address.lower():
            raise ConfigError(
                f"{folder} holds the files of the operator {noted}, and this agent is {address}: "
                "each would overwrite what the other has committed to. Set another data_dir for "
                "this one. If it has worked in this one so far, move its journals "
                f"(*-{address}.journal) there first, and copy `artefacts` without `{_NOTE}`."
            )
