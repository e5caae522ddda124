# SPDX-License-Identifier: Apache-2.0
"""Posts that take letters slowly delay their own letters, and nobody else's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agents.pipeline.courier import Courier
from agents.pipeline.epoch import Epoch
from agents.pipeline.miner import written_to

STAGES = tuple(range(8)), tuple(range(10, 18)), tuple(range(20, 28))
EPOCH = Epoch(3, 7, b"\x05" * 32, STAGES, range(40, 48))
MINER, HONEST = 10, 27
SLOW_S = 2.0


class Serving(ThreadingHTTPServer):
    daemon_threads = True
    pause_s = 0.0


class Taker(BaseHTTPRequestHandler):
    server: Serving

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.pause_s)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def posts() -> Iterator[dict[int, str]]:
    """Of the stages beside; all but one take two seconds for each letter."""
    with ExitStack() as stack:
        urls = {}
        for miner in written_to(EPOCH, MINER):
            server = stack.enter_context(Serving(("127.0.0.1", 0), Taker))
            server.pause_s = 0.0 if miner == HONEST else SLOW_S
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
            urls[miner] = f"http://127.0.0.1:{server.server_address[1]}"
        yield urls


def test_it_writes_to_those_beside_it_and_asks_the_first_stage() -> None:
    assert written_to(EPOCH, MINER) == {*range(8), *range(20, 28)}
    assert written_to(EPOCH, 20) == {*range(8), *range(10, 18)}
    assert written_to(EPOCH, 3) == {*range(8), *range(10, 18)} - {3}


@pytest.mark.parametrize("width", [8, None], ids=["eight threads", "as a miner has them"])
def test_posts_that_take_letters_slowly_keep_no_other_letter_back(
    posts: dict[int, str], width: int | None
) -> None:
    """Control: with eight threads fifteen of sixteen do."""
    told, width = threading.Event(), width or len(written_to(EPOCH, MINER))
    courier = Courier(posts.get, told.set, width=width)
    for miner in posts:
        if miner != HONEST:
            courier.give(miner, "/letters", b"slow", None)
    courier.give(HONEST, "/letters", b"honest", HONEST)
    began, found = time.monotonic(), None
    while found != HONEST:
        told.wait(1.0)
        told.clear()
        while (carried := courier.carried()) is not None:
            found = carried.tag or found
    assert (time.monotonic() - began >= SLOW_S) == (width == 8)
    courier.stop()
