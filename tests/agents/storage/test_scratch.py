# SPDX-License-Identifier: Apache-2.0
"""Bytes on disk for a while: they are what was written, and leave nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agents.storage.errors import StoreUnavailable
from agents.storage.scratch import Scratch


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the operator has it. `tempfile` notes the folder once in a process."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_it_is_what_was_written_and_has_no_name(folder: Path) -> None:
    with Scratch() as scratch:
        places = [scratch.append(raw) for raw in (b"first", b"", bytearray(b"second"))]
        assert places == [0, 5, 5] and scratch.size == 11
        assert scratch.read(5, 6) == b"second" and scratch.read(0, 5) == b"first"
        scratch.cut(5)
        assert scratch.append(b"other") == 5 and scratch.read(3, 4) == b"stot"
        with pytest.raises(StoreUnavailable, match=f"{folder}.*10 bytes|4 of 10 bytes"):
            scratch.read(6, 10)
        assert list(folder.iterdir()) == []


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_its_room_is_free_once_nobody_holds_it(folder: Path) -> None:
    before = open_files()
    held = [Scratch() for _ in range(3)]
    assert open_files() == before + 3
    held.pop().close()
    held.pop()
    assert open_files() == before + 1
    held.clear()
    assert open_files() == before


def test_a_disk_that_is_full_is_no_word_on_anybodys_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Scratch() as scratch:
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(StoreUnavailable, match=r"No space left.*TMPDIR"):
            scratch.append(b"x")


def test_without_a_word_of_the_operator_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    with Scratch() as scratch:
        where = Path(f"/proc/self/fd/{scratch._file.fileno()}").readlink()
        assert where.is_relative_to("/var/tmp")
    monkeypatch.setattr("agents.storage.scratch._ON_DISK", "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", None)
    Scratch().close()
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(StoreUnavailable, match="cannot make a file in /nowhere"):
        Scratch()
