# SPDX-License-Identifier: Apache-2.0
"""Signature boards: members find each other's signatures, strangers achieve nothing."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from eth_account import Account

from agents.runtime.board import _HALF_ORDER, SignatureBoard, collect, fetch
from agents.runtime.errors import ConfigError
from agents.runtime.wallet import Wallet, recover_typed
from tests.agents.runtime.conftest import DOMAIN, TYPES

OP = b"\x0f" * 32
ORDER = 2 * _HALF_ORDER + 1


def sign(wallet):
    return wallet.sign_typed(DOMAIN, TYPES, {"op": OP})


def recover(signature):
    return recover_typed(DOMAIN, TYPES, {"op": OP}, signature)


@pytest.fixture
def wallets():
    return [Wallet(Account.from_key(bytes([i]) * 32)) for i in range(1, 6)]


@pytest.fixture
def boards(wallets, lines):
    made = [SignatureBoard(w.address, "127.0.0.1", 0, lines.log) for w in wallets[:3]]
    yield made
    for board in made:
        board.stop()


@pytest.fixture
def serve():
    """A stranger's board that answers with whatever `reply` writes."""
    servers = []

    def begin(reply):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                reply(self.wfile.write)

            def log_message(self, *_):
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def test_signatures_are_collected_in_address_order(boards, wallets):
    for board, wallet in zip(boards, wallets, strict=False):
        board.publish(OP, sign(wallet))
    members = [w.address for w in wallets]
    urls = [b.url for b in boards] + ["http://127.0.0.1:9", "not a url"]
    found = collect(urls, OP, recover, members, own={wallets[3].address: sign(wallets[3])})
    assert [signer for signer, _ in found] == sorted(
        (w.address for w in wallets[:4]), key=str.lower
    )
    assert all(recover(signature) == signer for signer, signature in found)
    boards[0].withdraw(OP)
    assert fetch(boards[0].url, OP) == []


def test_boards_are_asked_together(serve, wallets):
    """Each answers once all have been asked: a slow one holds up none of the others."""
    together = threading.Barrier(4, timeout=20)

    def answers(wallet):
        shown = [{"signer": wallet.address, "signature": "0x" + sign(wallet).hex()}]

        def reply(write):
            together.wait()
            write(json.dumps({"signatures": shown}).encode())

        return reply

    urls = [serve(answers(wallet)) for wallet in wallets[:4]]
    members = [wallet.address for wallet in wallets]
    assert len(collect(urls, OP, recover, members, timeout_s=30.0)) == 4


def test_strangers_and_other_operations_do_not_count(boards, wallets):
    boards[0].publish(OP, sign(wallets[4]))
    assert collect([boards[0].url], OP, recover, [wallets[0].address]) == []
    assert fetch(boards[0].url, b"\x01" * 32) == []
    assert requests.get(f"{boards[0].url}/signatures/zz", timeout=60).status_code == 404
    assert requests.get(f"{boards[0].url}/../etc/passwd", timeout=60).status_code == 404


def high_s(signature):
    s = ORDER - int.from_bytes(signature[32:64], "big")
    return signature[:32] + s.to_bytes(32, "big") + bytes([55 - signature[64]])


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"[" * 10_000, b"\xff\xfe"),
        *(b'{"signatures": %s}' % rest for rest in (b"3", b"[1]", b'{"signature": "0x00"}')),
        *(b'{"signatures": [{"signature": %s}]}' % s for s in (b"5", b'"0xzz"', b'"0x00"')),
    ],
)
def test_malformed_boards_give_nothing(serve, body):
    assert fetch(serve(lambda write: write(body)), OP) == []


def test_malleable_signatures_are_dropped(serve, wallets):
    good = sign(wallets[0])
    twin = high_s(good)
    assert recover(twin) == wallets[0].address, "the twin is valid, only not canonical"
    entries = [{"signature": "0x" + s.hex()} for s in (twin, good)]
    url = serve(lambda write: write(json.dumps({"signatures": entries}).encode()))
    assert fetch(url, OP) == [good]


def test_endless_and_slow_boards_are_cut_off(serve):
    def endless(write):
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                write(b" " * 4096)

    def slow(write):
        with contextlib.suppress(OSError):
            for _ in range(600):
                write(b" ")
                time.sleep(0.1)

    for reply in (endless, slow):
        began = time.monotonic()
        assert fetch(serve(reply), OP, timeout_s=0.5) == []
        assert time.monotonic() - began < 30


def test_slow_headers_are_cut_off():
    def trickle(listener):
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            for _ in range(600):
                connection.sendall(b"x")
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=trickle, args=(listener,), daemon=True).start()
        began = time.monotonic()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert fetch(url, OP, timeout_s=0.5) == []
        assert time.monotonic() - began < 30


def place_of(board):
    host, port = board.url.removeprefix("http://").split(":")
    return host, int(port)


def test_a_byte_now_and_then_keeps_no_connection_open(wallets, lines):
    """Attack: a request that never ends held a thread and a file of the member's process for ever,
    and 1,000 of them all its files: it reached its own node no more."""
    board = SignatureBoard(wallets[0].address, "127.0.0.1", 0, lines.log, request_s=0.5)
    ended = threading.Event()
    with socket.create_connection(place_of(board), 120.0) as wire:
        wire.sendall(b"GET /signatures/")

        def trickle():
            while not ended.wait(0.05):
                with contextlib.suppress(OSError):
                    wire.send(b"0")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            with contextlib.suppress(ConnectionError):
                assert wire.recv(64) == b"", "the board hangs up"
        finally:
            ended.set()
            thread.join()
            board.stop()


def test_a_stranger_that_holds_all_connections_keeps_no_member_out(wallets, lines):
    """The oldest of whoever has the most end for those that come."""
    board = SignatureBoard(
        wallets[0].address, "127.0.0.1", 0, lines.log, request_s=600.0, connections=4
    )
    board.publish(OP, sign(wallets[0]))
    held = []
    try:
        for _ in range(3):
            for _ in range(8):
                held.append(socket.create_connection(place_of(board), 120.0, ("127.0.0.2", 0)))
            assert fetch(board.url, OP, timeout_s=60.0) == [sign(wallets[0])]
        for old in held[:-4]:
            assert old.recv(1) == b"", "it was ended"
    finally:
        for one in held:
            one.close()
        board.stop()


def test_a_taken_port_is_named(boards, lines):
    port = int(boards[0].url.rsplit(":", 1)[1])
    with pytest.raises(ConfigError, match=f"listen on 127.0.0.1:{port}.*board_port"):
        SignatureBoard("0x" + "00" * 20, "127.0.0.1", port, lines.log)
