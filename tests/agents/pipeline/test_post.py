# SPDX-License-Identifier: Apache-2.0
"""A miner's post takes what the stages beside sign, and refuses all else at no cost to it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from eth_utils import keccak

from agents.pipeline import mailbox
from agents.pipeline.courier import Courier, Outcome, send
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import MAX_TRAIL, Entry
from agents.pipeline.letters import HEAD_BYTES, Done, Letter, done_path
from agents.pipeline.mailbox import Mailbox
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.trail import trail_from
from agents.runtime.bounded_http import ask
from tests.stage.memory.pipeline_epoch import (
    EPOCH,
    MAX_MESSAGE,
    WALLETS,
    WHERE,
    announced,
    book,
    post,
    running,
    work,
)

WAY = Passage.of(EPOCH, 40, Kind.FORWARD, 11, 21)
CODE = work(11).do(Entry(Kind.FORWARD, 40)).message or b""
NAN = CODE[:16] + np.float32(np.nan).tobytes() + CODE[20:]
OTHER = CODE[:16] + np.float32(0.5).tobytes() + CODE[20:]


def letter(
    message: bytes = CODE, trail: bytes = b"", by: int | None = None, **changed: Any
) -> Letter:
    way = replace(WAY, **changed)
    return Letter.signed(WALLETS[way.sender if by is None else by], WHERE, way, message, trail)


def posted(at: Post, body: bytes, path: str = "/letters") -> int:
    return ask("POST", at.url + path, body, 60.0, 4096)[0]


@pytest.fixture
def made() -> Iterator[Callable[..., tuple[Post, Mailbox]]]:
    posts: list[Post] = []

    def make(max_waiting: int = 64, **options: float) -> tuple[Post, Mailbox]:
        posts.append(post(**options))  # type: ignore[arg-type]
        return posts[-1], posts[-1].open(running(21, max_waiting), lambda: None)

    yield make
    for one in posts:
        one.stop()


@pytest.fixture
def here(made: Callable[..., tuple[Post, Mailbox]]) -> tuple[Post, Mailbox]:
    return made()


def test_a_letter_arrives_once_however_often_it_is_sent(here: tuple[Post, Mailbox]) -> None:
    at, box = here
    assert [posted(at, letter().to_bytes()) for _ in range(3)] == [200, 200, 200]
    assert box.take(Kind.FORWARD) == letter()
    assert posted(at, letter().to_bytes()) == 200
    assert box.take(Kind.FORWARD) is None


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (letter(by=99), 403),
        (letter(by=12), 403),  # another miner of the same stage
        (replace(letter(), message=OTHER), 403),
        (letter(sender=31), 403),  # a forward from the stage behind
        (letter(sender=22), 403),
        (letter(kind=Kind.BACKWARD), 403),  # a gradient from the stage before
        (letter(receiver=22), 403),
        (letter(sample=48), 403),
        (letter(epoch=8), 503),
        (letter(job=4), 503),
        (letter(seed=b"\6" * 32), 503),  # of the same epoch, before or after a reorg
        (replace(letter(seed=b"\6" * 32), passage=WAY), 403),
        (letter(NAN), 400),
        (letter(CODE[:-1]), 400),
        (letter(CODE + bytes(MAX_MESSAGE)), 413),
    ],
)
def test_what_does_not_belong_here_is_refused_and_leaves_no_trace(
    here: tuple[Post, Mailbox], sent: Letter, status: int
) -> None:
    at, box = here
    assert posted(at, sent.to_bytes()) == status
    assert box.came == 0
    assert posted(at, letter().to_bytes()) == 200, "the right letter is still welcome"


def test_before_its_first_epoch_a_post_asks_senders_to_come_again() -> None:
    """A miner that starts again has its post before its epoch. Who was refused for the length of
    its letter, which no epoch had said yet, passed the miner by for good."""
    at = post()
    try:
        url = at.url + "/letters"
        assert send(url, letter().to_bytes(), 60.0)[0] is Outcome.LATER
        at.open(running(21), lambda: None)
        assert send(url, letter(CODE * 9, epoch=8).to_bytes(), 60.0)[0] is Outcome.LATER
        assert send(url, letter().to_bytes(), 60.0)[0] is Outcome.TAKEN
    finally:
        at.stop()


@pytest.mark.parametrize("body", [b"", b"x" * HEAD_BYTES, letter().to_bytes()[: HEAD_BYTES - 1]])
def test_bytes_that_are_no_letter_are_refused(here: tuple[Post, Mailbox], body: bytes) -> None:
    assert posted(here[0], body) == 400


def test_a_sample_comes_once_and_with_one_message(here: tuple[Post, Mailbox]) -> None:
    at, _ = here
    assert posted(at, letter().to_bytes()) == 200
    assert posted(at, letter(OTHER).to_bytes()) == 409
    assert posted(at, letter(sender=12).to_bytes()) == 403, "it begins at another miner"


def test_a_sample_is_taken_from_the_miner_alone_to_which_it_was_handed() -> None:
    """It takes a sample once: whoever came first with numbers of its own had the true sender
    refused. (Every part of the rule: test_trail.py.)"""
    at = post()
    at.open(running(31), lambda: None)
    given, other = EPOCH.candidates(40, 1)
    came = Entry(Kind.FORWARD, 40, 11, letter(receiver=given).signature, CODE)
    trail = trail_from(came)
    try:
        for squatted in (b"", trail):
            sent = letter(OTHER, squatted, sender=other, receiver=31)
            assert posted(at, sent.to_bytes()) == 403
        assert posted(at, letter(trail=trail, sender=given, receiver=31).to_bytes()) == 200
    finally:
        at.stop()


def test_what_came_before_a_restart_is_not_taken_again(here: tuple[Post, Mailbox]) -> None:
    at, box = here
    box.recall([(WAY, keccak(CODE))])
    assert posted(at, letter().to_bytes()) == 200
    assert posted(at, letter(sender=12).to_bytes()) == 403, "it begins at another miner"
    assert box.take(Kind.FORWARD) is None


def test_a_full_post_refuses_for_now_and_an_epoch_that_is_over_for_good(
    made: Callable[..., tuple[Post, Mailbox]],
) -> None:
    at, _ = made(max_waiting=1)
    assert posted(at, letter().to_bytes()) == 200
    assert send(at.url + "/letters", letter(sample=41).to_bytes(), 60.0)[0] is Outcome.LATER
    at.close(EPOCH, over=True)
    assert send(at.url + "/letters", letter(sample=41).to_bytes(), 60.0)[0] is Outcome.REFUSED


def test_who_floods_a_post_keeps_nobody_else_out_and_delays_it_by_one_letter(
    made: Callable[..., tuple[Post, Mailbox]],
) -> None:
    """Of the last stage: nobody has to have been asked to send a gradient."""
    at, box = made(max_waiting=3)
    statuses = [
        posted(at, letter(sample=s, kind=Kind.BACKWARD, sender=31).to_bytes())
        for s in EPOCH.samples
    ]
    assert statuses == [200] * 3 + [503] * 5
    assert posted(at, letter(sample=47, kind=Kind.BACKWARD, sender=32).to_bytes()) == 200
    found = [box.take(Kind.BACKWARD) for _ in range(5)]
    assert [f and f.passage.sender for f in found] == [31, 32, 31, 31, None]


@pytest.mark.parametrize(("letters", "each"), [(8, 2), (7, 1), (1, 1)])
def test_what_waits_for_a_slow_miner_takes_a_bounded_part_of_its_memory(
    made: Callable[..., tuple[Post, Mailbox]],
    monkeypatch: pytest.MonkeyPatch,
    letters: int,
    each: int,
) -> None:
    """However many miners send to it: those of both stages beside share the room, one letter at
    least for each, so none of them keeps another out."""
    monkeypatch.setattr(mailbox, "WAITING_BYTES", letters * (MAX_TRAIL + MAX_MESSAGE))
    at, box = made()
    for sender in (31, 32):  # two of the four that may send
        sent = [letter(sample=s, kind=Kind.BACKWARD, sender=sender) for s in EPOCH.samples[::2]]
        statuses = [posted(at, one.to_bytes()) for one in sent]
        assert statuses == [200] * each + [503] * (4 - each)
    assert box.take(Kind.BACKWARD) and box.take(Kind.BACKWARD)
    assert posted(at, sent[-1].to_bytes()) == 200, "there is room again"


def test_only_first_stage_miners_say_that_they_are_done(here: tuple[Post, Mailbox]) -> None:
    at, box = here
    for miner, by, status in ((31, 31, 403), (11, 12, 403), (11, 11, 200)):
        notice = Done.signed(WALLETS[by], WHERE, EPOCH, miner)
        assert posted(at, notice.to_bytes(), "/done") == status
    assert box.done == {11}


def test_who_was_away_can_ask_for_a_notice_after_the_epoch(here: tuple[Post, Mailbox]) -> None:
    at, _ = here
    notice = Done.signed(WALLETS[11], WHERE, EPOCH, 11)
    path = done_path(EPOCH, 11)
    assert ask("GET", at.url + path, None, 60.0, 4096)[0] == 404
    at.keep(notice)
    at.close(EPOCH, over=True)
    assert ask("GET", at.url + path, None, 60.0, 4096) == (200, notice.to_bytes())
    early = "/done/3/8/" + "05" * 32 + "/11"
    for other in ("/done", path[:-3], path + "/", path[:-1] + "2", early, "/done/x/7/05/11"):
        assert ask("GET", at.url + other, None, 60.0, 4096)[0] == 404


def test_a_post_forgets_the_oldest_notices(here: tuple[Post, Mailbox]) -> None:
    at, _ = here
    notice = Done(3, 0, b"\5" * 32, 11, bytes(65))
    for number in range(1025):
        at.keep(replace(notice, epoch=number))
    assert [at.kept(f"/done/3/{n}/" + "05" * 32 + "/11") is None for n in (0, 1)] == [True, False]


def test_a_message_is_refused_by_its_length_before_it_comes(here: tuple[Post, Mailbox]) -> None:
    host, port = here[0].url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 60.0) as wire:
        wire.sendall(b"POST /letters HTTP/1.0\r\nContent-Length: 1000000000000\r\n\r\n")
        wire.sendall(letter().to_bytes()[:HEAD_BYTES])
        assert wire.recv(64).startswith(b"HTTP/1.0 413")


def test_a_slow_client_is_cut_off_and_delays_nobody(
    made: Callable[..., tuple[Post, Mailbox]],
) -> None:
    at, box = made(request_s=0.5, connections=2)
    host, port = at.url.removeprefix("http://").split(":")
    body = letter().to_bytes()
    with socket.create_connection((host, int(port)), 60.0) as wire:
        wire.sendall(b"POST /letters HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert posted(at, letter(sample=41).to_bytes()) == 200
        end = threading.Event()

        def trickle() -> None:
            for byte in body:
                if end.wait(0.1):
                    return
                try:
                    wire.send(bytes([byte]))
                except OSError:
                    return

        threading.Thread(target=trickle, daemon=True).start()
        try:
            while wire.recv(64):
                pass  # until the post hangs up, long before all of the body has come
        except ConnectionError:
            pass
        finally:
            end.set()
    assert box.came == 1


def test_a_stranger_that_holds_all_connections_keeps_no_neighbour_out(
    made: Callable[..., tuple[Post, Mailbox]],
) -> None:
    """Attack: 64 connections that say nothing, opened again as each was cut off, and the miner was
    passed by for the epoch. They now end for others', and a letter that is coming does not."""
    at, box = made(connections=4)
    host, port = at.url.removeprefix("http://").split(":")
    body, held = letter(sample=41).to_bytes(), list[socket.socket]()
    try:
        with socket.create_connection((host, int(port)), 60.0) as slow:
            slow.sendall(b"POST /letters HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body))
            slow.sendall(body[:100])
            for _ in range(5):
                for _ in range(8):
                    stranger = "127.0.0.2", 0
                    held.append(socket.create_connection((host, int(port)), 60.0, stranger))
                assert posted(at, letter().to_bytes()) == 200
            slow.sendall(body[100:])
            assert slow.recv(64).startswith(b"HTTP/1.0 200")
    finally:
        for one in held:
            one.close()
    assert box.came == 2


def test_who_comes_while_connections_are_ending_waits_for_one(
    made: Callable[..., tuple[Post, Mailbox]],
) -> None:
    """It was hung up on when the threads of those that had been ended were slow to end."""
    at, box = made(connections=1)
    assert at._server is not None
    slots = at._server._slots
    while slots.acquire(blocking=False):
        pass  # all are ending
    threading.Timer(0.3, slots.release).start()
    assert posted(at, letter().to_bytes()) == 200 and box.came == 1


def test_a_silent_receiver_delays_no_other(here: tuple[Post, Mailbox]) -> None:
    at, box = here
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        urls = {21: at.url, 22: f"http://127.0.0.1:{silent.getsockname()[1]}"}
        told = threading.Event()
        courier = Courier(urls.get, told.set, timeout_s=30.0, width=2)
        for _ in range(3):
            courier.give(22, "/letters", letter(receiver=22).to_bytes(), None)
        courier.give(21, "/letters", letter().to_bytes(), "ours")
        assert told.wait(25.0)
        carried = courier.carried()
        courier.stop()
    assert carried is not None
    assert (carried.tag, carried.outcome) == ("ours", Outcome.TAKEN)
    assert box.take(Kind.FORWARD) == letter()


def test_letters_for_a_receiver_that_is_too_slow_do_not_fill_the_memory() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        courier = Courier(lambda miner: url, lambda: None, timeout_s=30.0)
        for number in range(200):
            courier.give(22, "/letters", b"", number)
        back = []
        while (carried := courier.carried()) is not None:
            back.append((carried.tag, carried.outcome))
        courier.stop()
    assert len(back) >= 200 - 65, "one is under way, and 64 wait"
    assert back[-1] == (199, Outcome.LATER)


def test_miners_learn_each_others_addresses_from_a_common_peer(
    made: Callable[..., tuple[Post, Mailbox]],
) -> None:
    at, _ = made()
    first, second = book(), book()
    assert first.ask([at.url, "http://127.0.0.1:9"], announced(11, "http://a:1/")) == 1
    assert second.ask([at.url], announced(12, "https://b")) == 1
    assert (second.url_of(11), second.url_of(12)) == ("http://a:1", "https://b")
    forged = {**announced(11, "http://evil", 2**31 - 1).to_json(), "node": 12}
    assert posted(at, json.dumps(forged).encode(), "/announcements") == 403
