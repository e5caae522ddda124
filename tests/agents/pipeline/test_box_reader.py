# SPDX-License-Identifier: Apache-2.0
"""A box is read in bounded steps, and nobody hides what lies in it by what he throws into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.pipeline import box_reader
from agents.pipeline.box_reader import AT_ONE_LOOK, BoxReader
from agents.pipeline.letters import LetterError
from agents.pipeline.mailbox import Refused
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreUnavailable
from tests.stage.memory.pipeline_epoch import quiet_log

BOX, LONGEST = b"\3" * 32, 64


class Reader:
    """Takes what begins with `good`; what begins with `later` has no room."""

    def __init__(self, folder: Path, stays: bool = False) -> None:
        self.store = EmbeddedStore(folder)
        self.box = BoxReader(self.store, BOX, LONGEST, quiet_log(), stays)
        self.seen: list[bytes] = []

    def put(self, content: bytes) -> str:
        cid = self.store.put_bytes(content)
        self.store.leave(BOX, cid)
        return cid

    def look(self) -> int:
        return self.box.look(self._use)

    def _use(self, raw: bytes) -> None:
        self.seen.append(raw)
        if raw.startswith(b"later"):
            raise Refused(503, "There is no room.")
        if not raw.startswith(b"good"):
            raise LetterError("This is rubbish.")

    def lie(self) -> set[str]:
        return set(self.store.left(BOX, 10_000))


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_what_is_used_or_of_no_use_makes_room(reader: Reader) -> None:
    for content in (b"good", b"rubbish", b"good" * LONGEST):
        reader.put(content)
    (reader.store.root / "boxes" / BOX.hex() / "no cid").touch()
    assert reader.look() == 1
    assert sorted(reader.seen) == [b"good", b"rubbish"], "what is too long is not read"
    assert reader.lie() == set() and reader.look() == 0
    assert not list((reader.store.root / "boxes").iterdir()), "what is no CID is gone too"


def test_what_others_read_too_stays_and_is_given_once(tmp_path: Path) -> None:
    reader = Reader(tmp_path, stays=True)
    good = reader.put(b"good")
    reader.put(b"rubbish")
    assert reader.look() == 1 and reader.look() == 0
    assert reader.lie() == {good} and reader.seen.count(b"good") == 1


def test_a_flood_is_read_in_bounded_steps_until_what_is_good_is_found(reader: Reader) -> None:
    flood = 3 * AT_ONE_LOOK
    for number in range(flood):
        reader.put(b"rubbish %d" % number)
    reader.put(b"good")
    used = reader.look()
    assert len(reader.seen) <= AT_ONE_LOOK
    for _ in range(200):  # of two seconds at most
        used += reader.look()
        if used:
            break
    assert used == 1 and len(reader.lie()) < flood


def test_a_look_ends_when_its_time_is_over(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_reader, "_LOOK_S", 0.0)
    for number in range(10):
        reader.put(b"good %d" % number)
    assert reader.look() == 1 and reader.look() == 1
    assert len(reader.lie()) == 8


def test_a_file_that_the_store_cannot_give_holds_up_nothing(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon may look for a stranger's CID until its time is over, at each look anew."""
    monkeypatch.setattr(box_reader, "_LOOK_S", 0.0)  # one file a look
    missing = {reader.put(b"later %d" % number) for number in range(5)}
    give = reader.store.get

    def get(cid: str, most: int) -> bytes:
        if cid in missing:
            raise StoreUnavailable("it does not come")
        return give(cid, most)

    monkeypatch.setattr(reader.store, "get", get)
    for _ in missing:
        reader.look()
    reader.put(b"good")
    assert reader.look() == 1, "what was not tried yet comes first"
    assert reader.lie() == missing, "they are tried again"


def test_of_what_is_of_no_use_now_a_bounded_number_stays(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour that signs more letters than its room takes must not fill the box."""
    monkeypatch.setattr(box_reader, "_LATER", 3)
    for number in range(20):
        reader.put(b"later %d" % number)
    for _ in range(3):
        assert reader.look() == 0
        assert len(reader.lie()) == 3
    assert cid_of_bytes(b"good") not in reader.lie()
    reader.put(b"good")
    assert reader.look() == 1


def test_what_others_took_away_keeps_no_room(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_reader, "_LATER", 3)
    for number in range(3):
        cid = reader.put(b"later %d" % number)
        reader.look()
        reader.store.take_away(BOX, cid)
    kept = {reader.put(b"later again %d" % number) for number in range(3)}
    reader.look()
    assert reader.lie() == kept


def test_a_box_that_cannot_be_looked_into_is_said(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(box: bytes, most: int) -> list[str]:
        raise StoreUnavailable("it is down")

    monkeypatch.setattr(reader.store, "left", down)
    with pytest.raises(StoreUnavailable):
        reader.look()
