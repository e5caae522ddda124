# SPDX-License-Identifier: Apache-2.0
"""Letters between two miners without a post: who holds them, and what a relay refuses to hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from eth_utils import keccak

from agents.pipeline.collector import Collector
from agents.pipeline.courier import Outcome
from agents.pipeline.hand_over import Passage
from agents.pipeline.held import Held
from agents.pipeline.inbox import Entry
from agents.pipeline.letters import Collect, Done, Letter, done_path
from agents.pipeline.mailbox import Mailbox
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.relays import MOST, relays
from agents.pipeline.trail import trail_from
from agents.runtime.bounded_http import ask
from tests.stage.memory.pipeline_epoch import (
    EPOCH,
    LOCAL_BATCH,
    MINERS,
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


def _signed(passage: Passage, message: bytes = CODE, by: int = 11, trail: bytes = b"") -> bytes:
    return Letter.signed(WALLETS[by], WHERE, passage, message, trail).to_bytes()


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


def _handed_on(sender: int = 21, sample: int = 40) -> Letter:
    """A sample on its way from who begins it by `sender` to 31."""
    first = EPOCH.first(sample, 0)
    code = work(first).do(Entry(Kind.FORWARD, sample)).message or b""
    passage = Passage.of(EPOCH, sample, Kind.FORWARD, first, sender)
    signature = Letter.signed(WALLETS[first], WHERE, passage, code).signature
    entry = Entry(Kind.FORWARD, sample, first, signature, code)
    code, way = work(sender).do(entry).message or b"", replace(passage, sender=sender, receiver=31)
    return Letter.signed(WALLETS[sender], WHERE, way, code, trail_from(entry))


def _collected(at: Post, most_s: float, known_to_it: Iterable[Letter] = ()) -> list[int]:
    """The senders of the letters that miner 31, which has no post, gets of a relay in this time,
    until it has one of 21. `known_to_it`: letters that it has executed."""
    known = book()
    known.take(announced(41, at.url))
    own = post(known=known, listen=False)
    box = own.open(running(31, 2 * LOCAL_BATCH), lambda: None)
    box.recall((letter.passage, keccak(letter.message)) for letter in known_to_it)
    place = own, running(31), WALLETS[31], WHERE, [], quiet_log()
    collector = Collector(*place, others=[41], relays=lambda: [41])
    came, end = list[int](), time.monotonic() + most_s
    while 21 not in came and time.monotonic() < end:
        time.sleep(0.02)
        if (letter := box.take(Kind.FORWARD)) is not None:
            came.append(letter.passage.sender)
    collector.stop()
    return came


@pytest.mark.parametrize("message", [None, b"", CODE[:-1]], ids=["no trail", "nothing", "cut"])
def test_letters_that_a_receiver_would_refuse_keep_no_others_from_it(message: bytes | None) -> None:
    """Miner 22 was handed sample 40 alone. It writes to 31 about all samples, or no code of that
    one, so that 31 refuses letter after letter and pauses longer after each."""
    at, honest = post(), _handed_on()
    at.open(running(41, 2 * LOCAL_BATCH), lambda: None)  # as `agents.rounds.mining` has it
    one = _handed_on(22)
    ways = [replace(one.passage, sample=sample) for sample in EPOCH.samples]
    if message is None:
        false = [_signed(way, one.message, 22, one.trail) for way in ways if way.sample != 40]
    else:
        false = [_signed(replace(one.passage), message, 22, one.trail)]
    statuses = [given(at, body) for body in false]
    assert given(at, honest.to_bytes()) == 200
    assert all(status in (400, 403) for status in statuses)
    assert _collected(at, 60.0) == [21]
    at.stop()


def test_second_letters_of_one_passage_delay_others_by_a_moment_each() -> None:
    """Miner 22 gave 31 its letters in another way, and other bytes of the same to a relay."""
    at, samples = post(), EPOCH.samples[1:7]
    at.open(running(41, 2 * LOCAL_BATCH), lambda: None)
    true = [_handed_on(22, sample) for sample in samples]
    other = _handed_on(22).message
    for one in true:
        assert given(at, _signed(one.passage, other, 22, one.trail)) == 200
    assert given(at, _handed_on().to_bytes()) == 200
    assert _collected(at, 10.0, true) == [21]  # by pauses that grow it is 12.75 s
    at.stop()


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
