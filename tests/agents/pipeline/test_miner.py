# SPDX-License-Identifier: Apache-2.0
"""Miners that pass letters over HTTP finish an epoch, whoever of them is silent or dies."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.mechanisms.boundary import WireError
from agents.mechanisms.boundary.parts.wire import MAX_MAGNITUDE
from agents.pipeline.courier import Outcome, send
from agents.pipeline.hand_over import Passage, most_sent
from agents.pipeline.inbox import Entry, Inbox
from agents.pipeline.letters import Done, Letter, passage_signer
from agents.pipeline.miner import Finished
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.presence import box_of
from agents.pipeline.stage import Passed
from agents.pipeline.work import StageWork, digest, replay
from agents.storage.cid import RAW, cid_from_digest
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.training.slices import init_stage
from agents.training.state import model_hash
from tests.stage.memory.pipeline_epoch import (
    BATCH,
    EPOCH,
    HYPER,
    IN_FLIGHT,
    MAX_MESSAGE,
    MINERS,
    OPERATORS,
    SEQ,
    SLICES,
    TIMES,
    WALLETS,
    WHERE,
    announced,
    batch,
    book,
    check,
    miner_of,
    post,
    running,
    work,
)

SECONDS = 120.0  # a slow machine is no defect of a miner


class Miners:
    """All miners of the epoch in threads of one process, each with a post of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.book, self.times = folder, book(), TIMES
        self.seconds = SECONDS  # that an epoch may take
        self.closed: tuple[int, ...] = ()  # miners that take no connections
        self.alone: tuple[int, ...] = ()  # miners that can only reach the store
        self.store: ContentStore | None = None
        self.posts: dict[int, Post] = {}
        self.results: dict[int, Finished | None] = {}
        self.threads: dict[int, threading.Thread] = {}
        torch.set_num_threads(1)

    def announce(self, miner: int) -> None:
        if miner in self.alone:
            # It knows nobody's address, and nobody knows its own.
            self.posts[miner] = post(known=book(), listen=False)
            return
        self.posts[miner] = post(known=self.book, listen=miner not in self.closed)
        when = int(time.time()) + len(self.posts)
        assert self.book.take(announced(miner, self.posts[miner].url, when))

    def start(
        self,
        miner: int,
        stop: Callable[[], bool] = lambda: False,
        start: Callable[[], StageWork] | None = None,
    ) -> None:
        """A miner at a new post, as a process that was started again has one."""
        self.announce(miner)
        one = miner_of(miner, self.posts[miner], self.folder, self.times, self.store, start)

        def run() -> None:
            self.results[miner] = one.run(time.monotonic() + self.seconds, stop)

        self.threads[miner] = threading.Thread(target=run, daemon=True)
        self.threads[miner].start()

    def finish(self) -> dict[int, Finished]:
        for thread in self.threads.values():
            thread.join(self.seconds + 10)
        return {miner: done for miner, done in self.results.items() if done is not None}


@pytest.fixture
def miners(tmp_path: Path) -> Iterator[Miners]:
    made = Miners(tmp_path)
    yield made
    for one in made.posts.values():
        one.stop()


def passed_back(done: dict[int, Finished], stage: int) -> Counter[int]:
    """How often each sample's backward at a stage entered a step."""
    found: Counter[int] = Counter()
    for miner in EPOCH.stages[stage]:
        if miner in done:
            log = done[miner].work.log()
            if not log.steps:
                continue  # nobody handed it a sample before the others were done
            last = log.steps[-1]
            found.update(e.number for e in log.events[:last] if e.kind is Kind.BACKWARD)
    return found


def assert_replays(miner: int, finished: Finished) -> None:
    entries = Inbox.from_bytes(finished.inbox.read_bytes(), MAX_MESSAGE).entries
    again = replay(work(miner), entries)
    assert again.log() == finished.work.log()
    assert model_hash(again.state()) == model_hash(finished.work.state())
    for entry in entries:
        if entry.sender:
            way = Passage.of(EPOCH, entry.sample, entry.kind, entry.sender, miner)
            signer = passage_signer(WHERE, way, digest(entry.message), entry.signature)
            assert signer == OPERATORS[entry.sender]


