# SPDX-License-Identifier: Apache-2.0
"""Who reaches the page: under which names, how slowly, and what its files weigh on the way."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from scripts._web.api.guard import Guard
from scripts._web.api.packing import PackedFiles
from scripts._web.pages.routes import STATIC
from scripts._web.patience import PatientConnection

PATIENCE_S = 60.0
BODY = b"x" * (8 << 20)  # more than the buffers of both ends take


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Eight MiB for /long, the length of what came for others."""
    if scope["path"].startswith("/static"):
        inner = {**scope, "root_path": "/static"}
        await PackedFiles(STATIC)(inner, receive, send)
        return
    seen, more = 0, True
    while more:
        message = await receive()
        seen += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = BODY if scope["path"] == "/long" else str(seen).encode()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    for start in range(0, len(body), 65_536):
        part = body[start : start + 65_536]
        more = start + 65_536 < len(body)
        await send({"type": "http.response.body", "body": part, "more_body": more})


class Hurried(PatientConnection):
    """The same with short times."""

    ask_s = take_s = 0.3


class Unhurried(PatientConnection):
    """The same with times that no test reaches, so that what is not slow isn't ended."""

    ask_s = take_s = PATIENCE_S


@contextmanager
def serving(http: type[PatientConnection]) -> Iterator[uvicorn.Server]:
    app = Guard(answer, names=("Page.Example",))
    config = uvicorn.Config(app, http=http, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield server
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(Unhurried) as server:
        yield _port(server)


@pytest.fixture(scope="module")
def hurried() -> Iterator[uvicorn.Server]:
    with serving(Hurried) as server:
        yield server


def _port(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8700",
        "localhost:1",
        "[::1]:8700",
        "10.0.0.7",
        "page.example",
        "PAGE.example.:443",
    ],
)
def test_names__addresses_and_given_names_are_answered(port: int, host: str) -> None:
    found = httpx.get(f"http://127.0.0.1:{port}/", headers={"host": host}, timeout=120)
    assert found.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "page",
        "[::1",
        "@",
        "evil@127.0.0.1.evil",
    ],
)
def test_names__a_stranger_s_name_is_refused(port: int, host: str) -> None:
    """It may be a name that its owner has pointed at a reader's own machine."""
    found = httpx.get(f"http://127.0.0.1:{port}/", headers={"host": host}, timeout=120)
    assert found.status_code == 421 and "--name" in found.json()["detail"]


def test_speed__what_is_to_be_sent_does_not_wait_for_the_reader() -> None:
    """With Nagle's algorithm the end of an answer on a kept connection waits 40 ms for a reader."""
    delays: list[int] = []

    class Watched(Unhurried):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            own = transport.get_extra_info("socket")
            delays.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    with serving(Watched) as server:
        assert httpx.get(f"http://127.0.0.1:{_port(server)}/", timeout=120).status_code == 200
    assert delays and all(delays)


def _closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


SLOW: dict[str, bytes] = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nhost: localhost\r\n",
    "half a body": b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nhalf",
}


@pytest.mark.parametrize("said", SLOW.values(), ids=SLOW)
def test_slow__who_never_ends_a_request_is_ended(hurried: uvicorn.Server, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", _port(hurried)), PATIENCE_S) as connection:
        connection.sendall(said)
        assert _closed(connection)


def test_slow__a_byte_now_and_then_buys_no_time(hurried: uvicorn.Server) -> None:
    with socket.create_connection(("127.0.0.1", _port(hurried)), PATIENCE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ")
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.02):
                try:
                    connection.sendall(b"y")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert _closed(connection)
        finally:
            ended.set()
            thread.join()


def test_slow__the_second_request_of_a_connection_has_its_time_too(hurried: uvicorn.Server) -> None:
    with socket.create_connection(("127.0.0.1", _port(hurried)), PATIENCE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        connection.sendall(b"GET")
        got = b""
        while part := connection.recv(65_536):
            got += part
        assert got.endswith(b"\r\n0") and got.count(b"HTTP/1.1 200") == 1


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_slow__who_takes_no_more_of_an_answer_is_ended(hurried: uvicorn.Server) -> None:
    with socket.create_connection(("127.0.0.1", _port(hurried)), PATIENCE_S) as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(1) == b"H", "the answer has begun"
        _until(lambda: not hurried.server_state.connections)


def test_slow__who_takes_and_asks_in_time_is_served(port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        for _ in range(3):
            assert client.get("/long").content == BODY
            assert client.post("/", content=b"z" * 9_000).text == "9000"


def test_files__are_compressed_once(port: int) -> None:
    name, raw = "menagerie.css", (STATIC / "menagerie.css").read_bytes()
    url = f"http://127.0.0.1:{port}/static/{name}"
    packed = httpx.get(url, headers={"accept-encoding": "gzip"}, timeout=120)
    assert packed.headers["content-encoding"] == "gzip" and packed.content == raw
    assert int(packed.headers["content-length"]) <= len(gzip.compress(raw)) + 64
    plain = httpx.get(url, headers={"accept-encoding": "identity"}, timeout=120)
    assert plain.content == raw and "content-encoding" not in plain.headers
    assert packed.headers["content-type"] == plain.headers["content-type"]
    part = httpx.get(url, headers={"accept-encoding": "gzip", "range": "bytes=0-9"}, timeout=120)
    assert part.status_code == 206 and part.content == raw[:10]
    tags = packed.headers["etag"], plain.headers["etag"]
    for tag in tags:
        asked = {"accept-encoding": "gzip", "if-none-match": tag}
        again = httpx.get(url, headers=asked, timeout=120)
        assert again.status_code == 304
