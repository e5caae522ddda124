# SPDX-License-Identifier: Apache-2.0
"""What a miner does next follows from what happened, without a clock or a network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agents.mechanisms.boundary.parts.wire import Wire
from agents.pipeline.courier import Outcome
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry
from agents.pipeline.letters import Letter
from agents.pipeline.miner_log import Kind
from agents.pipeline.schedule import Outgoing, Schedule, Times
from agents.pipeline.stage import Passed
from agents.pipeline.trail import trail_from
from agents.pipeline.work import StageWork, replay
from agents.training.slices import init_stage
from tests.stage.memory.pipeline_epoch import BATCH, EPOCH, HYPER, SEQ, SLICES, batch

FORWARD, BACKWARD, STEP = Kind.FORWARD, Kind.BACKWARD, Kind.STEP
TIMES = Times(answer=10.0, retry=1.0, linger=100.0)
TRAIL = trail_from(Entry(FORWARD, 40, 11, b"s" * 65, b"m"))


def schedule(miner: int, local_batch: int = 2, in_flight: int = 3) -> Schedule:
    return Schedule(EPOCH, miner, local_batch, in_flight, TIMES)


def letter(kind: Kind, sample: int, sender: int, receiver: int) -> Letter:
    way = Passage.of(EPOCH, sample, kind, sender, receiver)
    return Letter(way, b"s" * 65, b"m")


def begin(one: Schedule, sample: int, now: float = 0.0) -> None:
    """Sample `sample` comes to miner 21 from 11, and goes forward."""
    assert one.wants_forward
    assert one.arrived(letter(FORWARD, sample, 11, 21))
    entry = one.next()
    assert entry == Entry(FORWARD, sample, 11, b"s" * 65, b"m")
    one.executed(entry, Passed(b"code"), now)


def back(one: Schedule, sample: int, sender: int, now: float = 0.0) -> None:
    assert one.arrived(letter(BACKWARD, sample, sender, 21))
    entry = one.next()
    assert entry is not None
    assert (entry.kind, entry.sample) == (BACKWARD, sample)
    one.executed(entry, Passed(b"gradient"), now)


def sent(one: Schedule, now: float) -> Outgoing:
    [out] = one.outgoing(now)
    return out


def test_no_more_is_begun_than_makes_a_step_and_then_it_steps() -> None:
    one = schedule(21)
    begin(one, 40)
    begin(one, 41)
    assert not one.wants_forward
    for out in one.outgoing(0.0):
        one.told(out, Outcome.TAKEN, 0.0)
        back(one, out.sample, out.receiver)
    assert one.next() == Entry(STEP, 0)
    one.executed(Entry(STEP, 0), Passed(), 0.0)
    assert (one.next(), one.passes, one.wants_forward) == (None, 0, True)


def test_gradients_go_before_codes() -> None:
    one = schedule(21)
    begin(one, 40)
    out = sent(one, 0.0)
    one.arrived(letter(FORWARD, 41, 11, 21))
    back(one, 40, out.receiver)


def test_the_last_stage_goes_back_at_once() -> None:
    one = schedule(41)
    one.arrived(letter(FORWARD, 40, 31, 41))
    entry = one.next()
    assert entry is not None
    one.executed(entry, Passed(loss=1.0), 0.0)
    assert one.next() == Entry(BACKWARD, 40)
    one.executed(Entry(BACKWARD, 40), Passed(b"gradient"), 0.0)
    assert sent(one, 0.0) == Outgoing(BACKWARD, 40, 31, b"gradient")


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.LATER])
def test_who_does_not_take_a_sample_is_passed_by_at_once(outcome: Outcome) -> None:
    one, order = schedule(21), EPOCH.candidates(40, 2)
    begin(one, 40)
    first = sent(one, 0.0)
    assert first == Outgoing(FORWARD, 40, order[0], b"code", TRAIL)
    assert one.outgoing(19.9) == [], "it is in a courier's hand"
    one.told(first, outcome, 0.5)
    assert sent(one, 0.5).receiver == order[1]


def test_while_miners_gather_nobody_who_can_not_be_reached_is_passed_by() -> None:
    """A miner that starts a second later than its neighbours would lose all its samples to them."""
    one = Schedule(EPOCH, 21, 2, 3, replace(TIMES, gather=3.0))
    order = EPOCH.candidates(40, 2)
    begin(one, 40, 5.0)
    for now in (5.0, 6.0, 7.0):
        out = sent(one, now)
        assert out.receiver == order[0]
        one.told(out, Outcome.LATER, now)
        assert one.outgoing(now + 0.9) == []
    out = sent(one, 8.0)
    one.told(out, Outcome.LATER, 8.0)
    assert sent(one, 8.0).receiver == order[1]


def test_who_takes_a_letter_too_slowly_is_passed_by_while_it_is_carried() -> None:
    """A post may answer at the last moment of each request, or its name have many addresses."""
    one, order = schedule(21), EPOCH.candidates(40, 2)
    begin(one, 40)
    first = sent(one, 0.0)
    assert one.wake_at == 20.0
    second = sent(one, 20.0)
    assert (first.receiver, second.receiver) == order
    one.told(first, Outcome.LATER, 21.0)
    assert one.outgoing(39.9) == [], "what became of the first letter says nothing of the second"


@pytest.mark.parametrize("told_first", [True, False])
def test_whose_gradient_spoils_the_work_is_passed_by_with_that_sample_alone(
    told_first: bool,
) -> None:
    """It may have computed honestly with numbers of another. The gradient may be here before the
    courier says that the sample was taken."""
    one, order = schedule(21), EPOCH.candidates(40, 2)
    other = next(s for s in EPOCH.samples if s != 40 and EPOCH.candidates(s, 2)[0] == order[0])
    for sample in (40, other):
        begin(one, sample)
    handed = one.outgoing(0.0)
    assert [out.receiver for out in handed] == [order[0], order[0]]
    for out in handed if told_first else ():
        one.told(out, Outcome.TAKEN, 0.0)
    assert one.arrived(letter(BACKWARD, 40, order[0], 21))
    entry = one.next()
    assert entry is not None
    one.refused(entry, 1.0)
    for out in () if told_first else handed:
        one.told(out, Outcome.TAKEN, 1.0)
    assert sent(one, 1.0) == Outgoing(FORWARD, 40, order[1], b"code", TRAIL)
    assert not one.arrived(letter(BACKWARD, 40, order[0], 21))
    back(one, other, order[0], 2.0)
    back(one, 40, order[1], 3.0)
    assert one.next() == Entry(STEP, 0)
    one.executed(Entry(STEP, 0), Passed(), 4.0)
    later = [s for s in EPOCH.samples if s not in (40, other)]
    begin(one, next(s for s in later if EPOCH.candidates(s, 2)[0] == order[0]), 5.0)
    assert [o.receiver for o in one.outgoing(5.0) if o.kind is FORWARD] == [order[0]]


def test_who_lets_the_time_pass_is_passed_by_and_asked_last_for_a_while() -> None:
    one, order = schedule(21), EPOCH.candidates(40, 2)
    later = next(s for s in EPOCH.samples if s != 40 and EPOCH.candidates(s, 2)[0] == order[0])
    begin(one, 40)
    one.told(sent(one, 0.0), Outcome.TAKEN, 1.0)
    assert one.wake_at == 21.0, "two stages lie behind, of 10 s each"
    assert one.outgoing(20.9) == []
    assert sent(one, 21.0).receiver == order[1]
    begin(one, later, 22.0)
    assert sent(one, 22.0).receiver == order[1]
    back(one, 40, order[0])  # late, and still welcome
    assert one.passes == 1


def test_who_can_not_be_reached_is_tried_again_until_the_sample_is_given_up() -> None:
    one, tries, now = schedule(21, local_batch=1), 0, 0.0
    begin(one, 40)
    while not one.wants_forward:
        now = max(now, one.wake_at)
        for out in one.outgoing(now):
            one.told(out, Outcome.LATER, now)
            tries += 1
    assert 20.0 <= now <= 22.0
    assert tries >= 2 * 20, "both, once a second"
    assert (one.next(), list(one.waiting)) == (None, [40]), "no step without a pass"


def test_a_step_drops_what_was_given_up_but_waits_for_what_is_under_way() -> None:
    one = schedule(21, local_batch=3)
    begin(one, 40)
    begin(one, 41)
    for out in one.outgoing(0.0):
        one.told(out, Outcome.REFUSED, 0.0)
    given_up, kept = one.outgoing(0.0)
    one.told(given_up, Outcome.REFUSED, 0.0)
    one.told(kept, Outcome.TAKEN, 0.0)
    back(one, kept.sample, kept.receiver)
    assert one.next() is None
    one.outgoing(0.0)  # the sample without candidates ends here, and waits for the step
    begin(one, 42)
    out = next(out for out in one.outgoing(0.0) if out.kind is FORWARD)
    assert one.next() is None
    back(one, 42, out.receiver)
    assert one.next() == Entry(STEP, 0)
    one.executed(Entry(STEP, 0), Passed(), 0.0)
    assert not one.waiting


def test_whose_code_spoils_a_forward_hands_on_its_other_samples() -> None:
    """The forward changed nothing, so the sample alone is lost to the two."""
    one = schedule(21)
    assert one.arrived(letter(FORWARD, 40, 11, 21))
    entry = one.next()
    assert entry is not None
    one.refused(entry, 0.0)
    assert one.next() is None and not one.waiting
    begin(one, 41)


def give_up(one: Schedule, sample: int, now: float = 0.0) -> None:
    """All candidates of the next stage refuse the sample."""
    for _ in EPOCH.candidates(sample, 2):
        [out] = [out for out in one.outgoing(now) if out.sample == sample]
        one.told(out, Outcome.REFUSED, now)
    assert one.outgoing(now) == []


@pytest.mark.parametrize("local_batch", [2, 3, 4])
def test_what_was_given_up_takes_a_place_of_the_step(local_batch: int) -> None:
    """`StageWork` counts it: whoever begins one more loses it, and each one after it."""
    one = schedule(21, local_batch, in_flight=local_batch)
    begin(one, 40)
    give_up(one, 40)
    for sample in range(41, 40 + local_batch):
        assert one.next() is None, "no step yet"
        begin(one, sample)
        back(one, sample, sent(one, 0.0).receiver)
        for out in one.outgoing(0.0):
            one.told(out, Outcome.TAKEN, 0.0)
    assert not one.wants_forward
    assert one.next() == Entry(STEP, 0)


def test_without_a_pass_the_oldest_sample_that_was_given_up_makes_room() -> None:
    one = schedule(21, local_batch=2, in_flight=2)
    begin(one, 40)
    receiver = sent(one, 0.0).receiver
    one.told(Outgoing(FORWARD, 40, receiver, b"code", TRAIL), Outcome.TAKEN, 0.0)
    begin(one, 41)
    give_up(one, 41)
    assert not one.wants_forward, "the oldest is under way"
    assert one.next() is None
    now = 100.0
    give_up_late = [out for out in one.outgoing(now) if out.sample == 40]
    one.told(give_up_late[0], Outcome.REFUSED, now)
    assert one.outgoing(now) == []
    begin(one, 42, now)
    assert list(one.waiting) == [41, 42]
    assert not one.arrived(letter(BACKWARD, 40, receiver, 21)), "it comes too late"
    back(one, 42, next(o.receiver for o in one.outgoing(now) if o.sample == 42), now)
    assert one.next() == Entry(STEP, 0)


@pytest.mark.parametrize("local_batch", [1, 2, 4])
@pytest.mark.parametrize("miner", [11, 21])
@pytest.mark.parametrize("every", [1, 2, 3, 9])
def test_an_epoch_in_which_samples_are_given_up_loses_no_other(
    miner: int, local_batch: int, every: int
) -> None:
    """A schedule and the work that it drives, both with one limit, as a trainer has them. Every
    so-many-th sample is refused by all of the next stage, and so are the first four."""
    stage = EPOCH.stage_of(miner)
    assert stage is not None
    state = init_stage(SLICES, stage)
    done = StageWork(SLICES, EPOCH, miner, state, HYPER, batch, in_flight=local_batch)
    one = Schedule(EPOCH, miner, local_batch, local_batch, TIMES)
    comes = list(EPOCH.due(miner)) if stage == 0 else list(EPOCH.samples)
    lost = [s for place, s in enumerate(comes) if place < 4 or place % every == 0]
    letters = [] if stage == 0 else list(comes)
    entries = []
    for now in range(100):
        if one.wants_forward and letters:
            sample = letters.pop(0)
            way = Passage.of(EPOCH, sample, FORWARD, EPOCH.first(sample, 0), miner)
            assert one.arrived(Letter(way, b"", random(SLICES.boundary.codes, sample)))
        while (entry := one.next()) is not None:
            entries.append(entry)
            one.executed(entry, done.do(entry), now)
        for out in one.outgoing(now):
            taken = out.kind is BACKWARD or out.sample not in lost
            one.told(out, Outcome.TAKEN if taken else Outcome.REFUSED, now)
            if out.kind is FORWARD and taken:
                way = Passage.of(EPOCH, out.sample, BACKWARD, out.receiver, miner)
                gradient = random(SLICES.boundary.gradients, out.sample)
                assert one.arrived(Letter(way, b"", gradient))
    if one.passes:
        entries.append(one.step())
        done.do(entries[-1])
    log = done.log()
    assert [e.number for e in log.events if e.kind is FORWARD] == comes
    assert log.backward_passes == len(comes) - len(lost)
    again = StageWork(SLICES, EPOCH, miner, state, HYPER, batch, in_flight=local_batch)
    assert replay(again, entries).log() == log


def random(wire: Wire, sample: int) -> bytes:
    draw = torch.Generator().manual_seed(sample)
    return wire.pack(1e-3 * torch.randn(SLICES.code_shape(BATCH, SEQ), generator=draw))


def test_a_gradient_from_who_was_not_asked_or_for_what_is_done_is_of_no_use() -> None:
    one, order = schedule(21), EPOCH.candidates(40, 2)
    begin(one, 40)
    sent(one, 0.0)
    assert not one.arrived(letter(BACKWARD, 40, order[1], 21))
    back(one, 40, order[0])
    assert not one.arrived(letter(BACKWARD, 40, order[0], 21))
    assert not one.arrived(letter(FORWARD, 40, 11, 21))


def test_a_first_stage_begins_its_own_samples_and_is_done_when_all_are_back() -> None:
    one, due = schedule(11, local_batch=1), EPOCH.due(11)
    for place, sample in enumerate(due):
        assert not one.done
        assert one.next() == Entry(FORWARD, sample)
        one.executed(Entry(FORWARD, sample), Passed(b"code"), 0.0)
        out = sent(one, 0.0)
        one.arrived(letter(BACKWARD, sample, out.receiver, 11))
        entry = one.next()
        assert entry is not None
        one.executed(entry, Passed(), 0.0)
        assert one.next() == Entry(STEP, place)
        one.executed(Entry(STEP, place), Passed(), 0.0)
    assert one.done
    assert one.next() is None


def test_a_gradient_is_sent_back_again_while_its_receiver_can_not_be_reached() -> None:
    one = schedule(21)
    begin(one, 40)
    back(one, 40, sent(one, 0.0).receiver)
    out = sent(one, 0.0)
    assert (out.kind, out.receiver) == (BACKWARD, 11)
    one.told(out, Outcome.LATER, 0.0)
    assert one.outgoing(0.9) == []
    assert sent(one, 1.0) == out
    one.told(out, Outcome.LATER, 31.0)  # its receiver gave up by now
    assert one.outgoing(40.0) == []