def test_all_samples_pass_all_stages_and_every_inbox_replays(miners: Miners) -> None:
    miners.times = replace(TIMES, answer=SECONDS, linger=SECONDS)  # none is passed by
    began = time.monotonic()
    for miner in MINERS:
        miners.start(miner)
    done = miners.finish()
    took = time.monotonic() - began
    for stage in range(len(EPOCH.stages)):
        assert passed_back(done, stage) == Counter(EPOCH.samples)
    for miner, finished in done.items():
        assert_replays(miner, finished)
        assert 0 < finished.busy_s < took, "it waits for others, which is no work"


@pytest.mark.parametrize(
    "closed",
    [(21, 41), (11,), (21, 31), (21, 22, 31, 32), (11, 12, 21, 22)],
    ids=["later stages", "first stage", "beside each other", "two stages", "first two stages"],
)
def test_a_miner_that_takes_no_connections_does_all_its_samples(
    miners: Miners, closed: tuple[int, ...]
) -> None:
    miners.closed, miners.times = closed, replace(TIMES, answer=SECONDS, linger=SECONDS)
    began = time.monotonic()
    for miner in MINERS:
        miners.start(miner)
    done = miners.finish()
    assert time.monotonic() - began < SECONDS, "all learn that the epoch is over"
    for stage in range(len(EPOCH.stages)):
        assert passed_back(done, stage) == Counter(EPOCH.samples)
    for miner in closed:
        assert len(done[miner].work.log().events) > 1
        assert_replays(miner, done[miner])


def finish_by_store(miners: Miners) -> dict[int, Finished]:
    """All miners of an epoch, with a store; each sample must pass all stages."""
    miners.store = miners.store or EmbeddedStore(miners.folder / "store")
    # None is passed by because its first sign is not in the store yet.
    miners.times = replace(TIMES, answer=SECONDS, linger=SECONDS, gather=SECONDS / 2)
    began = time.monotonic()
    for miner in MINERS:
        miners.start(miner)
    done = miners.finish()
    assert time.monotonic() - began < SECONDS, "all learn that the epoch is over"
    for stage in range(len(EPOCH.stages)):
        assert passed_back(done, stage) == Counter(EPOCH.samples)
    for miner, finished in done.items():
        assert len(finished.work.log().events) > 1
        assert_replays(miner, finished)
    return done


@pytest.mark.parametrize(
    "alone",
    [(21, 31), (11, 42), (21, 22), (11, 12)],
    ids=["beside each other", "first and last stage", "a whole stage", "the first stage"],
)
def test_two_miners_that_can_only_reach_the_store_do_all_their_samples(
    miners: Miners, alone: tuple[int, ...]
) -> None:
    miners.alone = alone
    finish_by_store(miners)


def test_miners_of_which_none_has_a_post_pass_samples_through_the_store(miners: Miners) -> None:
    miners.alone = tuple(MINERS)
    finish_by_store(miners)


def test_a_miner_whose_announced_address_nobody_reaches_gets_its_letters_in_the_store(
    miners: Miners,
) -> None:
    miners.alone = (21,)
    assert miners.book.take(announced(21, "http://127.0.0.1:9"))
    finish_by_store(miners)


def test_one_that_takes_no_connections_and_reaches_no_post_does_not_wait_in_vain(
    miners: Miners,
) -> None:
    """Others know that it takes none, and would hold its letters until their time is up."""
    miners.alone = (31,)
    assert miners.book.take(announced(31, ""))
    finish_by_store(miners)


