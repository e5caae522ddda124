# SPDX-License-Identifier: Apache-2.0
"""Sync samples that nobody serves are looked for side by side, and hold nobody up."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from agents.gauntlet.sample_search import SampleSearch, Source
from agents.storage.errors import NotFound, StoreUnavailable, TooLarge

MOST = 30.0  # seconds, which no test needs
LIMIT = 100
MUTE = [bytes([n]) for n in range(21)]
HERE = b"here"


class Store(Source):
    """A store with one sample. `search`: what it does about any other."""

    def __init__(self, search: Callable[[bytes], None] = lambda _: None) -> None:
        self.search = search
        self.asked: list[bytes] = []

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        assert max_bytes == LIMIT
        self.asked.append(digest)
        if digest == HERE:
            return b"sample"
        self.search(digest)
        raise NotFound("nobody serves it")


def test_what_is_missing_is_looked_for_side_by_side() -> None:
    """Each of 21 searches waits until all have begun: one after the other none would end."""
    begun = threading.Barrier(len(MUTE), timeout=MOST)
    search = SampleSearch(Store(lambda _: begun.wait()), LIMIT)
    search.want([*MUTE, HERE])
    search.wait(MOST)
    assert not begun.broken
    assert all(search.may_come(digest) for digest in MUTE) and not search.may_come(HERE)


def test_a_search_that_does_not_end_is_waited_for_no_longer_than_said() -> None:
    """What is there meanwhile counts, and what comes after the end does not."""
    free, done = threading.Event(), threading.Event()

    def stuck(_: bytes) -> None:
        free.wait(MOST)
        done.set()

    search = SampleSearch(Store(stuck), LIMIT)
    search.want([HERE])
    search.wait(MOST)
    search.want(MUTE[:1])
    search.wait(0.01)
    search.end()
    search.wait(MOST)  # nothing is waited for once it has ended
    assert not done.is_set()
    assert search.get_digest(HERE, LIMIT) == b"sample"
    free.set()
    for digest in (MUTE[0], b"never asked for"):
        with pytest.raises(NotFound, match="not in the store in time"):
            search.get_digest(digest, LIMIT)


def test_what_comes_after_the_end_is_missing() -> None:
    """The round was judged without it, and is judged alike by whoever asks later."""
    begun, free = threading.Event(), threading.Event()

    class Late(Source):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            begun.set()
            assert free.wait(MOST)
            return b"late"

    search = SampleSearch(Late(), LIMIT)
    search.want(MUTE[:1])
    assert begun.wait(MOST)
    search.end()
    free.set()
    for thread in threading.enumerate():
        if thread.name == "samples":
            thread.join(MOST)
    with pytest.raises(NotFound, match="not in the store in time"):
        search.get_digest(MUTE[0], LIMIT)


def test_what_was_missing_is_not_looked_for_at_once_again() -> None:
    """Its search took a minute, so a minute passes. Once it has ended nothing is looked for."""
    now = [0.0]

    def slow(_: bytes) -> None:
        now[0] += 60.0

    store = Store(slow)
    search = SampleSearch(store, LIMIT, lambda: now[0])
    for seconds, asked in ((0.0, 1), (30.0, 1), (31.0, 2)):
        now[0] += seconds
        search.want(MUTE[:1])
        search.wait(MOST)
        assert len(store.asked) == asked
    search.end()
    now[0] += 1_000.0
    search.want(MUTE[:1])
    search.wait(MOST)
    assert len(store.asked) == 2


def test_who_does_not_wait_is_told_when_it_is_over() -> None:
    free, now = threading.Event(), [0.0]
    search = SampleSearch(Store(lambda _: free.wait(MOST) and None), LIMIT, lambda: now[0])
    assert search.over(60.0)  # nothing is looked for
    search.want(MUTE[:1])
    assert not search.over(60.0)
    now[0] = 60.0
    assert search.over(60.0) and not search.ended
    now[0] = 0.0
    free.set()
    search.wait(MOST)
    assert search.over(60.0)
    search.end()
    assert search.ended


def test_what_is_wrong_is_wrong_for_good() -> None:
    def too_long(_: bytes) -> None:
        raise TooLarge("longer than a sample")

    store = Store(too_long)
    search = SampleSearch(store, LIMIT)
    for _ in range(2):
        search.want(MUTE[:1])
        search.wait(MOST)
    assert len(store.asked) == 1 and not search.may_come(MUTE[0])
    with pytest.raises(TooLarge):
        search.get_digest(MUTE[0], LIMIT)


def test_a_store_that_is_down_says_nothing_of_a_sample() -> None:
    def down(_: bytes) -> None:
        raise StoreUnavailable("no daemon")

    store = Store(down)
    search = SampleSearch(store, LIMIT)
    search.want(MUTE[:1])
    with pytest.raises(StoreUnavailable):
        search.wait(MOST)
    store.search = lambda _: None
    search.want(MUTE[:1])
    search.wait(MOST)
    assert len(store.asked) == 2 and search.may_come(MUTE[0])
