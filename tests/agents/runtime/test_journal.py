# SPDX-License-Identifier: Apache-2.0
"""The journal never loses what it acknowledged and never returns what was not written."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.runtime.errors import JournalError, JournalFull
from agents.runtime.journal import Journal
from agents.storage.durable import write_atomic

ROOT = Path(__file__).parents[3]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
writes = st.lists(st.tuples(st.sampled_from(["a", "b", "round/1"]), values), max_size=8)


def fill(path, pairs):
    """Write pairs; return the state after each of them (index 0: empty)."""
    path.unlink(missing_ok=True)
    states = [{}]
    with Journal(path) as journal:
        for key, value in pairs:
            journal.put(key, value)
            states.append({k: v for k, v in {**states[-1], key: value}.items() if v is not None})
    return states


def contents(path):
    with Journal(path) as journal:
        return {key: journal.get(key) for key in journal.keys()}  # noqa: SIM118


def test_what_is_put_is_there_after_reopening(tmp_path):
    path = tmp_path / "sub" / "agent.journal"
    with Journal(path) as journal:
        journal.put("round/1/salt", "0x12")
        journal.put("round/1/salt", {"salt": "0x34", "n": 2**255})
        journal.put("gone", 1)
        journal.delete("gone")
        assert "gone" not in journal and journal.get("gone", "none") == "none"
    with Journal(path) as journal:
        assert journal.get("round/1/salt") == {"salt": "0x34", "n": 2**255}
        assert journal.keys("round/") == ["round/1/salt"]
        assert journal.keys("x") == [] and not journal.torn


def test_returned_values_are_copies(tmp_path):
    with Journal(tmp_path / "j") as journal:
        value = {"list": [1]}
        journal.put("k", value)
        value["list"].append(2)
        journal.get("k")["list"].append(3)
        assert journal.get("k") == {"list": [1]}


def test_files_are_private(tmp_path):
    path = tmp_path / "j"
    path.touch(mode=0o644)
    with Journal(path) as journal:
        journal.put("k", 1)
        for file in (path, tmp_path / "j.lock"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(write_atomic(tmp_path / "x" / "p", b"1").stat().st_mode) == 0o600


def test_two_agents_cannot_share_one(tmp_path):
    with Journal(tmp_path / "j"), pytest.raises(JournalError, match=f"process {os.getpid()}"):
        Journal(tmp_path / "j")
    Journal(tmp_path / "j").close()


def test_values_must_be_plain_json(tmp_path):
    with Journal(tmp_path / "j") as journal:
        for bad in (b"bytes", float("nan"), {1, 2}):
            with pytest.raises(JournalError, match="'k' is not plain JSON"):
                journal.put("k", bad)
        journal.put("k", 1)
    assert contents(tmp_path / "j") == {"k": 1}


def test_a_torn_last_line_is_dropped_and_writing_goes_on(tmp_path):
    path = tmp_path / "j"
    fill(path, [("a", 1), ("b", 2)])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        with Journal(path) as journal:
            assert journal.torn == (cut > first)
            assert journal.get("b") is None
            journal.put("c", 3)
        assert contents(path)["c"] == 3 and contents(path)["a"] == 1


def test_damage_names_the_line(tmp_path):
    path = tmp_path / "j"
    fill(path, [("a", 1), ("b", 2), ("c", 3)])
    lines = path.read_bytes().splitlines(keepends=True)
    for broken, number in (
        ([lines[0], lines[1].replace(b"2]", b"9]"), lines[2]], 2),
        ([lines[0], lines[2]], 2),
        ([lines[1], lines[0], lines[2]], 1),
        ([lines[0], lines[0], *lines[1:]], 2),
        ([*lines[:2], b"rubbish\n"], 3),
        ([b"\n", *lines], 1),
    ):
        path.write_bytes(b"".join(broken))
        with pytest.raises(JournalError, match=f"Line {number} of the journal"):
            Journal(path)
    path.write_bytes(b"".join(lines))
    assert contents(path) == {"a": 1, "b": 2, "c": 3}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(pairs=writes, data=st.data())
def test_truncation_gives_an_earlier_state(tmp_path, pairs, data):
    path = tmp_path / "j"
    states = fill(path, pairs)
    raw = path.read_bytes()
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    kept = path.read_bytes().count(b"\n")
    assert contents(path) in (states[kept], states[min(kept + 1, len(pairs))])


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(pairs=writes.filter(bool), data=st.data())
def test_flipped_bits_never_give_wrong_data(tmp_path, pairs, data):
    path = tmp_path / "j"
    states = fill(path, pairs)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = bytes(raw) != path.read_bytes()
    path.write_bytes(bytes(raw))
    try:
        found = contents(path)
    except JournalError as error:
        assert changed and "Line" in str(error)
        return
    assert found in (states[-1], states[-2]), "a state that never was"
    assert not changed or raw[-1:] != b"\n", "damage in a finished line went unseen"


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300))
def test_any_bytes_are_an_error_or_an_empty_journal(tmp_path, blob):
    path = tmp_path / "j"
    path.write_bytes(blob)
    try:
        assert contents(path) == {}
        assert b"\n" not in blob
    except JournalError:
        assert b"\n" in blob


def test_compaction_keeps_the_state_and_shrinks_the_file(tmp_path):
    path = tmp_path / "j"
    fill(path, [(f"k{i % 3}", i) for i in range(200)])
    before = path.stat().st_size
    assert contents(path) == {"k0": 198, "k1": 199, "k2": 197}
    assert path.stat().st_size < before / 20
    with Journal(path) as journal:
        journal.put("k0", "new")
    assert contents(path) == {"k0": "new", "k1": 199, "k2": 197}


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes: the write up to there is a part."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("part", [0, 1, 40])
def test_a_write_that_the_disk_takes_a_part_of_is_refused(tmp_path, part):
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.put("secret", 1)
        before = path.read_bytes()
        for _ in range(2):
            with room(len(before) + part), pytest.raises(JournalFull, match="Free disk space"):
                journal.put("other", "x" * 100)
            assert path.read_bytes() == before and "other" not in journal
        journal.put("other", 2)
    assert contents(path) == {"secret": 1, "other": 2}


def test_what_a_refused_write_left_is_cut_off_before_the_next(tmp_path, monkeypatch):
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.put("secret", 1)
        before, refused = path.read_bytes(), []

        def refuse(self):
            refused.append(1)
            raise OSError(errno.EIO, "Input/output error")

        cut_back, writes = Journal._cut_back, iter([Journal._cut_back, refuse])
        with monkeypatch.context() as patch, room(len(before) + 20):
            patch.setattr(Journal, "_cut_back", lambda self: next(writes)(self))
            with pytest.raises(JournalFull):
                journal.put("other", 2)
        assert Journal._cut_back is cut_back and refused
        assert path.read_bytes()[len(before) :]  # half a line
        journal.put("third", 3)
    assert contents(path) == {"secret": 1, "third": 3}


def test_a_torn_journal_opens_on_a_full_disk(tmp_path):
    path = tmp_path / "j"
    fill(path, [("a", 1), ("b", 2)] * 100)
    path.write_bytes(path.read_bytes()[:-3])
    with room(0), Journal(path) as journal:
        assert journal.torn
        assert (journal.get("a"), journal.get("b")) == (1, 2)
        with pytest.raises(JournalFull):
            journal.put("a", 3)


def test_a_folder_that_is_none_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="as data_dir"):
        Journal(tmp_path / "file" / "j")


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.put("k", 1)

        def refuse(_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("agents.runtime.journal.os.fsync", refuse)
            with pytest.raises(JournalError, match="No space left"):
                journal.put("k", "much longer than the next line")
        assert journal.get("k") == 1
        journal.put("m", 3)
    assert contents(path) == {"k": 1, "m": 3}


WRITER = """
import sys
from agents.runtime.journal import Journal
journal = Journal(sys.argv[1])
start = journal.get("count", -1) + 1
print("open", flush=True)
for i in range(start, 10**9):
    journal.put("count", i)
    journal.put(f"salt/{i % 50}", {"i": i, "pad": "x" * (i % 700)})
    print(i, flush=True)
