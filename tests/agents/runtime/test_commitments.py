# SPDX-License-Identifier: Apache-2.0
"""A commitment's secret is on disk before anything is sent, is written once, and is found again."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from pathlib import Path

import pytest

import agents.runtime.commitments as commitments_module
from agents.runtime.commitments import Commitments, Entry
from agents.runtime.errors import JournalError, JournalFull
from agents.runtime.journal import Journal


def digest_of(entry: Entry) -> bytes:
    return hashlib.sha256(f"{entry['what']} {entry['salt']}".encode()).digest()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "node.journal")


@pytest.fixture
def kept(journal: Journal, tmp_path: Path) -> Commitments:
    return Commitments(journal, tmp_path, "trainer")


def test_what_is_kept_is_read_again_after_a_restart(
    kept: Commitments, journal: Journal, tmp_path: Path
) -> None:
    entry = kept.keep("scores-1-2-ab", {"what": "w"}, {"record": b"r", "memory": None})
    journal.close()
    again = Commitments(Journal(tmp_path / "node.journal"), tmp_path, "trainer")
    assert again.get("scores-1-2-ab") == entry == {"what": "w", "salt": entry["salt"]}
    assert again.path("scores-1-2-ab", "record").read_bytes() == b"r"
    assert not again.path("scores-1-2-ab", "memory").exists()
    assert again.get("scores-1-2-cd") is None


def test_an_entry_is_written_once(kept: Commitments) -> None:
    first = kept.keep("task-1-2-ab", {"what": "w"}, {"payload": b"one"})
    assert kept.keep("task-1-2-ab", {"what": "other"}, {"payload": b"two"}) == first
    assert kept.path("task-1-2-ab", "payload").read_bytes() == b"one"


def test_a_large_file_is_copied_and_never_held(kept: Commitments, tmp_path: Path) -> None:
    source = tmp_path / "entries"
    source.write_bytes(bytes(32 << 20))
    tracemalloc.start()
    try:
        kept.keep("submission-1-2-ab", {"what": "w"}, {"inbox": source})
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    source.unlink()  # whoever made it begins another epoch
    found = kept.path("submission-1-2-ab", "inbox")
    assert found.stat().st_size == 32 << 20 and found.stat().st_mode & 0o777 == 0o600


def test_a_file_that_can_not_be_copied_leaves_no_secret(kept: Commitments, tmp_path: Path) -> None:
    with pytest.raises(JournalFull, match="does not commit to work that it might lose"):
        kept.keep("submission-1-2-ab", {}, {"payload": b"one", "inbox": tmp_path / "gone"})
    assert kept.get("submission-1-2-ab") is None
    assert not kept.path("submission-1-2-ab", "payload").exists()


def test_every_salt_is_another(kept: Commitments) -> None:
    salts = {kept.keep(f"task-{i}-2-ab", {"what": "w"}, {})["salt"] for i in range(20)}
    assert len(salts) == 20
    assert {len(bytes.fromhex(salt)) for salt in salts} == {32}


def test_a_crash_between_files_and_entry_leaves_no_secret(
    kept: Commitments, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = []

    def dies(point: str) -> None:
        points.append(point)
        raise KeyboardInterrupt

    monkeypatch.setattr(commitments_module, "crashpoint", dies)
    with pytest.raises(KeyboardInterrupt):
        kept.keep("task-1-2-ab", {"what": "w"}, {"payload": b"one"})
    monkeypatch.undo()
    assert points == ["trainer-before-journal"]
    assert kept.get("task-1-2-ab") is None
    assert kept.path("task-1-2-ab", "payload").read_bytes() == b"one"
    kept.keep("task-1-2-ab", {"what": "w"}, {"payload": b"two"})
    assert kept.path("task-1-2-ab", "payload").read_bytes() == b"two"


def test_a_disk_that_refuses_a_file_leaves_no_secret(
    kept: Commitments, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(commitments_module, "write_atomic", full)
    with pytest.raises(JournalFull, match=r"payload could not be written: no space left\. Free"):
        kept.keep("task-1-2-ab", {"what": "w"}, {"payload": b"one"})
    assert kept.get("task-1-2-ab") is None


def test_what_a_disk_took_before_it_refused_does_not_stay(
    kept: Commitments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fill the disk further, with a payload of each try of another round."""
    write = commitments_module.write_atomic

    def full(path: Path, content: bytes) -> None:
        if path.suffix == ".memory":
            raise OSError("no space left")
        write(path, content)

    monkeypatch.setattr(commitments_module, "write_atomic", full)
    with pytest.raises(JournalFull):
        kept.keep("task-1-2-ab", {}, {"payload": b"p", "memory": b"m"})
    assert not kept.path("task-1-2-ab", "payload").exists()
    monkeypatch.undo()
    kept.keep("task-1-2-ab", {}, {"payload": b"p", "memory": b"m"})
    assert kept.path("task-1-2-ab", "payload").read_bytes() == b"p"


