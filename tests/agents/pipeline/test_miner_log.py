# SPDX-License-Identifier: Apache-2.0
"""A log has one order, one spelling and one root; an audit meets every pass equally often."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline import miner_log
from agents.pipeline.miner_log import Event, Kind, MinerLog, Origin, Segment, leaf
from agents.training.state import PayloadError

ORIGIN = Origin(miner=7, epoch=2, stage=1, state=keccak(b"start"))


def events(story: str) -> tuple[Event, ...]:
    """ "f1 f2 b1 s" and so on; steps count themselves and their states follow one another."""
    found: list[Event] = []
    state, steps = ORIGIN.state, 0
    for telling in story.split():
        if telling == "s":
            after = keccak(state)
            found.append(Event(Kind.STEP, steps, state, after))
            state, steps = after, steps + 1
        else:
            kind = Kind.FORWARD if telling[0] == "f" else Kind.BACKWARD
            number = int(telling[1:])
            found.append(Event(kind, number, keccak(b"in%d" % number), keccak(b"out%d" % number)))
    return tuple(found)


def log(story: str) -> MinerLog:
    return MinerLog(ORIGIN, events(story))


def long_log(steps: int) -> MinerLog:
    return log(" ".join(f"f{n} b{n} s" for n in range(steps)))


@pytest.mark.parametrize(
    ("story", "words"),
    [
        ("b1", "Event 0, BACKWARD 1, has no FORWARD"),
        ("f1 f1", "Event 1, FORWARD 1, sends a sample forward for the second time"),
        ("f1 b1 b1", "Event 2, BACKWARD 1, comes twice, or after a STEP"),
        ("f1 b1 s f1", "second time"),
        ("f1 f2 b1 s b2", "Event 4, BACKWARD 2, comes twice, or after a STEP"),
        ("f1 s", "Event 1, STEP 0, has no BACKWARD"),
        ("f1 b1 s s", "Event 3, STEP 1, has no BACKWARD"),
    ],
)
def test_an_order_that_can_not_have_been_executed_is_refused(story: str, words: str) -> None:
    with pytest.raises(PayloadError, match=words):
        log(story)


@pytest.mark.parametrize("change", [{"number": 1}, {"digest_in": bytes(32)}])
def test_a_step_has_its_number_and_starts_from_the_state_before(change: dict[str, object]) -> None:
    first, second, step = events("f1 b1 s")
    with pytest.raises(PayloadError, match="Event 2, STEP"):
        MinerLog(ORIGIN, (first, second, replace(step, **change)))


def test_a_sample_whose_gradient_never_comes_stops_nobody() -> None:
    told = log("f1 f2 b2 s f3 b3 f4 s f5 b5")
    assert told.steps == (3, 7)
    assert told.backward_passes == 2  # the third entered no step
    assert told.state == keccak(keccak(ORIGIN.state))


def test_leaf_by_hand() -> None:
    (event,) = events("f1")
    origin = b"".join(bytes(7) + bytes([n]) for n in (7, 2, 1)) + ORIGIN.state
    numbers = bytes(7) + b"\3" + bytes(7) + b"\0"
    line = b"\0" + bytes(7) + b"\1" + keccak(b"in1") + keccak(b"out1")
    body = b"\0" + keccak(origin) + numbers + line
    assert leaf(ORIGIN, 3, 0, event) == keccak(keccak(body))


def test_the_root_binds_each_event_its_place_and_whose_log_it_is() -> None:
    told = log("f1 f2 b2 b1 s")
    others = [replace(told, origin=replace(ORIGIN, miner=8)), log("f2 f1 b2 b1 s")]
    others += [log("f1 f2 b1 b2 s"), log("f1 f2 b2 b1 s f9")]
    for place, event in enumerate(told.events[:-1]):
        other = replace(event, digest_out=keccak(b"another"))
        others.append(
            replace(told, events=(*told.events[:place], other, *told.events[place + 1 :]))
        )
    assert len({told.root(), *(other.root() for other in others)}) == 1 + len(others)


def test_an_empty_log_has_a_root_of_its_own() -> None:
    empty = MinerLog(ORIGIN, ())
    assert empty.root() == keccak(keccak(b"\0" + keccak(ORIGIN.to_bytes()) + bytes(8)))
    assert MinerLog(replace(ORIGIN, miner=8), ()).root() != empty.root()
    assert MinerLog.from_bytes(empty.to_bytes(), ORIGIN) == empty
    assert (empty.state, empty.backward_passes) == (ORIGIN.state, 0)


@given(st.integers(1, 9), st.data())
def test_a_log_has_one_spelling(steps: int, data: st.DataObject) -> None:
    told = long_log(steps)
    raw = told.to_bytes()
    assert MinerLog.from_bytes(raw, ORIGIN) == told
    other = bytearray(raw)
    place = data.draw(st.integers(0, len(raw) - 1))
    other[place] ^= data.draw(st.integers(1, 255))
    with suppress(PayloadError):
        assert MinerLog.from_bytes(bytes(other), ORIGIN).root() != told.root()


@pytest.mark.parametrize(
    ("spoilt", "words"),
    [
        (lambda raw: b"", "not one of miner 7, stage 1, epoch 2"),
        (lambda raw: raw[:-1], "do not hold 3 events"),
        (lambda raw: raw + b"\0", "do not hold 3 events"),
        (lambda raw: raw[:78] + b"\xff" * 8 + raw[86:], "do not hold 18446744073709551615"),
        (lambda raw: raw[:86] + b"\3" + raw[87:], "no event of kind 3"),
    ],
)
def test_hostile_bytes_are_refused(spoilt, words: str) -> None:
    with pytest.raises(PayloadError, match=words):
        MinerLog.from_bytes(spoilt(log("f1 b1 s").to_bytes()), ORIGIN)


def test_a_log_that_is_too_long_or_anothers_is_refused_unread() -> None:
    raw = log("f1 b1 s").to_bytes()
    assert len(raw) == miner_log.max_log_bytes(3) == 86 + 3 * 73
    with pytest.raises(PayloadError, match="2 events take at most"):
        MinerLog.from_bytes(raw, ORIGIN, max_events=2)
    with pytest.raises(PayloadError, match="miner 8"):
        MinerLog.from_bytes(raw, replace(ORIGIN, miner=8))


def drawn(told: MinerLog, length: int, monkeypatch: pytest.MonkeyPatch) -> list[Segment]:
    """The segment of each word that can be drawn, each word once."""
    found = []
    for value in range(max(1, told.backward_passes)):
        monkeypatch.setattr(miner_log, "word", lambda *_, value=value: value)
        found.append(told.segment(bytes(32), length))
    return found


@pytest.mark.parametrize("length", [1, 3, 5, 9])
def test_every_segment_is_drawn_as_often_as_it_has_passes(length, monkeypatch) -> None:
    """Steps of one and of two passes alternate."""
    two = "f{0} b{0} f{1} b{1} s"
    told = log(" ".join((two if n % 2 else "f{0} b{0} s").format(n, n + 9) for n in range(5)))
    assert told.backward_passes == 7
    words = drawn(told, length, monkeypatch)
    for index, times in Counter(part.index for part in words).items():
        part = told.part(index, length)
        assert times == sum(event.kind is Kind.BACKWARD for event in part.events)
        assert part in words
    assert len({part.index for part in words}) == -(-5 // length)


@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_segments_are_a_log_cut_in_pieces(length: int) -> None:
    """What follows the last step is in the last one."""
    told = log("f1 f2 b2 s f3 b3 s f4 b4 s f5")
    parts = [told.part(index, length) for index in range(-(-3 // length))]
    assert tuple(event for part in parts for event in part.events) == told.events
    for part in parts:
        assert told.events[part.first_event :][: len(part.events)] == part.events
        assert part.first_step == part.index * length
        assert part.end_step == min(3, part.first_step + length)
    assert [part.ends for part in parts] == [*[False] * (len(parts) - 1), True]


def test_the_state_after_a_step_is_the_one_that_it_says() -> None:
    told = log("f1 b1 s f2 b2 s")
    assert told.state_after(0) == told.origin.state
    assert told.state_after(1) == told.events[told.steps[0]].digest_out
    assert told.state_after(2) == told.state


@pytest.mark.parametrize("order", ["", "f1", "f1 b1"])
def test_a_log_without_a_step_is_one_segment(order: str) -> None:
    part = log(order).segment(bytes(32), 3)
    assert (part.index, part.end_step, part.ends) == (0, 0, True)
    assert part.events == log(order).events
    with pytest.raises(ValueError, match="at least one step"):
        log("f1 b1 s").segment(bytes(32), 0)
