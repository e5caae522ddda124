# SPDX-License-Identifier: Apache-2.0
"""Small files of the store for the pages: read once, up to a bound, and never believed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agents.storage.canonical import dumps
from agents.storage.cid import cid_from_digest, digest_of
from agents.storage.content_store import open_store
from agents.storage.embedded import EmbeddedStore
from scripts._web.api.artefacts import LONGEST_MISS_S, MISS_S, PAGE_S, SEARCH_S, Artefacts


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


def test_evidence_says_its_reason_and_no_more_of_it_than_fits(store: EmbeddedStore) -> None:
    files = Artefacts(store)
    said = store.put_bytes(dumps({"reason": "<b>it is not its shard's</b>", "node": 3}))
    long = store.put_bytes(dumps({"reason": "x" * 10_000}))
    assert files.reason(said) == "<b>it is not its shard's</b>"
    assert files.reason(long) == "x" * 600


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe\x00",
        b"[" * 30_000,
        b'{"reason": 5}',
        b'"reason"',
        b"null",
        b'{"reason": "' + b"x" * 70_000 + b'"}',
    ],
)
def test_a_malformed_file_says_nothing(store: EmbeddedStore, raw: bytes) -> None:
    files, cid = Artefacts(store), store.put_bytes(raw)
    digest = digest_of(cid).hex()
    assert files.reason(cid) == "" and files.report(digest) is None
    assert isinstance(files.spec(digest), str)


def test_a_file_that_comes_later_is_found_then(store: EmbeddedStore, tmp_path: Path) -> None:
    raw = dumps({"reason": "late"})
    cid = EmbeddedStore(tmp_path / "elsewhere").put_bytes(raw)
    files = Artefacts(store)
    assert files.reason(cid) == "" and not files.has(cid) and files.size(cid) is None
    store.put_bytes(raw)
    assert files.reason(cid) == "late" and files.has(cid) and files.size(cid) == len(raw)


def test_a_file_is_read_once(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    files, cid = Artefacts(store), store.put_bytes(dumps({"reason": "once"}))
    assert files.reason(cid) == "once"
    monkeypatch.setattr(store, "get_digest", lambda *_: pytest.fail("it was read again"))
    assert files.reason(cid) == "once"


def test_a_spec_is_shown_as_its_sponsor_writes_it(store: EmbeddedStore) -> None:
    cid = store.put_bytes(dumps({"rounds": 4, "model": {"layers": 2}}))
    shown = Artefacts(store).spec(f"0x{digest_of(cid).hex()}")
    assert "rounds: 4" in shown and "  layers: 2" in shown


def test_without_a_store_there_is_nothing() -> None:
    files = Artefacts(None)
    assert files.report("0x" + "11" * 32) is None and files.spec("11" * 32) == ""
    assert not files.has("bafk") and files.size("bafk") is None


class Fruitless:
    """A Kubo daemon that finds nothing. Each search takes `SEARCH_S` of the clock that is `now`."""

    def __init__(self) -> None:
        self.now, self.asked = 1_000.0, 0
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                daemon.asked += 1
                daemon.now += SEARCH_S
                pinned = "pin/ls" in self.path
                words = "path is not pinned" if pinned else "block was not found: could not find it"
                body = b'{"Message":"%s","Code":0,"Type":"error"}' % words.encode()
                self.send_response(500)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is said."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        store = open_store(f"http://127.0.0.1:{self.server.server_port}")
        self.files = Artefacts(store, lambda: self.now)


@pytest.fixture
def daemon() -> Iterator[Fruitless]:
    made = Fruitless()
    yield made
    made.server.shutdown()
    made.server.server_close()


def digests(count: int) -> list[str]:
    return [f"{number:064x}" for number in range(1, count + 1)]


def test_what_a_daemon_did_not_find_is_looked_for_again_later_and_later(daemon: Fruitless) -> None:
    """Attack: nothing but reports that nobody serves. Each page searched for all of them again."""
    [digest] = digests(1)
    cid = cid_from_digest(bytes.fromhex(digest))
    pause = MISS_S
    for _ in range(8):
        asked = daemon.asked
        for _ in range(3):
            assert daemon.files.report(digest) is None and not daemon.files.has(cid)
        assert daemon.asked == asked + 2, "each once"
        daemon.now += pause - SEARCH_S - 1
        assert daemon.files.report(digest) is None
        assert daemon.asked == asked + 2
        daemon.now += SEARCH_S + 1
        pause = min(2 * pause, LONGEST_MISS_S)
    assert daemon.files.whole


def test_a_page_waits_so_long_for_all_its_files(daemon: Fruitless) -> None:
    wanted = digests(5)
    each = round(PAGE_S / SEARCH_S)
    for number in range(1, 4):
        files = daemon.files.for_a_page()
        assert [files.report(digest) for digest in wanted] == [None] * 5
        assert daemon.asked == min(5, each * number), "the next page goes on where this one ended"
        assert files.whole == (each * number > 5)
    assert daemon.files.whole


def test_few_at_once_wait_for_a_daemon(daemon: Fruitless) -> None:
    files = daemon.files.for_a_page()
    with ExitStack() as all_turns:
        for _ in range(daemon.files._turns.most):
            all_turns.enter_context(daemon.files._turns.taken())
        assert [files.report(digest) for digest in digests(50)] == [None] * 50
    assert not files.whole and daemon.asked == 0
