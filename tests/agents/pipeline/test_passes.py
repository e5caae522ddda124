# SPDX-License-Identifier: Apache-2.0
"""A pass counts for the first candidate that was there, unless the sample's way broke beside it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Event, Kind, MinerLog, Origin
from agents.pipeline.passes import counted, entered

STAGES = ((1, 2, 3), (4, 5))
EPOCH = Epoch(job=1, number=6, seed=bytes(range(32)), stages=STAGES, samples=range(10, 18))


def log(miner: int, steps: Iterable[Iterable[int]], tail: Iterable[int] = ()) -> MinerLog:
    """Samples of each step, and those that went back after the last one."""
    state, events = keccak(b"start"), []
    stage = EPOCH.stage_of(miner)
    assert stage is not None
    for number, samples in enumerate([*steps, tail]):
        passes = [(kind, one) for one in samples for kind in (Kind.FORWARD, Kind.BACKWARD)]
        events += [Event(kind, one, bytes(32), bytes(32)) for kind, one in passes]
        if passes and samples is not tail:
            events.append(Event(Kind.STEP, number, state, state := keccak(state)))
    return MinerLog(Origin(miner, EPOCH.number, stage, keccak(b"start")), tuple(events))


def did(samples: set[int], miner: int) -> MinerLog:
    return log(miner, [sorted(samples)] if samples else [])


CLAIMS = st.fixed_dictionaries(
    {miner: st.none() | st.sets(st.integers(8, 19)) for stage in STAGES for miner in stage}
)


# Samples of which miner 1 is the first at stage 0, then 3, and 4 is at stage 1.
FIRST, SECOND = 11, 12
ELSEWHERE = 13  # miner 2 is


def test_the_order_is_what_these_tests_take_it_for() -> None:
    for sample in (FIRST, SECOND):
        assert EPOCH.candidates(sample, 0) == (1, 3, 2) and EPOCH.candidates(sample, 1) == (4, 5)
    assert EPOCH.candidates(ELSEWHERE, 0)[0] == 2


@given(CLAIMS)
def test_a_pass_counts_where_the_miner_and_the_next_of_the_way_have_it(
    claims: dict[int, set[int] | None],
) -> None:
    """Here who lacks the backward lacks the forward as well, so each break is before a miner."""
    found = counted(EPOCH, {m: None if d is None else did(d, m) for m, d in claims.items()})
    for sample in EPOCH.samples:
        paid = {miner for miner, samples in found.items() if sample in samples}
        first = [
            next((m for m in EPOCH.candidates(sample, stage) if claims[m]), None)
            for stage in range(len(STAGES))
        ]
        way = [m for m in first if m is not None]
        has = [sample in (claims[m] or ()) for m in way]
        wanted = {m for m, *both in zip(way, has, [*has[1:], True], strict=False) if all(both)}
        assert paid == (wanted if len(way) == len(STAGES) else set())


LINE = Epoch(
    job=1, number=6, seed=bytes(32), stages=((1,), (2,), (3,), (4,)), samples=range(10, 12)
)


def line_log(miner: int, events: str) -> MinerLog:
    """Sample 11's forward, backward and step by their initials, and all of sample 10's before."""
    state, found = keccak(b"start"), []
    for number, letters in ((10, "FBS"), (11, events)):
        for letter in letters:
            if letter == "S":
                found.append(Event(Kind.STEP, number - 10, state, state := keccak(state)))
            else:
                kind = Kind.FORWARD if letter == "F" else Kind.BACKWARD
                found.append(Event(kind, number, bytes(32), bytes(32)))
    return MinerLog(Origin(miner, LINE.number, miner - 1, keccak(b"start")), tuple(found))


@pytest.mark.parametrize(
    ("logs", "paid"),
    [
        (("FBS", "FBS", "FBS", "FBS"), {1, 2, 3, 4}),
        # The third refused it, or the second passed it by; another did it in its place.
        (("FBS", "FBS", "", "FBS"), {1, 4}),
        # The fourth let go of the gradient on its way back, or the third of the sample. Or the
        # second had the fourth take it from another, of whom it has its own gradient.
        (("FBS", "FBS", "F", "FBS"), {1}),
        (("FBS", "F", "FBS", "FBS"), {4}),
        (("F", "F", "FBS", "FBS"), {4}),
        (("FBS", "F", "F", "FBS"), set()),
        (("F", "F", "F", "FBS"), set()),
        # What it had back and dropped before its step is its own.
        (("FBS", "FB", "FBS", "FBS"), {1, 3, 4}),
        (("", "FBS", "FBS", "FBS"), {2, 3, 4}),
        (("FBS", "FBS", "FBS", ""), {1, 2}),
        (("FBS", "", "FBS", ""), set()),
    ],
)
def test_neither_beside_a_break_is_paid_and_all_others_are(
    logs: tuple[str, ...], paid: set[int]
) -> None:
    found = counted(LINE, {at + 1: line_log(at + 1, events) for at, events in enumerate(logs)})
    assert all(10 in samples for samples in found.values())
    assert {miner for miner, samples in found.items() if 11 in samples} == paid


@given(CLAIMS, st.sampled_from([1, 4]), st.integers(10, 17))
def test_who_repeats_a_sample_of_another_gains_and_takes_nothing(
    claims: dict[int, set[int] | None], miner: int, sample: int
) -> None:
    """As long as the other is there. `miner` is, with or without the sample."""
    own = {18} | (claims[miner] or set())  # 18 is not handed out: it only makes a step
    stage = EPOCH.stage_of(miner)
    assert stage is not None
    others = {m: claims[m] for m in EPOCH.candidates(sample, stage) if m != miner}
    asked = [m for m in EPOCH.candidates(sample, stage) if m == miner or others[m]]
    logs = {m: None if d is None else did(d, m) for m, d in claims.items()}
    without = counted(EPOCH, {**logs, miner: did(own - {sample}, miner)})
    repeated = counted(EPOCH, {**logs, miner: did(own | {sample}, miner)})
    if asked[0] != miner:
        assert repeated == without


def test_who_passes_by_a_miner_that_is_there_gains_nothing() -> None:
    logs = {3: did({FIRST}, 3), 4: did({FIRST}, 4)}
    assert counted(EPOCH, logs) == {3: (FIRST,), 4: (FIRST,)}  # miner 1 died
    # Miner 1 was there. Nobody is before it, so the next stage's miner did nothing wrong.
    assert counted(EPOCH, {**logs, 1: did({ELSEWHERE}, 1)}) == {1: (), 3: (), 4: (FIRST,)}


def test_a_backward_after_the_last_step_counts_for_nobody() -> None:
    torn = log(1, [[FIRST]], tail=[SECOND])
    assert entered(torn) == {FIRST}
    beside = {4: did({FIRST, SECOND}, 4)}
    assert counted(EPOCH, {1: torn, **beside}) == {1: (FIRST,), 4: (FIRST, SECOND)}


@pytest.mark.parametrize("absent", [None, log(1, []), log(1, [], tail=[FIRST])])
def test_a_miner_without_a_step_is_not_there(absent: MinerLog | None) -> None:
    logs = {1: absent, 3: did({FIRST}, 3), 4: did({FIRST}, 4)}
    assert counted(EPOCH, logs) == {1: (), 3: (FIRST,), 4: (FIRST,)}


def test_who_revealed_and_shows_nothing_was_there_and_did_nothing() -> None:
    """Miner 1 is the first of the sample. What 3 did in its place counts for nobody, and 4, who is
    behind the one that follows it, is not beside the break."""
    logs = {3: did({FIRST}, 3), 4: did({FIRST}, 4)}
    assert counted(EPOCH, logs) == {3: (FIRST,), 4: (FIRST,)}
    assert counted(EPOCH, logs, [1]) == {3: (), 4: (FIRST,)}
    # The last stage's first candidate shows nothing: who had handed it the sample is beside it.
    both = {1: did({FIRST}, 1), 5: did({FIRST}, 5)}
    assert counted(EPOCH, both, [4]) == {1: (), 5: ()}
    assert counted(EPOCH, {**both, 4: did({FIRST}, 4)}, [4]) == {1: (FIRST,), 4: (FIRST,), 5: ()}


def test_a_stage_of_which_nobody_shows_a_log_voids_the_epoch_whoever_revealed() -> None:
    assert counted(EPOCH, {1: did({FIRST}, 1)}, [4, 5]) == {1: ()}


def test_where_nobody_of_a_stage_is_there_no_sample_counts() -> None:
    assert counted(EPOCH, {1: did({*EPOCH.samples}, 1)}) == {1: ()}


@pytest.mark.parametrize("miner", [2, 4, 9])
def test_a_log_of_somebody_else_is_refused(miner: int) -> None:
    with pytest.raises(ValueError, match=f"given for miner {miner} is one of miner 1, stage 0"):
        counted(EPOCH, {miner: log(1, [[10]])})
