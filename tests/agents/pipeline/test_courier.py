# SPDX-License-Identifier: Apache-2.0
"""Posts that take letters slowly delay their own letters, and nobody else's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agents.pipeline.courier import Courier
from agents.pipeline.epoch import Epoch
from agents.pipeline.miner import written_to

STAGES = tuple(range(8)), tuple(range(10, 18)), tuple(range(20, 28))
EPOCH = Epoch(3, 7, b"\x05" * 32, STAGES, range(40, 48))
MINER, HONEST = 10, 27
PATIENCE_S = 60.0


class Serving(ThreadingHTTPServer):
    """Answers once it may; `asked` counts, of all posts that hold letters, those that they hold."""

    daemon_threads = True
    may_answer: threading.Event | None = None
    asked: threading.Semaphore


class Taker(BaseHTTPRequestHandler):
    server: Serving

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.release()
        if self.server.may_answer is not None:
            self.server.may_answer.wait(PATIENCE_S)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclass
class Posts:
    """Of the stages beside; all but one answer nothing before `may_answer` is set."""

    urls: dict[int, str] = field(default_factory=dict)
    may_answer: threading.Event = field(default_factory=threading.Event)
    held: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    honest: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


@pytest.fixture
def posts() -> Iterator[Posts]:
    found = Posts()
    with ExitStack() as stack:
        stack.callback(found.may_answer.set)
        for miner in written_to(EPOCH, MINER):
            server = stack.enter_context(Serving(("127.0.0.1", 0), Taker))
            server.asked = found.honest if miner == HONEST else found.held
            server.may_answer = None if miner == HONEST else found.may_answer
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
            found.urls[miner] = f"http://127.0.0.1:{server.server_address[1]}"
        yield found


def test_it_writes_to_those_beside_it_and_asks_the_first_stage() -> None:
    assert written_to(EPOCH, MINER) == {*range(8), *range(20, 28)}
    assert written_to(EPOCH, 20) == {*range(8), *range(10, 18)}
    assert written_to(EPOCH, 3) == {*range(8), *range(10, 18)} - {3}


def courier_of(posts: Posts, width: int) -> Courier:
    """At work: fifteen posts hold letters, and the last letter is for the honest one."""
    courier = Courier(posts.urls.get, lambda: None, width=width)
    for miner in posts.urls:
        if miner != HONEST:
            courier.give(miner, "/letters", b"slow", None)
    courier.give(HONEST, "/letters", b"honest", HONEST)
    return courier


def test_posts_that_take_letters_slowly_keep_no_other_letter_back(posts: Posts) -> None:
    courier = courier_of(posts, len(written_to(EPOCH, MINER)))
    assert posts.honest.acquire(timeout=PATIENCE_S), "it comes while all others wait"
    assert not posts.may_answer.is_set()
    courier.stop()


def test_control__with_eight_threads_they_do(posts: Posts) -> None:
    courier = courier_of(posts, 8)
    assert all(posts.held.acquire(timeout=PATIENCE_S) for _ in range(8))
    assert not posts.honest.acquire(blocking=False)
    posts.may_answer.set()
    assert posts.honest.acquire(timeout=PATIENCE_S)
    courier.stop()