def test_what_a_dead_process_left_half_written_goes_at_the_start(
    journal: Journal, tmp_path: Path
) -> None:
    part = tmp_path / ".part-1-00"
    part.write_bytes(b"half")
    os.utime(part, (0, 0))
    Commitments(journal, tmp_path, "trainer")
    assert not part.exists()


def test_what_is_no_json_is_refused(kept: Commitments) -> None:
    with pytest.raises(JournalError, match="plain JSON"):
        kept.keep("task-1-2-ab", {"what": b"bytes"}, {})
    assert kept.get("task-1-2-ab") is None


def test_after_a_reorg_the_commitment_on_chain_says_which_secret_it_is(kept: Commitments) -> None:
    entries = {
        name: kept.keep(name, {"what": name}, {})
        for name in ("scores-1-2-ab", "scores-1-2-cd", "scores-1-20-ab", "scores-11-2-ab")
    }
    for name in ("scores-1-2-ab", "scores-1-2-cd"):
        found = kept.behind("scores-1-2-", digest_of(entries[name]), digest_of)
        assert found == (name, entries[name])
    for other in (bytes(32), digest_of(entries["scores-1-20-ab"])):
        assert kept.behind("scores-1-2-", other, digest_of) is None


def test_only_what_is_asked_for_is_forgotten(kept: Commitments, journal: Journal) -> None:
    for number in (1, 2, 10, 12):
        kept.keep(f"task-{number}-5-ab", {}, {"payload": b"p", "trace": b"t"})
    journal.put("validator-root", "00")
    assert kept.numbers("task-") == {1, 2, 10, 12}
    kept.forget("task-1-")
    assert kept.numbers("task-") == {2, 10, 12}
    kept.forget_until("task-", 10)
    assert journal.keys() == ["task-12-5-ab", "validator-root"]
    folder = kept.path("task-12-5-ab", "payload").parent
    left = sorted(path.name for path in folder.glob("task-*"))
    assert left == ["task-12-5-ab.payload", "task-12-5-ab.trace"]
    kept.forget("task-99-")


def test_an_entry_is_forgotten_before_its_files(
    kept: Commitments, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever dies in between leaves a file that nobody asks for, and no entry without its file."""
    kept.keep("task-1-2-ab", {}, {"payload": b"p"})

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "unlink", dies)
    with pytest.raises(KeyboardInterrupt):
        kept.forget("task-1-")
    assert journal.keys() == []
    assert kept.path("task-1-2-ab", "payload").read_bytes() == b"p"


def test_what_a_disk_refuses_to_forget_stays_whole_and_nothing_waits_for_it(
    kept: Commitments, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.keep("task-1-2-ab", {}, {"payload": b"p"})

    def refuses(*_: object, **__: object) -> None:
        raise JournalFull("no room")

    monkeypatch.setattr(Journal, "put", refuses)
    kept.forget("task-1-")
    kept.forget_until("task-", 9)
    assert journal.keys() == ["task-1-2-ab"]
    assert kept.path("task-1-2-ab", "payload").read_bytes() == b"p"
    monkeypatch.undo()

    def read_only(*_: object, **__: object) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    kept.forget("task-1-")
    assert journal.keys() == []


def test_what_was_written_and_never_committed_to_is_swept(
    kept: Commitments, tmp_path: Path
) -> None:
    """Such as a miner's states, if it died at work and came back to another round."""
    kept.keep("task-1-2-ab", {"what": "w"}, {"payload": b"kept"})
    left = ["task-1-2-cd.state-1", "task-1-3-ab.state-1", "task-1-3-ab.state-end"]
    spared = ["task-1-4-ab.state-1", "task-11-2-cd.state-1", "epoch-1-2.entries"]
    for name in (*left, *spared):
        (tmp_path / name).write_bytes(b"state")
    kept.sweep("task-1-", "task-1-4-ab")
    assert not any((tmp_path / name).exists() for name in left)
    assert all((tmp_path / name).exists() for name in spared)
    assert kept.path("task-1-2-ab", "payload").read_bytes() == b"kept"
