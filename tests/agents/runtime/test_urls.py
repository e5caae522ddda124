# SPDX-License-Identifier: Apache-2.0
"""Of a URL only scheme, host and port reach a log, a metric or an error message."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from agents.runtime import logs
from agents.runtime.chain import ChainClient
from agents.runtime.config import load_settings
from agents.runtime.errors import AgentError, ConfigError, RpcDown
from agents.runtime.feed import HeadFeed
from agents.runtime.logs import LEVELS, Log, _Sink
from agents.runtime.metrics import Metrics
from agents.runtime.urls import hide, place

PARTS = ("op3rator", "pa%24sw0rd", "pa$sw0rd", "4f1e9c77aa", "t0ken-value", "/v3")
SECRET = "op3rator:pa%24sw0rd@{}/v3/4f1e9c77aa?key=t0ken-value"


class _Rude(BaseHTTPRequestHandler):
    """Refuses, and tells the whole URL in its refusal."""

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        text = f"no access for http://{SECRET.format('me')}, key 4f1e9c77aa"
        body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"%b"}}' % text.encode()
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def rude() -> Iterator[Callable[[int], str]]:
    """Starts a server that answers with a status; gives host and port."""
    servers = []

    def begin(status: int) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Rude)
        server.status = status  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_address[1]}"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def closed() -> Iterator[str]:
    """Host and port where nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test registers its own."""
    monkeypatch.setattr(logs, "_secrets", set())


def _clean(text: str) -> None:
    assert [part for part in PARTS if part in text] == []


def _told(host: str) -> tuple[str, list[Exception], Metrics]:
    stream, errors, metrics = io.StringIO(), [], Metrics("trainer")
    log = Log(_Sink(stream, LEVELS["debug"], human=False))
    chain = ChainClient("http://" + SECRET.format(host), log, tries=2, pause_s=0.01)
    try:
        chain.head()
    except AgentError as error:
        errors.append(error)
        metrics.error("rpc", str(error))
    return stream.getvalue(), errors, metrics


def test_a_node_that_is_down_is_named_by_its_place(closed: str, secrets: None) -> None:
    text, errors, metrics = _told(closed)
    assert "rpc_down" in text and f"http://{closed}" in text and "Connection refused" in text
    assert isinstance(errors[0], RpcDown) and closed in str(errors[0])
    for told in (text, str(errors[0]), generate_latest(metrics.registry).decode()):
        _clean(told)


@pytest.mark.parametrize("status", [200, 401, 503])
def test_a_node_that_repeats_its_url_is_not_quoted(
    rude: Callable[[int], str], secrets: None, status: int
) -> None:
    text, errors, metrics = _told(rude(status))
    assert errors
    for told in (text, str(errors[0]), generate_latest(metrics.registry).decode()):
        _clean(told)


def test_a_host_that_is_not_known_is_named_without_the_rest(secrets: None) -> None:
    text, errors, _ = _told("no-such-host.invalid")
    assert "no-such-host.invalid" in str(errors[0])
    _clean(text + str(errors[0]))


@pytest.mark.parametrize("url", ["ws://" + SECRET, "ws://[" + SECRET])
def test_the_feed_names_the_place_of_its_socket(closed: str, secrets: None, url: str) -> None:
    stream = io.StringIO()
    log = Log(_Sink(stream, LEVELS["debug"], human=False))
    chain = ChainClient(f"http://{closed}", log, tries=1)
    feed = HeadFeed(chain, log, url.format(closed), poll_s=0.05).start()
    until = time.monotonic() + 20
    while "feed_polling" not in stream.getvalue() and time.monotonic() < until:
        time.sleep(0.02)
    feed.stop()
    assert "feed_polling" in stream.getvalue()
    _clean(stream.getvalue())


@pytest.mark.parametrize("name", ["rpc_url", "ws_url", "coordinator.peers"])
def test_a_wrong_setting_is_not_quoted_where_it_may_hold_a_key(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        load_settings(flags={name: "ftp://" + SECRET.format("host")})
    _clean(str(caught.value))


def test_a_broken_yaml_line_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(f"rpc_url: https://{SECRET.format('host')} ]: [\n")
    with pytest.raises(ConfigError, match=r"my\.yaml cannot be used: .*line 1") as caught:
        load_settings(path)
    _clean(str(caught.value))


def test_a_log_line_keeps_scheme_host_and_port_of_any_url(secrets: None) -> None:
    text = logs.scrub(
        f'a "https://{SECRET.format("node.example:8545")}" and wss://b/KEY, or http://c'
    )
    assert text == 'a "https://node.example:8545" and wss://b, or http://c'
    assert logs.scrub("Max retries exceeded with url: /KEY (x)").endswith("url: [redacted] (x)")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@node.example/KEY", "https://node.example"),
        ("ws://[::1]:8546/x?y#z", "ws://[::1]:8546"),
        ("http://[", logs.HIDDEN),
        ("http://a:port/KEY", logs.HIDDEN),
    ],
)
def test_a_place_is_scheme_host_and_port(url: str, shown: str) -> None:
    assert place(url) == shown


def test_folders_and_ordinary_words_are_not_hidden(secrets: None) -> None:
    for store in ("data/store", "/ip4/127.0.0.1/tcp/5001", "http://127.0.0.1:5001/api/v0", ""):
        hide(store)
    assert logs._secrets == set()
