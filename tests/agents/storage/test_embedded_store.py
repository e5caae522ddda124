# SPDX-License-Identifier: Apache-2.0
"""The folder under damage, races and kills: a reader gets the right bytes or an error."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.storage import CorruptContent, NotFound, StoreUnavailable
from agents.storage.cid import PROFILE, cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore

REPOSITORY = Path(__file__).resolve().parents[3]
LIMIT = 1 << 30
SMALL, LARGE = b"a small artefact", os.urandom(PROFILE.chunk_size * 2 + 5)

WRITER = """
import hashlib, sys
from agents.storage.embedded import EmbeddedStore
store = EmbeddedStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(sys.argv[3])):
    for i in range(12):
        data = hashlib.sha256(b"%d" % i).digest() * (8 + 6000 * i)
        cid = store.put_bytes(data)
        assert store.get(cid, len(data)) == data
"""

KILLED = """
import os, sys
from agents.storage.embedded import EmbeddedStore
store = EmbeddedStore(sys.argv[1])
print("ready", flush=True)
while True:
    store.put_bytes(os.urandom(3_000_000))
    store.put_bytes(os.urandom(3_000))
"""


def _start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that has said that it is ready."""
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", script, *map(str, arguments)]
    process = subprocess.Popen(command, cwd=REPOSITORY, text=True, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _as_named(paths: list[Path]) -> bool:
    """Whether each file holds what its name says."""
    return all(digest_of(cid_of_bytes(path.read_bytes())).hex() == path.stem for path in paths)


def _objects(store: EmbeddedStore) -> list[Path]:
    return sorted((store.root / "objects").rglob("*.*"))


def _only_object(store: EmbeddedStore) -> Path:
    (path,) = _objects(store)
    path.chmod(0o644)
    return path


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda b: b[:-1],
    "emptied": lambda b: b"",
    "extended": lambda b: b + b"\0",
    "zeroed": lambda b: bytes(len(b)),
    "grown": lambda b: b + bytes(2 << 20),
}


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["raw", "dag"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported_and_repaired(
    embedded: EmbeddedStore, tmp_path: Path, data: bytes, damage: str
) -> None:
    cid = embedded.put_bytes(data)
    path = _only_object(embedded)
    path.write_bytes(DAMAGES[damage](data))
    for call, *arguments in (
        (embedded.get, cid),
        (embedded.get_digest, digest_of(cid)),
        (embedded.get_file, cid, tmp_path / "out"),
    ):
        with pytest.raises(CorruptContent, match="delete that file and put the content again"):
            call(*arguments, LIMIT)
    assert not (tmp_path / "out").exists()
    embedded.put_bytes(data)
    assert embedded.get(cid, LIMIT) == data
    (tmp_path / "in").write_bytes(data)
    path.chmod(0o644)
    path.write_bytes(DAMAGES[damage](data))
    assert embedded.put_file(tmp_path / "in") == cid
    assert embedded.get(cid, LIMIT) == data


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from([SMALL, LARGE]), st.data())
def test_any_flipped_bit_is_found(
    embedded: EmbeddedStore, data: bytes, draw: st.DataObject
) -> None:
    cid = embedded.put_bytes(data)
    suffix = "raw" if data == SMALL else "dag"
    (path,) = (p for p in _objects(embedded) if p.suffix == f".{suffix}")
    path.chmod(0o644)
    changed = bytearray(data)
    changed[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    path.write_bytes(changed)
    with pytest.raises(CorruptContent):
        embedded.get(cid, LIMIT)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_corrupt(embedded: EmbeddedStore, make: Callable[[Path], None]) -> None:
    cid = embedded.put_bytes(SMALL)
    path = _only_object(embedded)
    path.unlink()
    make(path)
    with pytest.raises(CorruptContent):
        embedded.get(cid, LIMIT)
    assert not embedded.has(cid)


def test_content_already_kept_is_not_written_again(embedded: EmbeddedStore, tmp_path: Path) -> None:
    embedded.put_bytes(LARGE)
    (tmp_path / "in").write_bytes(LARGE)
    before = _only_object(embedded).stat()
    embedded.put_bytes(LARGE)
    embedded.put_file(tmp_path / "in")
    after = _only_object(embedded).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list((embedded.root / "tmp").iterdir()) == []


def test_a_second_store_on_the_folder_sees_the_content(embedded: EmbeddedStore) -> None:
    cid = embedded.put_bytes(SMALL)
    assert EmbeddedStore(embedded.root).get(cid, LIMIT) == SMALL


def test_leftovers_are_swept_when_nobody_writes_them_any_more(embedded: EmbeddedStore) -> None:
    old, new = embedded.root / "tmp" / "old", embedded.root / "tmp" / "new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (time.time() - 7200,) * 2)
    EmbeddedStore(embedded.root)
    assert not old.exists()
    assert new.exists()


def test_data_reaches_the_disk_before_its_name(
    embedded: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        target = Path(f"/proc/self/fd/{handle}").readlink()
        steps.append(f"sync {target.parent.name if target.is_file() else target.name}")
        real_fsync(handle)

    def replace(source: Path, dest: Path) -> None:
        steps.append("rename")
        real_replace(source, dest)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    shard = digest_of(embedded.put_bytes(SMALL)).hex()[-2:]
    assert steps == ["sync tmp", "rename", f"sync {shard}"]


def test_a_disk_that_takes_no_more_is_unavailable(embedded: EmbeddedStore, tmp_path: Path) -> None:
    """A limit on file size stands in for a full disk: both fail in the middle of a write."""
    (tmp_path / "in").write_bytes(LARGE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        for put in (lambda: embedded.put_bytes(LARGE), lambda: embedded.put_file(tmp_path / "in")):
            with pytest.raises(StoreUnavailable, match="the disk has space"):
                put()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert _objects(embedded) == []
    assert list((embedded.root / "tmp").iterdir()) == []


def test_a_folder_that_vanished_is_unavailable(embedded: EmbeddedStore, tmp_path: Path) -> None:
    cid = embedded.put_bytes(SMALL)
    embedded.root.rename(tmp_path / "gone")
    with pytest.raises(StoreUnavailable, match="check that it exists"):
        embedded.put_bytes(LARGE)
    with pytest.raises(NotFound):
        embedded.get(cid, LIMIT)


def test_a_store_on_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="cannot open the store folder"):
        EmbeddedStore(tmp_path / "file")


def test_processes_may_write_the_same_content_at_once(tmp_path: Path) -> None:
    writers = [_start(WRITER, tmp_path, n, 8) for n in range(4)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, "")
    store = EmbeddedStore(tmp_path)
    assert len(_objects(store)) == 12
    assert list((tmp_path / "tmp").iterdir()) == []
    assert _as_named(_objects(store))


def test_a_killed_writer_leaves_nothing_wrong(tmp_path: Path) -> None:
    chance = random.Random(1)
    written = EmbeddedStore(tmp_path)
    for _ in range(12):
        with _start(KILLED, tmp_path) as writer:
            wanted = len(_objects(written)) + 2
            until = time.monotonic() + 60
            while len(_objects(written)) < wanted:  # it is at work
                assert time.monotonic() < until
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.12))
            writer.send_signal(signal.SIGKILL)
            writer.wait()
    paths = _objects(EmbeddedStore(tmp_path))
    assert len(paths) >= 24  # the kills came in the middle of work
    assert _as_named(paths)
    store = EmbeddedStore(tmp_path)
    assert store.get(store.put_bytes(SMALL), LIMIT) == SMALL
