# SPDX-License-Identifier: Apache-2.0
"""Several stores as one: a folder, another folder, and a daemon that nobody runs."""

from __future__ import annotations

import os
from functools import partialmethod
from pathlib import Path

import pytest

from agents.storage import ipfs
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore, open_store
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import (
    CorruptContent,
    InvalidCid,
    NotFound,
    StoreError,
    StoreUnavailable,
    TooLarge,
)
from agents.storage.several import SeveralStores, as_list, open_stores
from scripts._net.ports import free_port

CONTENT = os.urandom(1000)
CID = cid_of_bytes(CONTENT)
BOUND = 10_000


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "one"), str(tmp_path / "two")]


@pytest.fixture
def down(monkeypatch: pytest.MonkeyPatch) -> str:
    """A daemon's URL where nothing listens; nobody waits long between two tries."""
    made = ipfs.IpfsStore.__init__
    monkeypatch.setattr(ipfs.IpfsStore, "__init__", partialmethod(made, backoff_s=0.001))
    return f"http://127.0.0.1:{free_port()}"


def test_one_store_is_that_store(folders: list[str]) -> None:
    assert isinstance(open_stores(folders[:1]), EmbeddedStore)
    assert as_list("a") == ["a"] and as_list(["a", "b"]) == ["a", "b"]
    with pytest.raises(StoreError, match="lists none"):
        open_stores([])


def test_the_first_that_takes_it_keeps_it(folders: list[str], down: str) -> None:
    several = open_stores([down, *folders])
    assert several.put_bytes(CONTENT) == CID
    several.pin(CID)
    assert open_store(folders[0]).has(CID)
    assert not open_store(folders[1]).has(CID)


@pytest.mark.parametrize("place", [0, 1])
def test_what_any_of_them_has_is_found(
    folders: list[str], down: str, tmp_path: Path, place: int
) -> None:
    open_store(folders[place]).put_bytes(CONTENT)
    several = open_stores([folders[0], down, folders[1]])
    digest = digest_of(CID)
    assert several.has(CID)
    assert several.get(CID, BOUND) == several.get_digest(digest, BOUND) == CONTENT
    assert several.resolve(digest) == CID
    assert several.get_file(CID, tmp_path / "copy", BOUND) == len(CONTENT)
    assert (tmp_path / "copy").read_bytes() == CONTENT


def test_a_file_goes_to_the_first_that_takes_it(
    folders: list[str], down: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    assert open_stores([down, *folders]).put_file(tmp_path / "file") == CID
    assert open_store(folders[0]).get(CID, BOUND) == CONTENT


class Stubborn(EmbeddedStore):
    """A folder that does not answer while `down`; `asked`: how often it was."""

    down, asked = True, 0

    def get(self, cid: str, max_bytes: int) -> bytes:
        self.asked += 1
        if self.down:
            raise StoreUnavailable("no answer")
        return super().get(cid, max_bytes)


def test_a_store_that_did_not_answer_is_tried_last_for_a_while(
    folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("agents.storage.several.time.monotonic", lambda: now[0])
    first, second = Stubborn(folders[0]), EmbeddedStore(folders[1])
    several = SeveralStores([first, second])
    first.put_bytes(CONTENT)
    second.put_bytes(CONTENT)
    assert [several.get(CID, BOUND) for _ in range(3)] == [CONTENT] * 3
    assert first.asked == 1
    with pytest.raises(StoreUnavailable):  # what nobody else has it is asked for all the same
        several.get(cid_of_bytes(b"in neither"), BOUND)
    assert first.asked == 2
    first.down = False
    now[0] += 21.0
    assert several.get(CID, BOUND) == CONTENT
    assert first.asked == 3


def test_a_damaged_copy_is_passed_over(folders: list[str]) -> None:
    for folder in folders:
        open_store(folder).put_bytes(CONTENT)
    (kept,) = [p for p in Path(folders[0]).rglob("*") if p.is_file() and p.stat().st_size == 1000]
    kept.chmod(0o644)
    kept.write_bytes(b"x" * 1000)
    assert open_stores(folders).get(CID, BOUND) == CONTENT


def raises(several: ContentStore, error: type[StoreError], bound: int = BOUND) -> str:
    with pytest.raises(StoreError) as caught:
        several.get(CID, bound)
    assert type(caught.value) is error
    return str(caught.value)


def test_all_failures_come_back_as_the_one_that_leaves_most_open(
    folders: list[str], down: str
) -> None:
    """Nobody has it; with one store down nobody knows; a bound that is too small is said."""
    both = raises(open_stores(folders), NotFound)
    assert both.count(";") == 1
    raises(open_stores([*folders, down]), StoreUnavailable)
    open_store(folders[1]).put_bytes(CONTENT)
    raises(open_stores(folders), TooLarge, bound=10)
    (kept,) = [p for p in Path(folders[1]).rglob("*") if p.is_file() and p.stat().st_size == 1000]
    kept.chmod(0o644)
    kept.write_bytes(b"x" * 1000)
    raises(open_stores(folders), CorruptContent)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_is_too_large_in_one_is_too_large_whoever_is_down(
    folders: list[str], down: str, order: tuple[int, int]
) -> None:
    """Else who lists a second store for safety answers otherwise than all who have one."""
    open_store(folders[0]).put_bytes(CONTENT)
    stores = (folders[0], down)
    with pytest.raises(TooLarge):
        open_stores([stores[place] for place in order]).get(CID, 10)


def test_whether_it_is_there__with_one_down__is_unknown(folders: list[str], down: str) -> None:
    assert not open_stores(folders).has(CID)
    with pytest.raises(StoreUnavailable):
        open_stores([folders[0], down]).has(CID)
    with pytest.raises(StoreUnavailable):
        open_stores([down, down]).put_bytes(CONTENT)


def test_a_text_that_is_no_cid_is_the_callers_mistake(folders: list[str], down: str) -> None:
    several = open_stores([*folders, down])
    for call in (several.has, several.pin, lambda cid: several.get(cid, BOUND)):
        with pytest.raises(InvalidCid):
            call("no cid")


def test_its_location_names_all_without_their_passwords(folders: list[str]) -> None:
    several = open_stores([folders[0], "http://me:secret@127.0.0.1:5001"])
    assert ", then " in several.location
    assert "secret" not in several.location
    several.close()
