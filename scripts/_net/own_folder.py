# SPDX-License-Identifier: Apache-2.0
"""Which folders a command may empty: those that one like it has made, and no other."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts._net.deployment import DeploymentError

_MARK = ".local-network"
_LOGS = "logs"  # may be there before the rest is
_BEFORE = ("deployment.json", "config", "keys")  # of a network from before there was a mark


def make_empty(folder: Path) -> None:
    """Make a folder for a local network, without what an earlier one left in it.

    Raises DeploymentError, and removes nothing, where anything else lies in it.
    """
    if not _may_empty(folder):
        raise DeploymentError(
            f"{folder} holds what no local network left there, and would be emptied. Name a folder "
            "that is empty or not there yet."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()


def _may_empty(folder: Path) -> bool:
    if not folder.exists():
        return True
    if not folder.is_dir() or folder.is_symlink():
        return False
    found = {entry.name for entry in folder.iterdir()}
    return found <= {_LOGS} or _MARK in found or found.issuperset(_BEFORE)
