# SPDX-License-Identifier: Apache-2.0
"""A node behind a proxy, a password or a certificate of one's own is reached as requests would."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from agents.runtime.chain import ChainClient
from agents.runtime.sessions import Sessions

Seen = list[tuple[str, str | None]]


@contextmanager
def listening() -> Iterator[tuple[str, Seen]]:
    """A server's address, and the path and the password of each request that it gets."""
    seen: Seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(200)
            self.send_header("Content-Length", "16")
            self.end_headers()
            self.wfile.write(b'{"result": null}')

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()


@contextmanager
def repeating() -> Iterator[str]:
    """The address of a server that answers with what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            told = {"path": self.path, "headers": dict(self.headers), "body": body.decode()}
            answer = json.dumps(told).encode()
            self.send_response(200)
            if "cookie" in self.path:
                self.send_header("Set-Cookie", "seat=7; Path=/")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_a_proxy_is_asked_in_the_nodes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy)
        Sessions("http://node.example/key").post("http://node.example/key", json={})
        assert [path for path, _ in seen] == ["http://node.example/key"]


def test_a_host_that_needs_no_proxy_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (proxy, past), listening() as (node, seen):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        Sessions(node).post(node, json={})
        assert past == [] and len(seen) == 1


def test_a_password_is_read_from_the_users_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with listening() as (node, seen):
        Sessions(node).post(node, json={})
        assert seen == [("/", "Basic bWU6c2VjcmV0")]


def test_a_certificate_of_ones_own_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "mine.pem"))
    with pytest.raises(OSError, match=r"mine\.pem"):
        Sessions("https://127.0.0.1:1").post("https://127.0.0.1:1", json={})


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (node, seen):
        sessions = Sessions(node)
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        for _ in range(3):
            sessions.post(node, json={})
        assert len(seen) == 3


@pytest.mark.parametrize("path", ["/key", "/with-a-cookie"])
def test_the_second_request_is_what_requests_would_send(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    """The address, the headers and the password of the first, with a length of its own, and the
    cookies that the node has set."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with repeating() as node:
        ours, theirs = Sessions(node + path), requests.Session()
        for body in (b"{}", b'{"method": "eth_chainId"}', b"[]"):
            for headers in ({"Content-Type": "application/json"}, {"User-Agent": "another"}):
                told = ours.post(node + path, data=body, headers=headers, timeout=60.0).json()
                assert told == theirs.post(node + path, data=body, headers=headers).json()
                assert told["body"] == body.decode()
        assert ("Cookie" in told["headers"]) == (path == "/with-a-cookie")
        assert "Basic" in told["headers"]["Authorization"]


def test_each_thread_has_a_session_of_its_own() -> None:
    sessions = Sessions("http://127.0.0.1:1")
    found = [sessions._session, sessions._session]
    other = threading.Thread(target=lambda: found.append(sessions._session))
    other.start()
    other.join()
    assert found[0] is found[1] is not found[2]
    assert isinstance(found[2], requests.Session)


def test_another_process_has_a_session_of_its_own() -> None:
    with listening() as (node, seen):
        sessions = Sessions(node)
        other = pickle.loads(pickle.dumps(sessions))
        assert other._session is not sessions._session
        other.post(node, json={})
        assert len(seen) == 1


def test_a_chains_client_asks_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, lines: Any
) -> None:
    with listening() as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy)
        client = ChainClient("http://node.example/key", lines.log)
        client.request("eth_chainId")
        monkeypatch.delenv("http_proxy")
        client.request("eth_chainId")
        assert [path for path, _ in seen] == ["http://node.example/key"] * 2