def test_letters_in_the_store_are_checked_as_those_of_a_post(miners: Miners) -> None:
    """Strangers fill its box with rubbish and with forged letters, and the box of notices too."""
    store = EmbeddedStore(miners.folder / "store")
    miners.store, miners.alone = store, (21,)
    way = Passage.of(EPOCH, 40, Kind.FORWARD, 11, 21)
    code = work(11).do(Entry(Kind.FORWARD, 40)).message or b""
    letters, notices = (box_of(what, WHERE, EPOCH, *to) for what, to in
                        (("letters", (21,)), ("notices", ())))  # fmt: skip
    left = [
        Letter.signed(WALLETS[99], WHERE, way, code).to_bytes(),
        Letter.signed(WALLETS[11], WHERE, way, code + b"\0").to_bytes(),
        Letter.signed(WALLETS[11], WHERE, replace(way, receiver=22), code).to_bytes(),
        b"rubbish",
        bytes(1 << 20),
    ]
    for raw in left:
        store.leave(letters, store.put_bytes(raw))
    forged = [Done.signed(WALLETS[99], WHERE, EPOCH, miner) for miner in EPOCH.stages[0]]
    forged += [Done.signed(WALLETS[m], WHERE, replace(EPOCH, number=8), m) for m in (11, 12)]
    for notice in forged:
        store.leave(notices, store.put_bytes(notice.to_bytes()))
    done = finish_by_store(miners)
    assert {event.number for event in done[21].work.log().events if event.kind is Kind.FORWARD}
    assert store.left(letters, 99) == [], "what was refused is taken out of the box"


class Stranger(threading.Thread):
    """Floods all boxes that it sees while an epoch runs, and leaves all that ever was in the store
    in each of them: letters, notices and signs of all miners."""

    def __init__(self, store: EmbeddedStore) -> None:
        super().__init__(daemon=True)
        self.store, self.over = store, threading.Event()
        self.replayed: set[str] = set()
        self.thrown = 0

    def run(self) -> None:
        while not self.over.wait(0.1):
            kept = (self.store.root / "objects").glob("*/*.raw")
            big = [bytes.fromhex(one.stem) for one in kept if one.stat().st_size > 100]
            self.replayed.update(cid_from_digest(digest, RAW) for digest in big)
            boxes = self.store.root / "boxes"
            for name in [box.name for box in boxes.iterdir()] if boxes.is_dir() else []:
                for cid in self.replayed:
                    self.store.leave(bytes.fromhex(name), cid)
                for _ in range(20):
                    self.thrown += 1
                    cid = self.store.put_bytes(b"rubbish %d" % self.thrown)
                    self.store.leave(bytes.fromhex(name), cid)


def test_a_stranger_who_floods_boxes_and_replays_letters_costs_nobody_a_sample(
    miners: Miners,
) -> None:
    """A letter of the epoch before, by its sender's own key, lies there too."""
    store = EmbeddedStore(miners.folder / "store")
    miners.store, miners.alone = store, (21, 31)
    old = Passage.of(replace(EPOCH, number=6), 40, Kind.FORWARD, 11, 21)
    raw = Letter.signed(
        WALLETS[11], WHERE, old, work(11).do(Entry(Kind.FORWARD, 40)).message or b""
    )
    store.leave(box_of("letters", WHERE, EPOCH, 21), store.put_bytes(raw.to_bytes()))
    stranger = Stranger(store)
    stranger.start()
    try:
        finish_by_store(miners)
    finally:
        stranger.over.set()
        stranger.join(SECONDS)
    assert stranger.thrown > 100 and len(stranger.replayed) > len(MINERS)


def test_others_do_the_samples_of_a_miner_that_never_comes_for_its_letters(miners: Miners) -> None:
    """They take their letters back long before its time is up."""
    miners.closed, miners.times = (31,), replace(TIMES, answer=20.0, linger=SECONDS)
    miners.announce(31)
    began = time.monotonic()
    for miner in MINERS:
        if miner != 31:
            miners.start(miner)
    done = miners.finish()
    assert time.monotonic() - began < 2 * miners.times.answer
    for stage in range(len(EPOCH.stages)):
        # On a busy machine a sample may be given up before its gradient is back.
        assert len(passed_back(done, stage)) >= len(EPOCH.samples) - 1


