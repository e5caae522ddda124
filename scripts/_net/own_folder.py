# SPDX-License-Identifier: Apache-2.0
"""Which folders a command may empty: those that one like it has made, and no other.

A network whose wallets were paid by somebody's key, on a chain that goes on without it, is not
removed: they may hold ether. Its folder gets another name.
"""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

from scripts._net.deployment import DeploymentError

_MARK = ".local-network"
_LOGS = "logs"  # may be there before the rest is
_BEFORE = ("deployment.json", "config", "keys")  # of a network from before there was a mark


def make_empty(folder: Path, paid_on: int | None = None) -> Path | None:
    """Make a folder for a local network, without what an earlier one left in it.

    `paid_on`: the chain on which somebody's key pays for the new one. Returns where an earlier one
    lies now, if such a key paid for it. Raises DeploymentError, and changes nothing, where anything
    else lies there.
    """
    if not _may_empty(folder):
        raise DeploymentError(
            f"{folder} holds what no local network left there, and would be emptied. Name a folder "
            "that is empty or not there yet."
        )
    mark, kept = folder / _MARK, None
    if chain := mark.read_text() if mark.exists() else "":
        named = (folder.with_name(f"{folder.name}-{chain}-{i}") for i in count(1))
        kept = folder.rename(next(path for path in named if not path.exists()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mark.write_text("" if paid_on is None else str(paid_on))
    return kept


def _may_empty(folder: Path) -> bool:
    if not folder.exists():
        return True
    if not folder.is_dir() or folder.is_symlink():
        return False
    found = {entry.name for entry in folder.iterdir()}
    return found <= {_LOGS} or _MARK in found or found.issuperset(_BEFORE)
