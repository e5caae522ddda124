# SPDX-License-Identifier: Apache-2.0
"""The IPFS store against a server that lies: one clear error, soon, for a bounded cost.

Each server here speaks raw HTTP over a real socket and does one thing that no daemon does.
"""

from __future__ import annotations

import gzip
import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from agents.storage import StoreError, StoreUnavailable
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.ipfs import IpfsStore
from agents.storage.ipfs_transport import MAX_JSON

CID = cid_of_bytes(b"content")
LIMIT = 1 << 30
SOON = 60.0  # seconds; a store that waits without a bound waits for ever
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
Answer = Callable[[socket.socket], None]


class Liar:
    """Answers every request with `answer`; `requests` holds their first lines and heads."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self.address = f"/ip4/127.0.0.1/tcp/{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.requests.append(_request(connection))
            self._answer(connection)


def _request(connection: socket.socket) -> bytes:
    """The head of a request, once its body has come too."""
    data = b""
    while b"\r\n\r\n" not in data or (b"chunked" in data and not data.endswith(b"0\r\n\r\n")):
        data += connection.recv(1 << 16)
    return data.partition(b"\r\n\r\n")[0]


def _body(data: bytes, head: bytes = b"") -> Answer:
    def answer(connection: socket.socket) -> None:
        length = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(data)
        connection.sendall(HEAD + head + length + data)

    return answer


def _without_end(head: bytes, piece: bytes, pause_s: float) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(pause_s)

    return answer


@pytest.fixture
def lie() -> Iterator[Callable[..., tuple[IpfsStore, Liar]]]:
    """Starts a server and a store on it."""
    opened: list[Any] = []

    def begin(answer: Answer, **options: Any) -> tuple[IpfsStore, Liar]:
        server = Liar(answer)
        settings = {"timeout_s": 3.0, "attempts": 3, "backoff_s": 0.01, **options}
        store = IpfsStore(server.address, **settings)
        opened.extend([store, server])
        return store, server

    yield begin
    for each in opened:
        each.close()


READS: dict[str, Callable[[IpfsStore], object]] = {
    "get": lambda store: store.get(CID, LIMIT),
    "get_digest": lambda store: store.get_digest(digest_of(CID), LIMIT),
}
REPLIES: dict[str, Callable[[IpfsStore], object]] = {
    "has": lambda store: store.has(CID),
    "pin": lambda store: store.pin(CID),
    "version": lambda store: store.version(),
    "put_bytes": lambda store: store.put_bytes(b"content"),
}
USES = {**READS, **REPLIES}
by_use = pytest.mark.parametrize("use", USES.values(), ids=USES)
by_reply = pytest.mark.parametrize("use", REPLIES.values(), ids=REPLIES)


@by_use
def test_a_compressed_reply_is_refused_before_it_grows(lie: Any, use: Any) -> None:
    bomb = b"".join([gzip.compress(bytes(32 << 20))] * 16)  # half a MB that becomes half a GB
    store, server = lie(_body(bomb, b"Content-Encoding: gzip\r\n"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StoreUnavailable, match="sent as 'gzip'"):
        use(store)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert b"accept-encoding: identity" in server.requests[0].lower()


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"\r\n",
        HEAD + b"Content-Length: 1000000\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
        HEAD,
        b"",
    ],
    ids=["body", "length", "chunk-size", "trailer", "header", "status"],
)
def test_a_byte_now_and_then_ends_with_the_time_of_the_operation(
    lie: Any, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.storage.ipfs_daemon._GRACE_S", 0.0)
    store, _ = lie(_without_end(head, b"1", 0.05), timeout_s=1.0)
    for use in (*READS.values(), IpfsStore.version):
        began = time.monotonic()
        with pytest.raises(StoreError):
            use(store)
        assert time.monotonic() - began < SOON


def test_a_byte_each_half_second_ends_soon_after_three_seconds(lie: Any) -> None:
    store, server = lie(_without_end(HEAD + b"\r\n", b"x", 0.5))
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="in time, or too slowly"):
        store.get(cid_of_bytes(bytes(1 << 20)), LIMIT)
    assert 2.5 < time.monotonic() - began < SOON
    # It is asked for its version then, to tell an outage from content that can't be had.
    asked = [request.split(b"?")[0] for request in server.requests]
    assert asked == [b"POST /api/v0/cat", b"POST /api/v0/version"]


def test_an_upload_that_is_not_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.storage.ipfs_daemon._GRACE_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        stuck = IpfsStore(f"/ip4/127.0.0.1/tcp/{port}", timeout_s=1.0, attempts=2)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            stuck.put_bytes(bytes(64 << 20))
        assert time.monotonic() - began < SOON
        stuck.close()


@by_reply
@pytest.mark.parametrize("status", [b"200 OK", b"500 Internal Server Error"])
def test_json_without_an_end_is_cut_short(lie: Any, use: Any, status: bytes) -> None:
    sent = [0]

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 " + status + b"\r\n\r\n{")
        while True:
            sent[0] += connection.send(b'"a":"' + b"a" * (1 << 14) + b'",\n')

    store, server = lie(answer)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        use(store)
    assert time.monotonic() - began < SOON
    assert len(server.requests) <= 3
    assert sent[0] < 3 * (MAX_JSON + (32 << 20))  # what the sockets buffer is not read


@by_reply
@pytest.mark.parametrize(
    "reply",
    [b"[" * 100_000, b'{"a":' * 50_000, b"[1,2,3]", b"3", b"null", b"{}", b'{"Keys":[]}'],
    ids=["lists", "objects", "list", "number", "null", "empty", "keys"],
)
def test_another_json_is_an_error_and_never_an_answer(lie: Any, use: Any, reply: bytes) -> None:
    store, _ = lie(_body(reply))
    with pytest.raises(StoreUnavailable, match="unreadable reply"):
        use(store)


def test_a_pin_of_something_else_is_no_answer(lie: Any) -> None:
    other = json.dumps({"Keys": {cid_of_bytes(b"other"): {"Type": "recursive"}}}).encode()
    kind = json.dumps({"Keys": {CID: {"Type": "indirect"}}}).encode()
    for reply in (other, kind):
        store, _ = lie(_body(reply))
        with pytest.raises(StoreUnavailable, match="unreadable reply"):
            store.has(CID)


@by_use
def test_a_redirect_is_not_followed(lie: Any, use: Any) -> None:
    _, target = lie(_body(b"content"))
    place = target.address.rsplit("/", 1)[1].encode()

    def answer(connection: socket.socket) -> None:
        connection.sendall(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%b/\r\n"
            b"Content-Length: 0\r\n\r\n" % place
        )

    store, server = lie(answer)
    with pytest.raises(StoreUnavailable, match="HTTP status 307"):
        use(store)
    assert len(server.requests) == 1
    assert target.requests == []


def test_bodies_of_three_bytes_do_not_make_endless_requests(lie: Any) -> None:
    store, server = lie(_body(b"abc"))
    big = cid_of_bytes(bytes(1 << 20))  # of many blocks, so any number of bytes may be its content
    with pytest.raises(StoreError, match="not its content"):
        store.get(big, LIMIT)
    assert len(server.requests) == 3


def test_an_address_with_a_key_in_its_path_is_never_told(lie: Any) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"/ip4/127.0.0.1/tcp/{reserved.getsockname()[1]}"
        store = IpfsStore(address, base="k3y/api/v0", auth=("me", "w0rd"), attempts=1, timeout_s=1)
        for use in USES.values():
            with pytest.raises(StoreUnavailable) as caught:
                use(store)
            assert "k3y" not in str(caught.value)
            assert "w0rd" not in str(caught.value)
        store.close()


def test_a_long_file_is_read_in_one_request(kubo: Any, ipfs: IpfsStore) -> None:
    data = bytes(range(256)) * (20 << 12)  # 20 MiB
    cid = ipfs.put_bytes(data)
    kubo.calls.clear()
    assert ipfs.get(cid, LIMIT) == data
    assert [call for call, _ in kubo.calls] == ["cat"]


def test_a_reply_that_slows_down_to_a_lawful_rate_is_read_to_its_end(
    lie: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.storage.ipfs_daemon._GRACE_S", 0.0)
    data = bytes(range(256)) * (12 << 10)  # 3 MiB, the last of them at 256 KiB a second
    fast, piece = 2 << 20, 64 << 10

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(data) + data[:fast])
        for start in range(fast, len(data), piece):
            time.sleep(0.25)
            connection.sendall(data[start : start + piece])

    store, server = lie(answer, timeout_s=3.0, attempts=1)  # less than a MiB of it takes
    assert store.get(cid_of_bytes(data), LIMIT) == data
    assert len(server.requests) == 1