def test_others_do_the_samples_of_a_miner_that_takes_letters_and_never_answers(
    miners: Miners,
) -> None:
    miners.times = replace(TIMES, answer=3.0, linger=SECONDS)
    miners.announce(31)
    silent = miners.posts[31].open(running(31), lambda: None)
    for miner in MINERS:
        if miner != 31:
            miners.start(miner)
    done = miners.finish()
    assert silent.came
    for stage in range(len(EPOCH.stages)):
        assert set(passed_back(done, stage)) == set(EPOCH.samples)


def test_a_miner_that_died_goes_on_with_the_same_bits(miners: Miners) -> None:
    # A letter may be lost with the miner that took it. Its sender waits for `answer` times the
    # stages that follow, which must leave the epoch the time to do the sample elsewhere.
    miners.times = replace(TIMES, answer=5.0, linger=SECONDS)
    file = miners.folder / "21.inbox"
    passes = lambda: file.exists() and file.stat().st_size > 2 * MAX_MESSAGE  # noqa: E731
    for miner in MINERS:
        miners.start(miner, passes if miner == 21 else lambda: False)
    miners.threads[21].join(SECONDS)
    assert miners.results[21] is None
    before = file.read_bytes()
    file.write_bytes(before + b"\0\0\0")  # an entry that the crash cut
    miners.posts[21].stop()
    miners.start(21)
    done = miners.finish()
    assert done[21].inbox.read_bytes().startswith(before)
    assert done[21].inbox.stat().st_size > len(before)
    assert_replays(21, done[21])
    assert set(passed_back(done, 0)) == set(EPOCH.samples)


def test_who_comes_back_after_the_others_left_ends_at_once(miners: Miners) -> None:
    miners.times = replace(TIMES, linger=SECONDS)
    file = miners.folder / "21.inbox"
    died = lambda: file.exists() and file.stat().st_size > 3 * MAX_MESSAGE  # noqa: E731
    for miner in MINERS:
        miners.start(miner, died if miner == 21 else lambda: False)
    miners.finish()
    began = time.monotonic()
    miners.start(21)
    miners.threads[21].join(SECONDS)
    assert time.monotonic() - began < SECONDS / 2
    finished = miners.results[21]
    assert finished is not None
    # What it executes again counts in the place of what it did.
    assert 0 < finished.busy_s < SECONDS / 2
    assert_replays(21, finished)


def test_a_miner_that_nobody_hands_a_sample_ends_with_an_empty_log(miners: Miners) -> None:
    """Some were drawn for it, but those before it are gone."""
    assert EPOCH.due(31)
    miners.times = replace(TIMES, linger=0.5)
    miners.start(31)
    finished = miners.finish()[31]
    assert finished.work.log().events == () and finished.busy_s == 0
    assert Inbox.from_bytes(finished.inbox.read_bytes(), MAX_MESSAGE).entries == ()
    assert model_hash(finished.work.state()) == model_hash(work(31).state())


def test_a_miner_of_the_first_stage_without_neighbours_ends_with_its_forwards(
    miners: Miners,
) -> None:
    miners.times = replace(TIMES, answer=0.2, linger=2.0)
    miners.start(11)
    finished = miners.finish()[11]
    kinds = {event.kind for event in finished.work.log().events}
    assert kinds == {Kind.FORWARD} and finished.work.steps == 0
    assert_replays(11, finished)


def answered(miners: Miners, reply: Done) -> bool:
    """Whether a miner that asks 11 takes this for 11's notice; 12's has come."""
    for miner in (11, 12):
        miners.announce(miner)
        miners.posts[miner].keep(Done.signed(WALLETS[miner], WHERE, EPOCH, miner))
    miners.posts[11]._notices = {EPOCH.key: reply.to_bytes()}
    began = time.monotonic()
    miners.start(31)
    miners.threads[31].join(SECONDS)
    return time.monotonic() - began < TIMES.linger / 2


