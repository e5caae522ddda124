# SPDX-License-Identifier: Apache-2.0
"""A miner announces as its post what is none: a service that the others alone can reach.

Kubo's RPC, which every miner has on its own machine, takes the last part of a path for an argument
where it is no command (go-ipfs-cmds, `http/parse.go`). So a post "at" `/api/v0/shutdown` was told
`/api/v0/shutdown/letters` by each neighbour, and stopped that neighbour's store.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agents.pipeline.courier import Courier
from agents.pipeline.letters import Announcement, LetterError
from agents.runtime.bounded_http import ask
from agents.runtime.config import TrainerSettings
from tests.stage.memory.pipeline_epoch import WALLETS, WHERE, announced, book, post

COMMANDS = {"/api/v0/shutdown", "/api/v0/repo/gc", "/api/v0/files/rm", "/api/v0/pin/rm"}


@pytest.fixture
def daemon() -> Iterator[tuple[str, list[str]]]:
    """A daemon's address, and the commands that it was given."""
    given: list[str] = []

    class Rpc(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            command, _, argument = self.path.rpartition("/")
            known = command in COMMANDS
            if known:
                given.append(f"{command} {argument}")
            self.send_response(200 if known else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Rpc)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", given
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_neighbour_names_a_command_of_the_victims_own_daemon__it_is_never_given(
    daemon: tuple[str, list[str]], command: str
) -> None:
    address, given = daemon
    url = address + command
    said = {"node": 21, "url": url, "time": 5}
    signature = WALLETS[21].sign_typed(WHERE, _TYPES, said)
    listed = {"announcements": [{**said, "signature": signature.hex()}]}
    known = book()
    known._take_all(listed["announcements"])  # what a peer's list brings
    told = threading.Event()
    courier = Courier(known.url_of, told.set)
    courier.give(21, "/letters", b"a letter", None)
    courier.give(21, "/done", b"a notice", None)
    assert told.wait(20)
    courier.stop()
    assert not given
    at = post()
    try:
        body = json.dumps(listed["announcements"][0]).encode()
        assert ask("POST", f"{at.url}/announcements", body, 10.0, 4096)[0] == 400
    finally:
        at.stop()


def test_control__a_post_with_an_address_of_its_own_is_told(daemon: tuple[str, list[str]]) -> None:
    known = book()
    assert known.take(announced(21, daemon[0] + "/", 5))
    assert known.url_of(21) == daemon[0]


def test_an_operator_is_told_that_a_posts_address_has_no_path() -> None:
    with pytest.raises(LetterError, match="no path"):
        Announcement.signed(WALLETS[21], WHERE, 21, "https://example.org/post", 5)
    with pytest.raises(ValueError, match="no path"):
        TrainerSettings(post_url="https://example.org/post")


_TYPES = {
    "Announcement": [
        {"name": "node", "type": "uint256"},
        {"name": "url", "type": "string"},
        {"name": "time", "type": "uint256"},
    ]
}
