# SPDX-License-Identifier: Apache-2.0
"""Letters are left in the store for a miner whose own fresh sign lies there, for nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.pipeline.by_store import ByStore
from agents.pipeline.courier import Courier
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry
from agents.pipeline.letters import Letter, LetterError
from agents.pipeline.miner_log import Kind
from agents.pipeline.presence import PRESENT_BYTES, SPAN_S, Present, box_of, span_of
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound, StoreUnavailable
from tests.stage.memory.pipeline_epoch import (
    BATCH,
    EPOCH,
    SEQ,
    SLICES,
    WALLETS,
    WHERE,
    post,
    quiet_log,
    running,
    work,
)

LETTERS = box_of("letters", WHERE, EPOCH, 21)


class Way:
    """Miner 11's way through the store."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store, self.post = store, post(listen=False)
        self.box = box = self.post.open(running(11), lambda: None)
        place = self.post, box, running(11), WALLETS[11], WHERE, quiet_log()
        self.by_store = ByStore(store, *place)

    def sign(self, ago: int = 0, by: int = 21, alone: bool = False, number: int = 7) -> None:
        """A sign of miner 21, in the box of the present span."""
        span = span_of(time.time())
        epoch = replace(EPOCH, number=number)
        sign = Present.signed(WALLETS[by], WHERE, epoch, 21, span - ago, alone)
        box = box_of("present", WHERE, EPOCH, 21, span)
        self.store.leave(box, self.store.put_bytes(sign.to_bytes()))


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Way]:
    made = Way(EmbeddedStore(tmp_path))
    yield made
    made.by_store.stop()


def test_a_letter_is_left_for_a_miner_that_comes(way: Way) -> None:
    way.sign()
    assert way.by_store.comes(21) and not way.by_store.prefers(21)
    assert way.by_store.leave(21, b"letter")
    assert way.store.left(LETTERS, 9) == [cid_of_bytes(b"letter")]


def test_one_is_alone_while_no_sign_says_otherwise(way: Way) -> None:
    way.sign(alone=True)
    assert way.by_store.prefers(21)


def test_one_that_a_post_has_answered_is_alone_no_more(way: Way) -> None:
    way.sign(alone=True)
    way.sign(alone=False)
    assert way.by_store.comes(21) and not way.by_store.prefers(21)


@pytest.mark.parametrize(
    "sign",
    [None, {"by": 22}, {"by": 99}, {"ago": 2}, {"number": 8}],
    ids=["nobody", "a neighbour's", "a stranger's", "an old one", "another epoch's"],
)
def test_nothing_is_left_for_who_gave_no_sign_of_its_own(
    way: Way, sign: dict[str, int] | None
) -> None:
    if sign is not None:
        way.sign(**sign)  # type: ignore[arg-type]
    assert not way.by_store.comes(21) and not way.by_store.leave(21, b"letter")
    assert way.store.left(LETTERS, 9) == []


def test_rubbish_among_the_signs_hides_none(way: Way) -> None:
    box = box_of("present", WHERE, EPOCH, 21, span_of(time.time()))
    way.store.leave(box, way.store.put_bytes(b"rubbish"))
    way.store.leave(box, way.store.put_bytes(bytes(1000)))
    way.sign()
    assert way.by_store.comes(21)


class Searching(EmbeddedStore):
    """Finds what lies there at once, and searches for anything else as a Kubo daemon does."""

    missing: frozenset[str] = frozenset()
    over = threading.Event()

    def get(self, cid: str, max_bytes: int) -> bytes:
        if cid in self.missing:
            self.over.wait(60.0)
            raise NotFound("nobody has it")
        return super().get(cid, max_bytes)


@pytest.fixture
def searching(tmp_path: Path) -> Iterator[Searching]:
    store = Searching(tmp_path)
    store.over = threading.Event()
    yield store
    store.over.set()


def plant(store: Searching, box: bytes, count: int) -> None:
    """Attack: links are left in a box to files of which nobody serves more than the first block,
    which is all that a daemon asks for when it takes a link."""
    cids = [store.put_bytes(b"nowhere %d" % number) for number in range(count)]
    for cid in cids:
        store.leave(box, cid)
    store.missing |= frozenset(cids)


def test_signs_that_nobody_serves_delay_no_letter_to_a_post_that_answers(
    searching: Searching,
) -> None:
    """Each letter waited for the reading of signs, before its receiver's post was asked: longer
    than any gradient is waited for, so each sample on this way was lost."""
    way, receiver = Way(searching), post()
    for span in (span_of(time.time()), span_of(time.time()) + 1):
        plant(searching, box_of("present", WHERE, EPOCH, 21, span), 40)
    box = receiver.open(running(21), lambda: None)
    told = threading.Event()
    courier = Courier({21: receiver.url}.get, told.set, left=way.by_store)
    passage = Passage.of(EPOCH, 40, Kind.FORWARD, 11, 21)
    code = work(11).do(Entry(Kind.FORWARD, 40)).message or b""
    try:
        courier.give(21, "/letters", Letter.signed(WALLETS[11], WHERE, passage, code).to_bytes(), 1)
        assert told.wait(20.0)
        assert box.came == 1
    finally:
        courier.stop()
        way.by_store.stop()
        receiver.stop()


def test_what_nobody_serves_hides_no_letter_that_lies_beside_it(searching: Searching) -> None:
    """Twenty such names took a search each, one after the other: five minutes of an epoch."""
    box = box_of("letters", WHERE, EPOCH, 11)
    plant(searching, box, 20)
    passage = Passage.of(EPOCH, 40, Kind.BACKWARD, 21, 11)
    shape = SLICES.code_shape(BATCH, SEQ)
    gradient = SLICES.boundary.gradients.pack(torch.zeros(shape))
    letter = Letter.signed(WALLETS[21], WHERE, passage, gradient)
    searching.leave(box, searching.put_bytes(letter.to_bytes()))
    way = Way(searching)
    try:
        end = time.monotonic() + 30.0
        while way.box.take(Kind.BACKWARD) is None:
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        way.by_store.stop()


def test_a_miner_signs_for_itself_while_its_epoch_runs(way: Way) -> None:
    end, found = time.monotonic() + 60.0, list[str]()
    while not found and time.monotonic() < end:
        spans = span_of(time.time()), span_of(time.time()) - 1
        found = [
            c for s in spans for c in way.store.left(box_of("present", WHERE, EPOCH, 11, s), 9)
        ]
        time.sleep(0.02)
    sign = Present.from_bytes(way.store.get(found[0], PRESENT_BYTES))
    assert sign.is_of(WHERE, EPOCH, 11, sign.span, WALLETS[11].address)
    assert not sign.is_of(WHERE, EPOCH, 11, sign.span + 1, WALLETS[11].address)
    assert SPAN_S * sign.span <= time.time()


def test_a_store_that_is_down_is_no_way(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    way.sign()
    assert way.by_store.comes(21)

    def down(data: object) -> str:
        raise StoreUnavailable("it is down")

    monkeypatch.setattr(way.store, "put_bytes", down)
    assert not way.by_store.leave(21, b"letter")


@pytest.mark.parametrize("raw", [b"", b"x" * PRESENT_BYTES, bytes(PRESENT_BYTES + 1)])
def test_other_bytes_are_no_sign(raw: bytes) -> None:
    with pytest.raises(LetterError):
        Present.from_bytes(raw)