@pytest.mark.parametrize(
    "reply",
    [
        Done.signed(WALLETS[99], WHERE, EPOCH, 11),
        Done.signed(WALLETS[11], WHERE, replace(EPOCH, number=8), 11),
        Done.signed(WALLETS[31], WHERE, EPOCH, 31),
    ],
    ids=["another's signature", "another epoch", "a miner of another stage"],
)
def test_a_notice_that_was_asked_for_is_believed_to_its_author_alone(
    miners: Miners, reply: Done
) -> None:
    assert not answered(miners, reply)


class Growing(StageWork):
    """Of a model whose gradients grow beyond what is permitted: what comes of one sender's."""

    def __init__(self, miner: int, sender: int) -> None:
        stage = EPOCH.stage_of(miner)
        assert stage is not None
        super().__init__(SLICES, EPOCH, miner, init_stage(SLICES, stage), HYPER, batch, IN_FLIGHT)
        self._from = sender

    def do(self, entry: Entry) -> Passed:
        passed = super().do(entry)
        grown = entry.kind is Kind.BACKWARD and entry.sender == self._from
        return replace(passed, message=b"") if grown else passed


def test_a_gradient_that_can_not_be_worked_with_is_taken_back(miners: Miners) -> None:
    """The gradient that follows from its numbers is not allowed on the wire."""
    miners.times = replace(TIMES, answer=5.0, linger=SECONDS)  # notices end the epoch
    order = EPOCH.candidates(40, 2)
    for miner in (11, *order):
        miners.announce(miner)
    boxes = {miner: miners.posts[miner].open(running(miner), lambda: None) for miner in order}
    miners.start(21, start=lambda: Growing(21, order[0]))
    code = work(11).do(Entry(Kind.FORWARD, 40)).message
    assert code is not None
    give(miners, Kind.FORWARD, 11, code)
    for miner, size in zip(order, (2.0**17, 1e-3), strict=True):
        while boxes[miner].take(Kind.FORWARD) is None:
            assert miners.threads[21].is_alive()
            time.sleep(0.02)
        values = torch.full(SLICES.code_shape(BATCH, SEQ), size)
        give(miners, Kind.BACKWARD, miner, SLICES.boundary.gradients.pack(values))
    for miner in EPOCH.stages[0]:
        notice = Done.signed(WALLETS[miner], WHERE, EPOCH, miner)
        assert send(miners.posts[21].url + "/done", notice.to_bytes(), 60.0)[0] is Outcome.TAKEN
    done = miners.finish()[21]
    entries = Inbox.from_bytes(done.inbox.read_bytes(), MAX_MESSAGE).entries
    assert [(e.kind, e.sender) for e in entries] == [
        (Kind.FORWARD, 11),
        (Kind.BACKWARD, order[1]),
        (Kind.STEP, 0),
    ]
    assert_replays(21, done)


class Bursting(StageWork):
    """What comes of one sample's code can't be sent, as where numbers grow beyond the wire's."""

    def __init__(self, bad: int, done: list[tuple[Kind, int]]) -> None:
        super().__init__(SLICES, EPOCH, 21, init_stage(SLICES, 1), HYPER, batch, IN_FLIGHT)
        self._bad, self._done = bad, done

    def do(self, entry: Entry) -> Passed:
        passed = super().do(entry)
        self._done.append((entry.kind, entry.sample))
        return replace(passed, message=b"") if entry.sample == self._bad else passed


