# SPDX-License-Identifier: Apache-2.0
"""A read that nobody waits for any more ends, however steadily its bytes come."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from agents.protocol.structs import Reveal
from agents.rounds.report import UNAVAILABLE
from agents.rounds.searches import Searches
from agents.rounds.submissions import Submission
from agents.runtime.slow_calls import SlowCalls
from agents.storage.cid import CidBuilder, digest_of, format_cid
from agents.storage.errors import NotFound, StoreError
from agents.storage.ipfs import IpfsStore
from agents.storage.patience import Patience, ends_with
from tests.agents.storage.test_ipfs_lies import HEAD, Liar

LEAF = bytes(1 << 18)
LEAVES = 4096  # a GiB, which takes hours at the rate that it comes at
LONG_S = 20.0  # far less than the content takes
PIECE_S = 0.1


class Drip(Liar):
    """Serves the root of a large file at once and its bytes at a steady rate, above the least.

    `cut`: how many reads of it were broken off by the reader.
    """

    def __init__(self) -> None:
        builder = CidBuilder()
        for _ in range(LEAVES):
            builder.update(LEAF)
        root = builder.root()
        self.cid = format_cid(root.cid)
        self._block = root.block or b""
        self.cut = threading.Semaphore(0)
        self._pause = threading.Event()
        super().__init__(self._drip)

    def _drip(self, connection: socket.socket) -> None:
        if b"/block/get?" in self.requests[-1].split(b"\r\n")[0]:
            head = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(self._block)
            connection.sendall(HEAD + head + self._block)
            return
        connection.sendall(HEAD + b"\r\n")
        try:
            while not self._over.is_set():
                connection.sendall(LEAF[: 1 << 16])
                self._pause.wait(PIECE_S)
        except OSError:
            self.cut.release()


@pytest.fixture
def drip() -> Iterator[Drip]:
    server = Drip()
    yield server
    server.close()


@pytest.fixture
def store(drip: Drip) -> Iterator[IpfsStore]:
    opened = IpfsStore(drip.address, timeout_s=60.0)
    yield opened
    opened.close()


def test_an_operation_that_was_given_up_has_no_time_left() -> None:
    given_up = threading.Event()
    with ends_with(given_up):
        inside = Patience(60, 3, 0.0)
    outside = Patience(60, 3, 0.0)
    assert inside.left() > 0 and not inside.given_up
    given_up.set()
    assert inside.left() == 0 and inside.given_up and not inside.again()
    assert outside.left() > 0 and not outside.given_up


def test_what_was_forgotten_is_read_no_further(drip: Drip, store: IpfsStore) -> None:
    calls = SlowCalls[int, bytes](0.5, "payload")
    calls.run({1: partial(store.get, drip.cid, 1 << 30)})
    begun = calls._begun[1]
    assert not begun.done()
    calls.forget()
    assert drip.cut.acquire(timeout=LONG_S), "its bytes still come to a reader that has gone on"
    with pytest.raises(NotFound, match="nobody waits"):
        begun.result(timeout=LONG_S)


def test_it_is_no_outage_and_what_is_begun_afterwards_has_its_time(
    drip: Drip, store: IpfsStore
) -> None:
    name = digest_of(drip.cid)
    calls = SlowCalls[int, bytes](0.5, "payload")
    calls.run({1: partial(store.get, drip.cid, 1 << 30)})
    begun = calls._begun[1]
    calls.forget()
    with pytest.raises(NotFound):
        begun.result(timeout=LONG_S)
    assert store._daemon.ration.length(name) == 60.0, "it is not taken for what nobody serves"
    calls.run({1: partial(store.get, drip.cid, 1 << 30)})
    assert not calls.ended(1)


def test_payloads_of_a_round_that_is_over_stay_with_no_reader(drip: Drip, store: IpfsStore) -> None:
    """Four nodes whose payloads drip, in each of three rounds."""

    def fetch(one: Reveal) -> Submission:
        try:
            store.get(drip.cid, 1 << 30)
        except StoreError as error:
            return Submission(one, None, f"{UNAVAILABLE}{error}")
        return Submission(one, {}, "")

    searches = Searches(longest_s=0.5)
    for number in range(3):
        salt = hashlib.sha256(b"%d" % number).digest()
        reveals = [Reveal(node, bytes(32), salt, bytes(32), bytes(32)) for node in range(4)]
        found = searches.read(reveals, lambda one: partial(fetch, one))
        assert all(one.unavailable for one in found)
        searches.forget()
    for _ in range(12):
        assert drip.cut.acquire(timeout=LONG_S)
