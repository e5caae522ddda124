# SPDX-License-Identifier: Apache-2.0
"""The disk begins with a large file before its end is there, and a file is whole or not there."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.storage import durable
from agents.storage.durable import atomic_file, drop_parts

MIB = 1 << 20
BLOCK = bytes(range(256)) * (MIB // 256)


class Disk:
    """Notes what the disk is told to begin with, tells it, and asks the system what it said."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.replies: list[object] = []
        self._tell: Callable[[int, int, int], object] = durable._begin_writing

    def __call__(self, file: int, first: int, count: int) -> object:
        self.begun.append((first, count))
        assert os.fstat(file).st_size >= first + count  # nothing that the file doesn't have yet
        self.replies.append(self._tell(file, first, count))
        return self.replies[-1]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(durable, "_begin_writing", disk)
    return disk


def test_the_disk_begins_with_each_part_once_while_more_comes(disk: Disk, tmp_path: Path) -> None:
    with atomic_file(tmp_path) as (file, commit):
        for written in range(1, 21):
            file.write(BLOCK)
            told = sum(count for _, count in disk.begun)
            assert written * MIB - told < 9 * MIB  # what the end still waits for is bounded
        assert [first for first, _ in disk.begun] == [0, disk.begun[0][1]]
        assert not list(tmp_path.glob("[!.]*"))
        commit(tmp_path / "whole")
    assert disk.replies == [0, 0]  # the system knows the call and took it
    assert (tmp_path / "whole").read_bytes() == BLOCK * 20
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_small_files_and_systems_without_the_call_are_written_as_well(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.write_atomic(tmp_path / "small", b"x" * MIB)
    assert not disk.begun
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(durable, "_begin_writing", durable._writer())
    durable.write_atomic(tmp_path / "large", BLOCK * 9)
    assert (tmp_path / "large").read_bytes() == BLOCK * 9
    assert not disk.begun


def test_a_large_file_without_commit_leaves_nothing(disk: Disk, tmp_path: Path) -> None:
    with pytest.raises(KeyError), atomic_file(tmp_path) as (file, _):
        file.write(BLOCK * 9)
        raise KeyError
    assert disk.begun and not list(tmp_path.iterdir())


def test_half_written_files_of_the_dead_are_dropped_and_none_that_is_being_written(
    tmp_path: Path,
) -> None:
    """Two processes of one operator may share a folder, and one of them starts anew."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    hour, days = time.time() - 3600, time.time() - 3 * 86400
    last_written = {
        f".part-{dead.pid}-aa": hour,
        f".part-{dead.pid}-bb": time.time(),  # perhaps of a container with process ids of its own
        f".part-{os.getpid()}-cc": hour,
        f".part-{os.getpid()}-dd": days,  # of one that had this id before
        ".part-strange": days,
        "submission-1-2-ab.payload": days,
    }
    for name, when in last_written.items():
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (when, when))
    with atomic_file(tmp_path) as (file, commit):
        drop_parts(tmp_path)
        file.write(b"whole")
        commit(tmp_path / "whole")
    left = {path.name for path in tmp_path.iterdir()}
    spared = {f".part-{dead.pid}-bb", f".part-{os.getpid()}-cc", "submission-1-2-ab.payload"}
    assert left == {*spared, "whole"}
    drop_parts(tmp_path / "nowhere")