def test_a_code_that_can_not_be_sent_on_is_taken_back_and_nothing_is_done_again(
    miners: Miners,
) -> None:
    """Else each such letter would cost its receiver all of its epoch so far."""
    miners.times = replace(TIMES, answer=SECONDS, linger=SECONDS)  # notices end the epoch
    first, bad, after = EPOCH.due(11)[:3]
    done: list[tuple[Kind, int]] = []
    starts: list[StageWork] = []

    def start() -> StageWork:
        starts.append(Bursting(bad, done))
        return starts[-1]

    for miner in EPOCH.stages[2]:
        miners.announce(miner)
    boxes = {m: miners.posts[m].open(running(m), lambda: None) for m in EPOCH.stages[2]}
    miners.start(21, start=start)
    gradient = SLICES.boundary.gradients.pack(torch.full(SLICES.code_shape(BATCH, SEQ), 1e-3))

    def hand_over(sender: int, sample: int) -> None:
        code = work(sender).do(Entry(Kind.FORWARD, sample)).message
        assert code is not None
        give(miners, Kind.FORWARD, sender, code, sample)

    def wait_for(done_with: Callable[[], bool]) -> None:
        while not done_with():
            assert miners.threads[21].is_alive()
            time.sleep(0.02)

    hand_over(11, first)
    wait_for(lambda: (Kind.FORWARD, first) in done)
    hand_over(11, bad)
    wait_for(lambda: (Kind.FORWARD, bad) in done)
    hand_over(11, after)
    came: dict[int, int] = {}
    for sample in (first, after):
        while sample not in came:
            assert miners.threads[21].is_alive()
            for miner, box in boxes.items():
                letter = box.take(Kind.FORWARD)
                if letter is not None:
                    came[letter.passage.sample] = miner
            time.sleep(0.02)
        give(miners, Kind.BACKWARD, came[sample], gradient, sample)
    for miner in EPOCH.stages[0]:
        notice = Done.signed(WALLETS[miner], WHERE, EPOCH, miner)
        assert send(miners.posts[21].url + "/done", notice.to_bytes(), 60.0)[0] is Outcome.TAKEN
    finished = miners.finish()[21]
    assert len(starts) == 1
    assert [sample for kind, sample in done if kind is Kind.FORWARD] == [first, bad, after]
    log = finished.work.log()
    assert {e.number for e in log.events if e.kind is Kind.FORWARD} == {first, after}
    assert log.backward_passes == 2
    assert_replays(21, finished)


def answer(receiver: int, sample: int, code: bytes, size: float) -> Passed:
    """What an honest miner of stage 2 makes of a gradient that the stage after it chose."""
    one = work(receiver)
    one.do(Entry(Kind.FORWARD, sample, 21, b"", code))
    chosen = SLICES.boundary.gradients.pack(torch.full(SLICES.code_shape(BATCH, SEQ), size))
    return one.do(Entry(Kind.BACKWARD, sample, EPOCH.candidates(sample, 3)[0], b"", chosen))


def largest(receiver: int, sample: int, code: bytes) -> bytes:
    """The gradient of an honest miner that is just small enough to be sent."""
    values = answer(receiver, sample, code, 1.0).values
    assert values is not None
    most = most_sent(EPOCH, Kind.BACKWARD, receiver)
    message = answer(receiver, sample, code, 0.99 * most / float(values.abs().max())).message
    assert message is not None
    check(Kind.BACKWARD, message, receiver)
    return message