"""


def test_kill_nine_while_writing_loses_nothing_acknowledged(tmp_path):
    path = tmp_path / "j"
    count = -1
    for attempt in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout.readline() == "open\n"
        said = [writer.stdout.readline() for _ in range(3 + attempt)]
        time.sleep(0.003 * attempt)
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read().splitlines(keepends=True)
        writer.wait()
        writer.stdout.close()
        heard = [int(line) for line in said if line.endswith("\n")]
        assert heard == list(range(count + 1, count + 1 + len(heard)))
        acknowledged = heard[-1]
        with Journal(path) as journal:
            count = journal.get("count")
            assert count in (acknowledged, acknowledged + 1)
            salt = journal.get(f"salt/{acknowledged % 50}")
            assert salt == {"i": acknowledged, "pad": "x" * (acknowledged % 700)}
    assert count > 20


def test_lines_are_json(tmp_path):
    fill(tmp_path / "j", [("a", 1)])
    (line,) = (tmp_path / "j").read_text().splitlines()
    assert json.loads(line)["rec"] == [0, "a", 1]


def test_write_atomic_replaces_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "payload"
    write_atomic(path, b"old")

    def refuse(*_):
        raise OSError("disk pulled")

    monkeypatch.setattr("agents.storage.durable.Path.replace", refuse)
    with pytest.raises(OSError, match="disk pulled"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["payload"]


FORMER, PRESENT = "redundant-0x1.journal", "executor-0x1.journal"


def test_a_journal_under_a_former_name_is_taken_over(tmp_path):
    former = tmp_path / FORMER
    fill(former, [("task-1-2-ab", {"salt": "1"}), ("task-2-2-ab", {"salt": "old"})])
    with Journal(tmp_path / PRESENT) as journal:
        journal.put("task-2-2-ab", {"salt": "new"})
        assert journal.adopt(former)
        assert not former.exists()
        assert not journal.adopt(former)
    found = {"task-1-2-ab": {"salt": "1"}, "task-2-2-ab": {"salt": "new"}}
    assert contents(tmp_path / PRESENT) == found


def test_a_former_journal_that_is_in_use_or_damaged_is_left_as_it_is(tmp_path):
    former = tmp_path / FORMER
    with Journal(tmp_path / PRESENT) as journal:
        with Journal(former) as old:
            old.put("task-1-2-ab", {"salt": "1"})
            with pytest.raises(JournalError, match="in use by process"):
                journal.adopt(former)
            assert journal.keys() == []
        former.write_bytes(former.read_bytes().replace(b"salt", b"sale") + b"\n")
        with pytest.raises(JournalError, match=r"Line 1 of the journal .* is damaged"):
            journal.adopt(former)
    assert former.exists()


def test_a_crash_while_a_journal_is_taken_over_loses_nothing(tmp_path, monkeypatch):
    former = tmp_path / FORMER
    fill(former, [("task-1-2-ab", {"salt": "1"}), ("task-2-2-ab", {"salt": "2"})])

    def dies(path):
        raise KeyboardInterrupt

    with Journal(tmp_path / PRESENT) as journal, monkeypatch.context() as patch:
        patch.setattr("agents.runtime.journal.Path.unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            journal.adopt(former)
    with Journal(tmp_path / PRESENT) as journal:
        assert journal.adopt(former)
        assert journal.keys() == ["task-1-2-ab", "task-2-2-ab"]
    assert not former.exists()
