# SPDX-License-Identifier: Apache-2.0
"""Letters between two miners without a post: who holds them, and what a relay refuses to hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.pipeline.courier import Outcome
from agents.pipeline.hand_over import Passage
from agents.pipeline.held import Held
from agents.pipeline.inbox import Entry
from agents.pipeline.letters import Collect, Done, Letter, done_path
from agents.pipeline.mailbox import Mailbox
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.relays import MOST, relays
from agents.runtime.bounded_http import ask
from tests.stage.memory.pipeline_epoch import EPOCH, MINERS, WALLETS, WHERE, post, running, work

CODE = work(11).do(Entry(Kind.FORWARD, 40)).message or b""
PASSAGE = Passage.of(EPOCH, 40, Kind.FORWARD, 11, 21)
LETTER = Letter.signed(WALLETS[11], WHERE, PASSAGE, CODE)


def nobody(outcome: Outcome, why: str) -> None:
    raise AssertionError("nobody waits for the outcome")


@pytest.fixture
def relay() -> Iterator[tuple[Post, Mailbox]]:
    """The post of miner 41, which is neither beside 11 nor beside 21."""
    at = post()
    yield at, at.open(running(41), lambda: None)
    at.stop()


def given(at: Post, body: bytes) -> int:
    return ask("POST", at.url + "/relay", body, 60.0, 4096)[0]


def fetched(at: Post, counter: int = 1) -> tuple[int, bytes]:
    asked = Collect.signed(WALLETS[21], WHERE, EPOCH, 21, 41, counter)
    return ask("POST", at.url + "/collect", asked.to_bytes(), 60.0, len(LETTER.to_bytes()))


def test_everybody_finds_the_same_few_relays() -> None:
    known = dict.fromkeys(MINERS, "http://somewhere") | {11: "", 21: "", 12: None}
    found = relays(EPOCH, 21, known.get)
    assert len(found) == MOST and set(found) <= {22, 31, 32, 41, 42}
    assert relays(EPOCH, 21, known.get) == found
    assert len({relays(replace(EPOCH, seed=bytes([n]) * 32), 21, known.get) for n in range(9)}) > 4


def test_a_relay_that_goes_is_replaced_and_the_others_stay() -> None:
    known = dict.fromkeys(MINERS, "http://somewhere")
    first, *others = relays(EPOCH, 21, known.get)
    left = relays(EPOCH, 21, {**known, first: ""}.get)
    assert left[: MOST - 1] == tuple(others) and first not in left


def test_without_any_post_there_is_no_relay() -> None:
    assert relays(EPOCH, 21, dict.fromkeys(MINERS, "").get) == ()


def test_a_relay_gives_the_letter_to_its_receiver_alone(relay: tuple[Post, Mailbox]) -> None:
    at, box = relay
    assert given(at, LETTER.to_bytes()) == 200
    asked = Collect.signed(WALLETS[22], WHERE, EPOCH, 21, 41, 1)
    assert ask("POST", at.url + "/collect", asked.to_bytes(), 60.0, 1 << 20)[0] == 403
    assert fetched(at) == (200, LETTER.to_bytes())
    assert box.came == 0, "it is no letter for the relay's own miner"


def test_the_same_letter_twice_is_held_once(relay: tuple[Post, Mailbox]) -> None:
    assert [given(relay[0], LETTER.to_bytes()) for _ in range(2)] == [200, 200]


def _signed(passage: Passage, message: bytes = CODE, by: int = 11) -> bytes:
    return Letter.signed(WALLETS[by], WHERE, passage, message).to_bytes()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (_signed(PASSAGE, by=12), 403),  # not signed by the sender
        (_signed(replace(PASSAGE, receiver=31)), 403),  # not the stage beside
        (_signed(replace(PASSAGE, receiver=99)), 403),  # nobody of the epoch
        (_signed(replace(PASSAGE, sample=99)), 403),  # not handed out
        (_signed(replace(PASSAGE, sender=12), by=12), 403),  # another miner begins the sample
        (_signed(Passage.of(EPOCH, 40, Kind.FORWARD, 31, 41), by=31), 403),  # for the relay
        (_signed(replace(PASSAGE, epoch=8)), 503),
        (_signed(PASSAGE, CODE * 1000), 413),
        (b"short", 400),
    ],
    ids=[
        "not by its sender",
        "another stage",
        "a stranger",
        "another sample",
        "another beginner",
        "for the relay",
        "another epoch",
        "too long",
        "too short",
    ],
)
def test_a_relay_holds_nothing_else(relay: tuple[Post, Mailbox], body: bytes, status: int) -> None:
    assert given(relay[0], body) == status
    assert fetched(relay[0])[0] == 204


def test_a_passage_has_one_message(relay: tuple[Post, Mailbox]) -> None:
    """Else one sender could fill the relay with letters about one sample."""
    assert given(relay[0], LETTER.to_bytes()) == 200
    assert given(relay[0], _signed(PASSAGE, CODE[:-1] + b"\0")) == 409


def test_letters_of_others_take_no_room_of_the_own_miners() -> None:
    held = Held(most=2, most_bytes=100, relayed_bytes=10)
    assert held.put(21, b"a" * 10, nobody, 0.0, relayed=True)
    assert not held.put(21, b"b", nobody, 0.0, relayed=True), "its room is full"
    assert held.put(21, b"c" * 50, nobody, 0.0) and held.put(21, b"d" * 50, nobody, 0.0)
    assert not held.put(21, b"e", nobody, 0.0), "two letters of the own miner wait"


def test_a_relay_tells_of_the_end_what_it_was_told(relay: tuple[Post, Mailbox]) -> None:
    at, _ = relay
    notice = Done.signed(WALLETS[11], WHERE, EPOCH, 11).to_bytes()
    assert ask("POST", at.url + "/done", notice, 60.0, 4096)[0] == 200
    path = at.url + done_path(EPOCH, 11)
    assert ask("GET", path, None, 60.0, 4096) == (200, notice)
    at.close(EPOCH, over=True)
    assert ask("GET", path, None, 60.0, 4096) == (200, notice)
