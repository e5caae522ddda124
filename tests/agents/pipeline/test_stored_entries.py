# SPDX-License-Identifier: Apache-2.0
"""Entries on disk are those that came, and nobody holds more than the one at hand."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from agents.pipeline.entries_file import EntriesFile
from agents.pipeline.inbox import Entry, EntryReader, Inbox
from agents.pipeline.miner_log import Kind
from agents.pipeline.stored_entries import ScratchEntries
from agents.storage.errors import StoreUnavailable

MESSAGE = 512 << 10
MANY = 64  # messages of 32 MiB
HELD = 12 * MESSAGE


def entry(number: int, length: int) -> Entry:
    return Entry(Kind.FORWARD, number, 7, b"s" * 65, bytes([number]) * length, b"t" * number)


@contextmanager
def bounded() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < HELD
    finally:
        tracemalloc.stop()


def test_they_are_read_in_any_order_and_in_parts() -> None:
    ours = tuple(entry(number, 10 * number) for number in range(9))
    with ScratchEntries() as stored:
        take = stored.begin()
        for one in ours[::-1]:
            take(one)
        take = stored.begin()  # void what came
        for one in ours:
            take(one)
        assert tuple(stored) == ours and len(stored) == 9
        assert stored[-1] == ours[-1] and stored[4] == ours[4]
        assert tuple(stored[2:7]) == ours[2:7] and tuple(stored[2:7][1:2]) == ours[3:4]
        assert tuple(stored[9:]) == ()
        with pytest.raises(IndexError):
            stored[9]
    with pytest.raises((StoreUnavailable, ValueError)):
        stored[0]


def test_another_miners_are_never_held() -> None:
    """They come, and are gone through more than once."""
    with ScratchEntries() as stored, bounded():
        reader = EntryReader(stored.begin, MESSAGE)
        reader.write(Inbox(()).to_bytes())
        for number in range(MANY):
            reader.write(entry(number, MESSAGE).to_bytes())
        reader.check()
        for _ in range(2):
            assert sum(len(one.message) for one in stored) == MANY * MESSAGE


def test_the_own_ones_are_never_held(tmp_path: Path) -> None:
    """They are written, the process starts again, and executes them."""
    path = tmp_path / "entries"
    with bounded():
        file = EntriesFile(path, MESSAGE)
        for number in range(MANY):
            file.append(entry(number, MESSAGE))
        file.close()
        file = EntriesFile(path, MESSAGE)
        assert [one.sample for one in file.read()] == [*range(MANY)]
        file.cut_last()
        assert len(file.read()) == MANY - 1
        file.close()
    assert path.stat().st_size == sum(entry(n, MESSAGE).size for n in range(MANY - 1)) + len(
        Inbox(()).to_bytes()
    )


def test_what_is_appended_later_is_not_among_those_that_were_read(tmp_path: Path) -> None:
    file = EntriesFile(tmp_path / "entries", 100)
    file.append(entry(1, 10))
    before = file.read()
    file.append(entry(2, 10))
    assert [one.sample for one in before] == [1]
    assert [one.sample for one in islice(file.read(), 5)] == [1, 2]
    file.close()