def test_whoever_chooses_the_largest_gradient_has_nobody_do_a_pass_again(miners: Miners) -> None:
    """Nor an honest miner blamed that was sent it and passed it on: its receiver can send on what
    comes of it. What is larger no post takes."""
    miners.times = replace(TIMES, answer=SECONDS, linger=SECONDS)  # notices end the epoch
    honest = EPOCH.candidates(40, 2)[0]
    usual, framed, after = [s for s in EPOCH.samples if EPOCH.candidates(s, 2)[0] == honest][:3]
    done: list[tuple[Kind, int]] = []
    starts: list[StageWork] = []

    def start() -> StageWork:
        starts.append(Bursting(-1, done))
        return starts[-1]

    for miner in EPOCH.stages[2]:
        miners.announce(miner)
    boxes = {m: miners.posts[m].open(running(m), lambda: None) for m in EPOCH.stages[2]}
    miners.start(21, start=start)

    def hand_over(sample: int) -> None:
        sender = EPOCH.candidates(sample, 0)[0]
        code = work(sender).do(Entry(Kind.FORWARD, sample)).message
        assert code is not None
        give(miners, Kind.FORWARD, sender, code, sample)

    def taken(receiver: int) -> bytes:
        while (letter := boxes[receiver].take(Kind.FORWARD)) is None:
            assert miners.threads[21].is_alive()
            time.sleep(0.02)
        return letter.message

    def give_back(sender: int, sample: int, code: bytes) -> None:
        message = answer(sender, sample, code, 1e-3).message
        assert message is not None
        give(miners, Kind.BACKWARD, sender, message, sample)

    first = EPOCH.samples[-1]
    codes = {}
    for sample in (usual, first):  # a step is made of both
        hand_over(sample)
        receiver = EPOCH.candidates(sample, 2)[0]
        give_back(receiver, sample, taken(receiver))
    for sample in (framed, after):
        hand_over(sample)
        codes[sample] = taken(honest)
    too_large = torch.full(SLICES.code_shape(BATCH, SEQ), 2.0**20)
    assert offer(miners, honest, SLICES.boundary.gradients.pack(too_large), framed) == (
        Outcome.REFUSED
    )
    give(miners, Kind.BACKWARD, honest, largest(honest, framed, codes[framed]), framed)
    give_back(honest, after, codes[after])
    for miner in EPOCH.stages[0]:
        notice = Done.signed(WALLETS[miner], WHERE, EPOCH, miner)
        assert send(miners.posts[21].url + "/done", notice.to_bytes(), 60.0)[0] is Outcome.TAKEN
    finished = miners.finish()[21]
    assert len(starts) == 1
    passed = Counter(done)
    samples = (usual, first, framed, after)
    assert {passed[kind, s] for kind in (Kind.FORWARD, Kind.BACKWARD) for s in samples} == {1}
    entries = Inbox.from_bytes(finished.inbox.read_bytes(), MAX_MESSAGE).entries
    came = {e.sample: e.sender for e in entries if e.kind is Kind.BACKWARD}
    assert came[framed] == came[after] == honest
    assert finished.work.log().backward_passes == 4
    assert_replays(21, finished)


def offer(miners: Miners, sender: int, message: bytes, sample: int) -> Outcome:
    """What becomes of a gradient at the post of miner 21."""
    way = Passage.of(EPOCH, sample, Kind.BACKWARD, sender, 21)
    body = Letter.signed(WALLETS[sender], WHERE, way, message).to_bytes()
    return send(miners.posts[21].url + "/letters", body, 60.0)[0]


def give(miners: Miners, kind: Kind, sender: int, message: bytes, sample: int = 40) -> None:
    way = Passage.of(EPOCH, sample, kind, sender, 21)
    body = Letter.signed(WALLETS[sender], WHERE, way, message).to_bytes()
    url, outcome, why = miners.posts[21].url + "/letters", Outcome.LATER, ""
    while outcome is Outcome.LATER and miners.threads[21].is_alive():  # it opens its epoch just now
        outcome, why = send(url, body, 60.0)
    assert outcome is Outcome.TAKEN, why


def test_what_is_too_large_to_be_sent_by_a_little_can_still_be_replayed() -> None:
    """A neighbour can choose numbers that give the limit, less or more a rounding: where the work
    did not fail, no replay on other hardware may."""
    code = work(11).do(Entry(Kind.FORWARD, 40)).message
    assert code is not None
    one = work(21)
    one.do(Entry(Kind.FORWARD, 40, 11, b"", code))
    limit = SLICES.boundary.gradients.pack(torch.full(SLICES.code_shape(BATCH, SEQ), MAX_MAGNITUDE))
    passed = one.do(Entry(Kind.BACKWARD, 40, EPOCH.candidates(40, 2)[0], b"", limit))
    assert passed.message is not None
    with pytest.raises(WireError):
        check(Kind.BACKWARD, passed.message, 21)
