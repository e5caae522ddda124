# SPDX-License-Identifier: Apache-2.0
"""Content at which a daemon, or a proxy before it, breaks off each time is missing, and no outage.

A block that a daemon's code fails at ends its connection, and a proxy answers 504 where a search
takes longer than it waits. What others serve is read as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from agents.protocol.structs import Reveal
from agents.rounds.report import UNAVAILABLE
from agents.rounds.searches import Searches
from agents.rounds.submissions import Submission
from agents.storage import NotFound, StoreError, StoreUnavailable
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.ipfs import IpfsStore
from scripts._net.kubo import KuboHandler, KuboServer
from tests.stage.served import serving

GOOD = b"what an honest node serves"
CURSED = b"what no daemon gets by"
LIMIT = 1 << 20
HOWS: dict[str, Callable[[IpfsStore, str], object]] = {
    "get": lambda store, cid: store.get(cid, LIMIT),
    "get_digest": lambda store, cid: store.get_digest(digest_of(cid), LIMIT),
    "get_spans": lambda store, cid: store.get_spans(digest_of(cid), [(0, 4)], LIMIT),
    "pin": lambda store, cid: store.pin(cid),
}
by_how = pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)
FAULTS = ["hang-up", "status:502", "status:504"]


class Breaking(KuboHandler):
    """Fails as `server.way` says at one content, and at nothing else."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        cursed = options.get("arg") == cid_of_bytes(CURSED)
        if not cursed or call == "pin/ls":
            super().answer(call, options, body, fault)
        elif self.server.way == "hang-up":
            self.close_connection = True
        else:
            self._reply(b"<html>", status=int(self.server.way[7:]))


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = KuboServer(handler=Breaking)
    server.way = ""
    with serving(server):
        yield server


@pytest.fixture
def store(server: Any) -> Iterator[IpfsStore]:
    opened = IpfsStore(server.address, attempts=3, backoff_s=0.005)
    yield opened
    opened.close()


@by_how
@pytest.mark.parametrize("way", FAULTS)
def test_what_a_daemon_breaks_off_at_is_missing(
    server: Any, store: IpfsStore, way: str, how: Any
) -> None:
    cid, server.way = store.put_bytes(GOOD), way
    with pytest.raises(NotFound, match="works, and it does not bring"):
        how(store, cid_of_bytes(CURSED))
    how(store, cid)


@pytest.mark.parametrize("way", FAULTS)
def test_a_node_that_reveals_such_content_keeps_nobody_from_a_round(
    server: Any, store: IpfsStore, way: str
) -> None:
    server.way = way
    contents = {3: digest_of(cid_of_bytes(CURSED)), 5: digest_of(store.put_bytes(GOOD))}
    reveals = [
        Reveal(n, bytes(32), content, bytes(32), bytes(32)) for n, content in contents.items()
    ]

    def fetch(one: Reveal) -> Submission:
        try:
            store.get_digest(one.content, LIMIT)
        except StoreUnavailable:
            raise
        except StoreError as error:
            return Submission(one, None, f"{UNAVAILABLE}{error}")
        return Submission(one, {}, "")

    found = Searches().read(reveals, lambda one: partial(fetch, one))
    assert [one.unavailable for one in found] == [True, False]


@by_how
@pytest.mark.parametrize("way", ["hang-up", "status:502"])
def test_a_daemon_that_was_down_for_all_tries_and_works_again_is_asked_again(
    server: Any, store: IpfsStore, way: str, how: Any
) -> None:
    """Else who restarts his daemon at the wrong moment would call missing what is there."""
    cid = store.put_bytes(GOOD)
    server.faults.extend([way] * 3)
    how(store, cid)
    assert not server.faults


@by_how
@pytest.mark.parametrize("way", ["hang-up", "status:502"])
def test_a_daemon_that_is_down_is_an_outage(
    server: Any, store: IpfsStore, way: str, how: Any
) -> None:
    cid = store.put_bytes(GOOD)
    server.faults.extend([way] * 20)
    with pytest.raises(StoreUnavailable):
        how(store, cid)


@pytest.mark.parametrize("way", ["status:429", "status:500", "status:503"])
def test_what_a_server_says_of_itself_is_no_fault_of_what_was_asked_for(
    server: Any, store: IpfsStore, way: str
) -> None:
    server.way = way
    with pytest.raises(StoreUnavailable):
        store.get(cid_of_bytes(CURSED), LIMIT)
