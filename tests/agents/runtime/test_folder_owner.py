# SPDX-License-Identifier: Apache-2.0
"""Files of commitments don't carry a node's name, so agents of one operator use a folder of them at
a time."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agents.runtime import folder_owner
from agents.runtime.errors import ConfigError
from agents.runtime.folder_owner import claim

ANN, BOB = "0x" + "aA" * 20, "0x" + "bB" * 20


def test_another_operator_is_refused_with_what_to_set(tmp_path: Path) -> None:
    with claim(tmp_path, ANN):
        with pytest.raises(ConfigError, match="data_dir") as refused:
            claim(tmp_path, BOB)
        assert ANN in str(refused.value) and BOB in str(refused.value)
        claim(tmp_path, ANN).close()


def test_one_operator_may_run_several_roles(tmp_path: Path) -> None:
    held = [claim(tmp_path, address) for address in (ANN, ANN, ANN.lower())]
    held.pop(0).close()
    with pytest.raises(ConfigError):
        claim(tmp_path, BOB)
    for each in held:
        each.close()


def test_a_new_key_of_a_node_follows_the_old_one(tmp_path: Path) -> None:
    """An owner gives a node another operator key; its agent starts again where it worked."""
    claim(tmp_path, ANN).close()
    with claim(tmp_path, BOB), pytest.raises(ConfigError):
        claim(tmp_path, ANN)


@pytest.mark.parametrize("left", ["", ANN[:20], "\0" * len(ANN)])
def test_a_note_that_a_crash_cut_is_written_again(tmp_path: Path, left: str) -> None:
    (tmp_path / "operator").write_text(left)
    with claim(tmp_path, BOB), pytest.raises(ConfigError):
        claim(tmp_path, ANN)


def _claims(folder: Path, address: str) -> bool:
    try:
        held = claim(folder, address)
    except ConfigError:
        return False
    time.sleep(5.0)
    held.close()
    return True


def test_of_many_at_once_one_gets_the_folder(tmp_path: Path) -> None:
    addresses = [f"0x{number:040x}" for number in range(8)]
    with multiprocessing.get_context("fork").Pool(8) as pool:
        got = pool.starmap(_claims, [(tmp_path, address) for address in addresses], chunksize=1)
    assert sum(got) == 1


def test_the_note_is_on_the_disk_before_the_agent_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file)))
    claim(tmp_path, ANN).close()
    assert len(synced) == 2, "the file and its name in the folder"


def test_a_full_disk_stops_nobody_who_has_commitments_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder_owner.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        claim(tmp_path, ANN)
