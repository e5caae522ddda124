# SPDX-License-Identifier: Apache-2.0
"""A miner's entries decide its messages, its log and its weights; nothing foreign is executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from agents.mechanisms import boundary as boundaries
from agents.mechanisms.boundary import WireError
from agents.pipeline.epoch import Epoch
from agents.pipeline.inbox import Entry, EntryReader, Inbox
from agents.pipeline.miner_log import Kind, MinerLog
from agents.pipeline.stage import StageError
from agents.pipeline.work import StageWork, replay, since_step
from agents.training.slices import Slices, init_stage
from agents.training.spec import Hyperparameters, ModelSpec
from agents.training.state import PayloadError, model_hash
from tests.stage.memory.tiny_specs import tiny_model

SPEC = ModelSpec(**tiny_model(16, 24, 12, layers=2), tie_embeddings=False)
SLICES = Slices(SPEC, (1, 1), boundaries.get("residual")(width=4))
HYPER = Hyperparameters(5e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32")
EPOCH = Epoch(3, 7, b"\x03" * 32, ((11, 12), (21,)), range(40, 44))
BEGINS = {sample: EPOCH.candidates(sample, 0)[0] for sample in EPOCH.samples}
FORWARD, BACKWARD, STEP = Kind.FORWARD, Kind.BACKWARD, Kind.STEP


def batch(number: int) -> Tensor:
    draw = torch.Generator().manual_seed(number)
    return torch.randint(0, 256, (2, 13), generator=draw)


def work(miner: int) -> StageWork:
    stage = EPOCH.stage_of(miner)
    assert stage is not None
    return StageWork(SLICES, EPOCH, miner, init_stage(SLICES, stage), HYPER, batch)


def worked() -> tuple[list[Entry], list[Entry], StageWork, StageWork]:
    """Entries and work of miners 11 and 21: two samples, the second of which never comes back."""
    first, last = work(11), work(21)
    ours: list[Entry] = []
    theirs: list[Entry] = []
    for sample in (40, 41):
        ours.append(Entry(FORWARD, sample))
        code = first.do(ours[-1]).message
        assert code is not None
        theirs += [Entry(FORWARD, sample, 11, b"s", code), Entry(BACKWARD, sample)]
        last.do(theirs[-2])
        gradient = last.do(theirs[-1]).message
        assert gradient is not None
        if sample == 40:
            ours.append(Entry(BACKWARD, sample, 21, b"s", gradient))
            first.do(ours[-1])
    for entries, done in ((ours, first), (theirs, last)):
        entries.append(Entry(STEP, 0))
        done.do(entries[-1])
    return ours, theirs, first, last


def test_who_executes_the_same_entries_gets_the_same_log_and_weights() -> None:
    ours, theirs, first, last = worked()
    for miner, done, entries in ((11, first, ours), (21, last, theirs)):
        raw = Inbox(tuple(entries)).to_bytes()
        again = replay(work(miner), Inbox.from_bytes(raw, max_message=1_000).entries)
        assert (
            again.log() == done.log() == MinerLog.from_bytes(done.log().to_bytes(), again._origin)
        )
        assert model_hash(again.state()) == model_hash(done.state()) == done.log().state
        assert again.losses == done.losses


def test_a_step_drops_the_sample_that_never_came_back() -> None:
    ours, _, first, _ = worked()
    assert not first.waiting
    assert first.log().backward_passes == 1
    with pytest.raises(StageError, match="no forward that waits"):
        first.do(replace(ours[1], sample=41))


def test_one_sample_beyond_those_of_a_step_takes_the_place_of_the_oldest_that_waits() -> None:
    """Where none of them comes back there is no step that would make room."""
    state = init_stage(SLICES, 0)
    samples = [sample for sample in EPOCH.samples if BEGINS[sample] == 11]
    assert len(samples) == 3
    one = StageWork(SLICES, EPOCH, 11, state, HYPER, batch, in_flight=2)
    codes = [one.do(Entry(FORWARD, sample)).message for sample in samples]
    assert list(one.waiting) == samples[1:]
    last = replay(work(21), [Entry(FORWARD, samples[2], 11, b"s", codes[2] or b"")])
    gradient = last.do(Entry(BACKWARD, samples[2])).message
    assert gradient is not None
    with pytest.raises(StageError, match="no forward that waits"):
        one.do(Entry(BACKWARD, samples[0], 21, b"s", gradient))
    back, step = Entry(BACKWARD, samples[2], 21, b"s", gradient), Entry(STEP, 0)
    replay(one, [back, step])
    alone = StageWork(SLICES, EPOCH, 11, state, HYPER, batch, in_flight=2)
    replay(alone, [Entry(FORWARD, samples[2]), back, step])
    assert model_hash(one.state()) == model_hash(alone.state()), "it left no trace"
    assert MinerLog.from_bytes(one.log().to_bytes(), one._origin).backward_passes == 1


def test_a_forward_that_is_taken_back_leaves_no_trace() -> None:
    ours, theirs, first, last = worked()
    for miner, entries, done in ((11, ours, first), (21, theirs, last)):
        one = work(miner)
        one.do(entries[0])
        other = replace(entries[0], sample=42)
        one.do(other)
        one.take_back()
        assert (list(one.waiting), [*one.losses]) == ([40], [40] if miner == 21 else [])
        replay(one, [other])  # it may come again
        one.take_back()
        replay(one, entries[1:])
        assert one.log() == done.log() and one.losses == done.losses
        with pytest.raises(ValueError, match="no FORWARD"):
            one.take_back()


def test_a_step_that_is_begun_again_leaves_no_trace() -> None:
    ours, theirs, first, last = worked()
    for miner, entries, done in ((11, ours, first), (21, theirs, last)):
        one = replay(work(miner), entries[:-1])
        one.begin_step_again()
        assert (one.events, list(one.waiting), one.passes, one.losses) == ([], [], 0, {})
        replay(one, [*since_step(entries[:-1]), entries[-1]])
        assert one.log() == done.log() and one.losses == done.losses
        assert model_hash(one.state()) == model_hash(done.state())
        one.begin_step_again()  # the step that was made stays
        assert one.log() == done.log() and not since_step(entries)


def test_no_sample_is_begun_where_a_step_has_all_its_passes() -> None:
    state = init_stage(SLICES, 1)
    one = StageWork(SLICES, EPOCH, 21, state, HYPER, batch, in_flight=1)
    theirs = worked()[1]
    replay(one, theirs[:2])
    with pytest.raises(StageError, match="a step takes 1 passes, and so many were made"):
        one.do(theirs[2])
    replay(one, [Entry(STEP, 0), theirs[2]])


def test_what_is_executed_is_of_this_epoch_and_from_the_stage_beside() -> None:
    first, last = work(11), work(21)
    with pytest.raises(StageError, match="not handed out"):
        first.do(Entry(FORWARD, 44))
    with pytest.raises(StageError, match="not one of the stage beside"):
        first.do(Entry(FORWARD, 40, 21, b"s", b"code"))
    with pytest.raises(StageError, match="not one of the stage beside"):
        last.do(Entry(FORWARD, 40))
    with pytest.raises(WireError):
        last.do(Entry(FORWARD, 40, 11, b"s", b"no code"))
    with pytest.raises(StageError, match="should be step 0"):
        first.do(Entry(STEP, 1))
    assert not first.events and not last.events


def test_a_sample_begins_at_one_miner_of_the_first_stage_alone() -> None:
    """Else one could begin everybody's samples, and the others' would be refused as known."""
    [other] = set(EPOCH.stages[0]) - {BEGINS[43]}
    with pytest.raises(StageError, match="sample 43 begins at another miner"):
        work(other).do(Entry(FORWARD, 43))
    with pytest.raises(StageError, match="not one of the stage beside"):
        work(21).do(Entry(FORWARD, 43, other, b"s", b"code"))


def reading(found: list[Entry]) -> EntryReader:
    def begin() -> Callable[[Entry], None]:
        found.clear()
        return found.append

    return EntryReader(begin, max_message=1_000)


def test_after_a_crash_the_whole_entries_are_left() -> None:
    ours, *_ = worked()
    raw = Inbox(tuple(ours)).to_bytes()
    for cut in range(len(raw) - ours[-1].size, len(raw)):
        kept: list[Entry] = []
        reader = reading(kept)
        reader.write(raw[:cut])
        reader.check(whole=False)
        assert kept == ours[:-1] and Inbox(tuple(kept)).to_bytes() == raw[: reader.end]
    with pytest.raises(PayloadError, match="in the middle of entry 3"):
        Inbox.from_bytes(raw[:-1], max_message=1_000)


@pytest.mark.parametrize("piece", [1, 7, 18, 33, 1_000, 1 << 20])
def test_an_inbox_may_come_in_pieces_and_begin_anew(piece: int) -> None:
    ours, theirs, *_ = worked()
    found: list[Entry] = []
    reader = reading(found)
    reader.write(b"not an inbox")
    for entries in (ours, theirs):
        reader.begin()
        raw = Inbox(tuple(entries)).to_bytes()
        for at in range(0, len(raw), piece):
            reader.write(memoryview(raw)[at : at + piece])
        reader.check()
        assert found == entries and reader.count == len(entries) and reader.end == len(raw)


def test_bytes_that_may_be_anybodys_are_not_complained_of() -> None:
    """A store that lies would else have a miner look as if it showed no inbox. It is said when the
    bytes are verified, and what follows the wrong ones is not read."""
    raw = Inbox(tuple(worked()[0])).to_bytes()
    found: list[Entry] = []
    reader = reading(found)
    reader.write(raw)
    count = reader.count
    reader.write(b"\x03" + bytes(32))
    reader.write(raw[18:])
    assert len(found) == count
    with pytest.raises(PayloadError, match=f"Entry {count} of the inbox is of kind 3"):
        reader.check()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda raw: b"x" + raw[1:], "no inbox"),
        (lambda raw: raw[:18] + b"\x03" + raw[19:], "of kind 3"),
    ],
)
def test_a_file_that_is_no_inbox_is_refused(change: Callable[[bytes], bytes], why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        Inbox.from_bytes(change(Inbox(tuple(worked()[0])).to_bytes()), max_message=1_000)


def test_an_inbox_names_no_more_than_it_may() -> None:
    raw = Inbox(tuple(worked()[0])).to_bytes()
    with pytest.raises(PayloadError, match="at most 2048, 65 and 10 are allowed"):
        Inbox.from_bytes(raw, max_message=10)
    with pytest.raises(PayloadError, match="more than 2 entries"):
        Inbox.from_bytes(raw, max_message=1_000, max_entries=2)


def test_an_epoch_draws_each_sample_one_first_miner_of_each_stage() -> None:
    for stage, miners in enumerate(EPOCH.stages):
        due = [sample for miner in miners for sample in EPOCH.due(miner)]
        assert sorted(due) == list(EPOCH.samples)
        assert all(sorted(EPOCH.candidates(s, stage)) == list(miners) for s in EPOCH.samples)
    assert EPOCH.stage_of(99) is None and EPOCH.due(99) == []
    with pytest.raises(ValueError, match="Every stage"):
        Epoch(1, 1, b"\0" * 32, ((1,), ()), range(1))
    with pytest.raises(ValueError, match="holds one stage"):
        Epoch(1, 1, b"\0" * 32, ((1,), (1,)), range(1))
