# SPDX-License-Identifier: Apache-2.0
"""Keys of sealed payloads are looked for beside a verifier's other work, and found once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreUnavailable
from agents.storage.sealed_payload import NotForUs
from agents.verify.key_searches import KeySearches

MOST = 1024
THERE = b"a payload that is there"


class Slow(EmbeddedStore):
    """A store that serves these digests once `served` is set. `down`: it can't be reached."""

    def __init__(self, root: Path, *slow: bytes) -> None:
        super().__init__(root)
        self.slow, self.served, self.down = slow, threading.Event(), False
        self.asked: Counter[bytes] = Counter()

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        self.asked[digest] += 1
        if self.down:
            raise StoreUnavailable("it can't be reached")
        if digest in self.slow:
            assert self.served.wait(60)
        return super().get_digest(digest, max_bytes)


def key_of(raw: bytes) -> bytes:
    return raw[:9]


def until(look: Callable[[], dict[bytes, bytes]], wanted: int) -> dict[bytes, bytes]:
    """What a later look finds, whose searches end in threads of their own."""
    end = time.monotonic() + 60
    while len(found := look()) < wanted and time.monotonic() < end:
        time.sleep(0.01)
    return found


def test_a_slow_payload_holds_nobody_and_its_key_is_taken_when_it_comes(tmp_path: Path) -> None:
    """Read in the verifier's own thread, it would hold this test until nobody serves it."""
    late = b"a payload that comes late"
    store = Slow(tmp_path, digest := digest_of(EmbeddedStore(tmp_path).put_bytes(late)))
    there = digest_of(store.put_bytes(THERE))
    searches = KeySearches(store, wait_s=0.05)

    def look() -> dict[bytes, bytes]:
        return searches.find({there, digest}, MOST, key_of)

    assert until(look, 1) == {there: THERE[:9]}
    assert [look() for _ in range(3)] == [{there: THERE[:9]}] * 3
    assert store.asked == {there: 1, digest: 1}, "it is still under way"
    store.served.set()
    assert until(look, 2) == {there: THERE[:9], digest: late[:9]}
    assert store.asked == {there: 1, digest: 1}, "a key that was found is kept"


def test_what_was_not_there_is_looked_for_again_after_as_long_as_its_search_took(
    tmp_path: Path,
) -> None:
    now = 0.0
    store = Slow(tmp_path / "store")
    missing = digest_of(EmbeddedStore(tmp_path / "another").put_bytes(THERE))

    def clock() -> float:  # a search takes the seconds that pass while the store is asked
        return now + 7.0 * store.asked[missing]

    searches = KeySearches(store, clock, 60.0)
    assert searches.find({missing}, MOST, key_of) == {}
    store.put_bytes(THERE)
    now = 6.0
    assert searches.find({missing}, MOST, key_of) == {}
    assert store.asked[missing] == 1, "the search took seven seconds, and six have passed"
    now = 7.0
    assert until(lambda: searches.find({missing}, MOST, key_of), 1) == {missing: THERE[:9]}
    assert store.asked[missing] == 2


@pytest.mark.parametrize("most", [MOST, 3], ids=["not for us", "too large"])
def test_what_cannot_be_opened_is_read_once(tmp_path: Path, most: int) -> None:
    store = Slow(tmp_path)
    digest = digest_of(store.put_bytes(THERE))

    def refuse(raw: bytes) -> bytes:
        raise NotForUs("no envelope")

    searches = KeySearches(store, wait_s=60.0)
    for _ in range(3):
        assert searches.find({digest}, most, refuse) == {}
    assert store.asked[digest] == 1


def test_a_store_that_is_down_is_said_and_asked_again(tmp_path: Path) -> None:
    store = Slow(tmp_path)
    digest = digest_of(store.put_bytes(THERE))
    searches = KeySearches(store, wait_s=60.0)
    store.down = True
    with pytest.raises(StoreUnavailable):
        searches.find({digest}, MOST, key_of)
    store.down = False
    assert searches.find({digest}, MOST, key_of) == {digest: THERE[:9]}
