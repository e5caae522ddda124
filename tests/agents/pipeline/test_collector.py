# SPDX-License-Identifier: Apache-2.0
"""A receiver without a post on the network gets its letters, and nobody else gets them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from eth_utils import keccak

from agents.pipeline.collector import Collector, beside
from agents.pipeline.courier import Courier, Outcome
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry
from agents.pipeline.letters import Collect, Letter
from agents.pipeline.mailbox import Mailbox
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.runtime.bounded_http import ask
from tests.stage.memory.pipeline_epoch import (
    EPOCH,
    MAX_MESSAGE,
    WALLETS,
    WHERE,
    announced,
    book,
    post,
    quiet_log,
    running,
    work,
)

CODE = work(11).do(Entry(Kind.FORWARD, 40)).message or b""
LETTER = Letter.signed(
    WALLETS[11], WHERE, Passage.of(EPOCH, 40, Kind.FORWARD, 11, 21), CODE
).to_bytes()


class Pair:
    """The post of miner 11 with a letter that it holds for 21, which takes no connections."""

    def __init__(self) -> None:
        self.book = book()
        self.at, self.closed = post(known=self.book), post(known=self.book, listen=False)
        self.box = self.at.open(running(11), lambda: None)
        self.outcomes: list[Outcome] = []
        self.book.take(announced(11, self.at.url))
        self.book.take(announced(21, ""))

    def hold(self, letter: bytes = LETTER) -> None:
        assert self.box.held.put(21, letter, lambda how, why: self.outcomes.append(how), 0.0)

    def open(self, max_waiting: int = 64) -> Mailbox:
        return self.closed.open(running(21, max_waiting), lambda: None)

    def collector(self) -> Collector:
        place = self.closed, running(21), WALLETS[21], WHERE
        return Collector(*place, beside(EPOCH, 21), quiet_log())


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.at.stop()
    made.closed.stop()


def question(by: int = 21, at: int = 11, counter: int = 1, **changed: Any) -> Collect:
    epoch = replace(EPOCH, **changed)
    return Collect.signed(WALLETS[by], WHERE, epoch, 21, at, counter)


def collect(at: Post, asked: Collect) -> tuple[int, bytes]:
    return ask("POST", at.url + "/collect", asked.to_bytes(), 60.0, len(LETTER))


def until(holds: Any) -> None:
    end = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_receivers_operator_gets_the_letter(pair: Pair) -> None:
    pair.hold()
    assert collect(pair.at, question()) == (200, LETTER)
    done = Collect.signed(WALLETS[21], WHERE, EPOCH, 21, 11, 2, answer=1, about=keccak(LETTER))
    assert collect(pair.at, done) == (204, b"")
    assert pair.outcomes == [Outcome.TAKEN]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (question(by=22), 403),
        (question(by=99), 403),
        (question(by=11), 403),
        (replace(question(by=99), receiver=99), 403),
        (replace(question(), receiver=22), 403),
        (question(at=12), 403),  # it was meant for another post
        (replace(question(at=12), at=11), 403),
        (replace(question(), answer=1, about=keccak(LETTER)), 403),
        (replace(question(), counter=2), 403),
        (question(number=8), 503),
        (question(seed=b"\6" * 32), 503),
        (replace(question(), answer=4), 400),
    ],
)
def test_nobody_else_gets_it(pair: Pair, asked: Collect, status: int) -> None:
    pair.hold()
    assert collect(pair.at, asked)[0] == status
    assert pair.outcomes == []
    assert collect(pair.at, question()) == (200, LETTER)


def test_a_question_that_was_overheard_is_worth_nothing(pair: Pair) -> None:
    pair.hold()
    assert collect(pair.at, question(counter=5))[0] == 200
    assert collect(pair.at, question(counter=5))[0] == 409
    pair.at.close(EPOCH, over=True)
    assert collect(pair.at, question(counter=6))[0] == 409


def test_a_courier_holds_letters_alone_and_the_collector_gets_them(pair: Pair) -> None:
    told = threading.Event()

    def hold(receiver: int, body: bytes, outcome: Any) -> bool:
        return pair.box.held.put(receiver, body, outcome, 0.0)

    courier, box = Courier(pair.book.url_of, told.set, hold=hold), pair.open()
    courier.give(21, "/done", b"x", "notice")
    courier.give(21, "/letters", LETTER, "letter")
    collector = pair.collector()
    until(lambda: box.came == 1)
    found: list[Any] = []

    def both() -> bool:
        if (carried := courier.carried()) is not None:
            found.append((carried.tag, carried.outcome))
        return len(found) == 2

    until(both)
    collector.stop()
    courier.stop()
    assert found == [("notice", Outcome.LATER), ("letter", Outcome.TAKEN)]
    letter = box.take(Kind.FORWARD)
    assert letter is not None and letter.to_bytes() == LETTER
    assert pair.closed.url == ""


@pytest.mark.parametrize(
    "body",
    [
        Letter.signed(
            WALLETS[99], WHERE, Passage.of(EPOCH, 40, Kind.FORWARD, 11, 21), CODE
        ).to_bytes(),
        LETTER[:-1],
        b"x" * 30,
        Letter.signed(
            WALLETS[11], WHERE, Passage.of(EPOCH, 40, Kind.FORWARD, 11, 22), CODE
        ).to_bytes(),
    ],
    ids=["another's signature", "cut", "no letter", "to another"],
)
def test_what_is_collected_is_checked_as_a_posted_letter(pair: Pair, body: bytes) -> None:
    box = pair.open()
    pair.hold(body)
    collector = pair.collector()
    until(lambda: pair.outcomes == [Outcome.REFUSED])
    assert box.came == 0
    pair.hold()
    until(lambda: box.came == 1)
    collector.stop()


def test_a_letter_that_finds_no_room_is_told_to_be_for_later(pair: Pair) -> None:
    pair.open(max_waiting=0)
    pair.hold()
    collector = pair.collector()
    until(lambda: pair.outcomes == [Outcome.LATER])
    collector.stop()


def test_a_post_that_answers_without_end_is_cut_off_and_asked_less_and_less(pair: Pair) -> None:
    """Another one's letters come meanwhile."""
    asked: list[float] = []
    sent: list[int] = []
    with socket.socket() as evil:
        evil.bind(("127.0.0.1", 0))
        evil.listen()

        def flood() -> None:
            while True:
                try:
                    wire, _ = evil.accept()
                except OSError:
                    return
                asked.append(time.monotonic())
                total = 0
                with wire:
                    try:
                        wire.recv(4096)
                        wire.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                        while total < 1 << 30:
                            total += wire.send(bytes(65_536))
                    except OSError:
                        pass
                sent.append(total)

        threading.Thread(target=flood, daemon=True).start()
        pair.book.take(announced(12, f"http://127.0.0.1:{evil.getsockname()[1]}"))
        box = pair.open()
        collector = pair.collector()
        pair.hold()
        until(lambda: len(sent) >= 4)
        collector.stop()
    assert box.came == 1
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert all(took >= pause for took, pause in zip(pauses, (0.25, 0.5, 1.0), strict=False))
    assert max(sent) < 64 << 20 and len(CODE) <= MAX_MESSAGE
