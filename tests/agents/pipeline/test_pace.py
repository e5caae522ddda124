# SPDX-License-Identifier: Apache-2.0
"""A miner's weight in the draw: the formula by hand, and what no statement can do to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline import pace
from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Event, Kind, MinerLog, Origin
from agents.pipeline.pace import FLOOR, FULL, START, Showed, weights_of
from agents.pipeline.passes import counted

STAGES = ((1, 2, 3), (4, 5))
MINERS = (1, 2, 3, 4, 5)
EPOCH = Epoch(job=1, number=6, seed=bytes(range(32)), stages=STAGES, samples=range(60))
WAYS = {sample: EPOCH.route(sample) for sample in EPOCH.samples}
EVEN = dict.fromkeys(MINERS, FULL)


def honest(slower: dict[int, int] | None = None) -> dict[int, Showed]:
    """Each does what it is drawn for, in 10 ms a forward, times `slower`."""
    found = {}
    for miner in MINERS:
        own = {sample for sample, way in WAYS.items() if miner in way}
        found[miner] = Showed(own, own, 30 * len(own) * (slower or {}).get(miner, 1))
    return found


def weights_after(
    epoch: Epoch, before: dict[int, int], showed: dict[int, Showed], costs: tuple[int, ...] = (1, 1)
) -> dict[int, int]:
    """By default a sample costs both stages the same."""
    return pace.weights_after(epoch, before, showed, costs)


def moved(before: int, to: int) -> int:
    return max(FLOOR, (3 * before + to) // 4)


def test_who_is_as_fast_as_its_stage_and_fails_nobody_has_the_full_weight() -> None:
    assert weights_after(EPOCH, EVEN, honest()) == EVEN
    assert weights_after(EPOCH, {}, honest()) == dict.fromkeys(MINERS, moved(START, FULL))


def test_a_newcomer_is_at_nine_tenths_after_six_rounds() -> None:
    known = {**EVEN, 2: START}
    for _ in range(6):
        known = weights_after(EPOCH, known, honest())
    assert known[1] == FULL and 0.9 * FULL < known[2] < 0.92 * FULL
    del known[2]
    assert dict(weights_of(MINERS, known)) == {**EVEN, 2: START}


def test_who_has_two_thirds_of_the_usual_pace_has_the_full_weight_and_slower_ones_less() -> None:
    """The usual pace is the slowest of three if two are slow, and of two if one is."""
    slow = honest({2: 2})
    slow[2] = replace(slow[2], busy_ms=45 * len(slow[2].entered))
    assert weights_after(EPOCH, EVEN, slow) == EVEN
    for times, square in ((2, FULL * 9 // 16), (3, FULL // 4)):
        found = weights_after(EPOCH, EVEN, honest({2: times}))
        assert found == {**EVEN, 2: moved(FULL, square)}
        assert weights_after(EPOCH, EVEN, honest({4: times})) == EVEN
        assert weights_after(EPOCH, EVEN, honest({1: times, 2: times})) == EVEN
        for _ in range(40):
            found = weights_after(EPOCH, found, honest({2: times}))
        assert found[2] == pytest.approx(square, abs=100)


def test_most_of_a_stage_does_not_make_the_pace_that_is_usual_there() -> None:
    """Miners 1 and 2 state a tenth of their time. All miners' median is that of 3, 4 and 5."""
    boasting = {m: replace(one, busy_ms=one.busy_ms // 10) for m, one in honest().items()}
    lying = {**honest(), 1: boasting[1], 2: boasting[2]}
    assert weights_after(EPOCH, EVEN, lying) == EVEN
    most = {**lying, 4: boasting[4]}
    assert weights_after(EPOCH, EVEN, most) == {**EVEN, 3: moved(FULL, FULL * 9 // 400)}


def test_a_stage_that_costs_more_is_not_slow_for_that() -> None:
    """Samples take stage 1 three times as long. Reckoned so, most of stage 0 can't move what is
    usual. Reckoned alike, nobody is slow either, because nobody is slower than its own stage."""
    costly = honest({4: 3, 5: 3})
    for costs in ((1, 3), (10, 30), (1, 1), (3, 1)):
        assert weights_after(EPOCH, EVEN, costly, costs) == EVEN
    lying = {**costly, **{m: replace(costly[m], busy_ms=1) for m in (1, 2)}}
    assert weights_after(EPOCH, EVEN, lying, (1, 3)) == EVEN
    assert weights_after(EPOCH, EVEN, lying, (1, 1)) == EVEN
    assert weights_after(EPOCH, EVEN, lying, (1, 9))[3] == moved(FULL, FULL // 4)


@given(
    st.fixed_dictionaries({m: st.integers(1, 50) for m in MINERS}),
    st.sampled_from(MINERS),
    st.none() | st.integers(1, 10**9),
)
def test_no_statement_of_one_miner_gives_it_more_than_usual_or_another_less_than_its_stage_does(
    slower: dict[int, int], liar: int, told: int | None
) -> None:
    """Nobody is slower than beside the median of its stage or, of the liar's, the fastest there."""
    true = honest(slower)
    lying = weights_after(EPOCH, EVEN, {**true, liar: replace(true[liar], busy_ms=told)})
    assert lying[liar] <= FULL
    for stage in STAGES:
        for miner in {*stage} - {liar}:
            times = sorted(slower[m] for m in stage if m != liar)
            least = times[0] if liar in stage else times[len(times) // 2]
            square = min(FULL, FULL * 9 * least**2 // (4 * slower[miner] ** 2))
            assert lying[miner] >= moved(FULL, square)


def test_both_ends_of_a_break_answer_for_it_and_nobody_else() -> None:
    done = honest()
    for sample, (first, last) in list(WAYS.items())[:8]:
        own = len(done[last].forwards), len(done[first].forwards)
        down = {
            first: moved(FULL, FULL - FULL // own[1] - 1),
            last: moved(FULL, FULL * (own[0] - 1) // own[0]),
        }
        never = {m: replace(done[m], entered={*done[m].entered} - {sample}) for m in (first, last)}
        lost = {
            # What the last stage never had, it had and did not do, and the first never got back.
            "not handed on": {
                **never,
                last: replace(never[last], forwards={*done[last].forwards} - {sample}),
            },
            "no gradient": {first: never[first]},
        }
        for what, change in lost.items():
            found = weights_after(EPOCH, EVEN, {**done, **_same_pace(done, change)})
            for miner in MINERS:
                assert found[miner] == pytest.approx(down.get(miner, FULL), abs=2), what
        # A gradient that the last stage never made is its own affair.
        alone = weights_after(EPOCH, EVEN, {**done, **_same_pace(done, never)})
        assert alone[last] < FULL and all(alone[m] == FULL for m in {*MINERS} - {last})


def test_who_took_its_gradient_elsewhere_answers_for_the_miner_that_has_none() -> None:
    """As do that miner and the next: any of the three may have begun it."""
    stages = ((1, 2), (3, 4), (5, 6), (7, 8))
    epoch = Epoch(job=1, number=2, seed=bytes(32), stages=stages, samples=range(20))
    miners = [miner for stage in stages for miner in stage]
    ways = {sample: epoch.route(sample) for sample in epoch.samples}
    own = {m: {sample for sample, way in ways.items() if m in way} for m in miners}
    without, way = 0, ways[0]
    for lacks, answer in (
        *(((1,), (0, 1, 2)), ((0, 1), (1, 2)), ((2,), (1, 2, 3)), ((3,), (2, 3))),
        ((1, 2), (0, 1, 2, 3)),  # the way broke twice
    ):
        missing = {way[stage] for stage in lacks}
        showed = {m: Showed(own[m], own[m] - ({without} if m in missing else set())) for m in own}
        found = weights_after(epoch, dict.fromkeys(miners, FULL), showed, (1,) * 4)
        assert {m for m in miners if found[m] < FULL} == {way[stage] for stage in answer}


@pytest.mark.parametrize("at", range(4))
def test_a_backward_that_entered_no_step_is_its_miners_own_failure(at: int) -> None:
    """As it is its pass alone that doesn't count: those beside it did all that they could."""
    line = Epoch(1, 2, bytes(32), ((1,), (2,), (3,), (4,)), range(20))
    own = {*line.samples}
    showed = {m: Showed(own, own) for m in range(1, 5)}
    showed[at + 1] = Showed(own, own - {0}, dropped={0})
    found = weights_after(line, dict.fromkeys(showed, FULL), showed, (1,) * 4)
    assert [m for m in found if found[m] < FULL] == [at + 1]


@pytest.mark.parametrize("each", product(("", "F", "FB", "FBS"), repeat=4))
def test_who_answers_for_a_sample_is_not_paid_for_it(each: tuple[str, ...]) -> None:
    """Reliability and pay ask one rule: who has a pass that doesn't count answers for the sample,
    and who has one that counts does not."""
    line = Epoch(1, 2, bytes(32), ((1,), (2,), (3,), (4,)), range(2))
    logs = {at + 1: line_log(line, at, events) for at, events in enumerate(each)}
    showed = {miner: Showed.of(log, None) for miner, log in logs.items()}
    found = weights_after(line, dict.fromkeys(logs, FULL), showed, (1,) * 4)
    paid = {miner for miner, samples in counted(line, logs).items() if 1 in samples}
    for miner, events in zip(logs, each, strict=True):
        assert miner not in paid or found[miner] == FULL
        assert miner in paid or not events.endswith("S") or found[miner] < FULL


def line_log(epoch: Epoch, stage: int, events: str) -> MinerLog:
    """All of sample 0, and these events of sample 1 by their initials."""
    kinds = {"F": Kind.FORWARD, "B": Kind.BACKWARD, "S": Kind.STEP}
    found = list[Event]()
    for sample, letters in enumerate(("FBS", events)):
        found += [Event(kinds[one], sample, bytes(32), bytes(32)) for one in letters]
    return MinerLog(Origin(stage + 1, epoch.number, stage, bytes(32)), tuple(found))


def _same_pace(done: dict[int, Showed], change: dict[int, Showed]) -> dict[int, Showed]:
    """What did less was busy for less."""
    return {
        miner: replace(one, busy_ms=10 * (len(one.forwards) + 2 * len(one.entered)))
        for miner, one in change.items()
    }


def test_who_does_not_begin_its_sample_answers_alone() -> None:
    sample, (first, last) = 0, WAYS[0]
    done = honest()
    without = {
        m: Showed({*done[m].forwards} - {sample}, {*done[m].entered} - {sample})
        for m in (first, last)
    }
    found = weights_after(EPOCH, EVEN, {**done, **without})
    assert found[first] < FULL and all(found[m] == FULL for m in {*MINERS} - {first})


@pytest.mark.parametrize("shown", [None, Showed((), ()), Showed({0}, ())])
def test_who_shows_no_work_goes_towards_nothing_and_those_who_did_it_lose_nothing(
    shown: Showed | None,
) -> None:
    done = honest()
    for sample, way in WAYS.items():
        if way[0] == 1:
            stand_in = EPOCH.route(sample, {1})[0]
            own = {*done[stand_in].forwards, sample}
            done[stand_in] = Showed(own, own, 30 * len(own))
    del done[1]
    if shown is not None:
        done[1] = shown
    found = weights_after(EPOCH, EVEN, done)
    assert found == {**EVEN, 1: moved(FULL, 0)}
    for _ in range(10):
        found = weights_after(EPOCH, found, done)
    assert found[1] == FLOOR


def test_a_miner_that_was_drawn_for_nothing_keeps_its_weight() -> None:
    short = replace(EPOCH, samples=range(1))
    done = {m: Showed({0}, {0}, 30) for m in WAYS[0]}
    known = {m: 400_000 + m for m in MINERS}
    found = weights_after(short, known, done)
    for miner in MINERS:
        assert found[miner] == (moved(known[miner], FULL) if miner in WAYS[0] else known[miner])


def test_who_is_away_comes_to_be_as_one_that_is_new() -> None:
    known = {**EVEN, 7: FLOOR, 8: FULL}
    low, high = [FLOOR], [FULL]
    for _ in range(16):
        known = weights_after(EPOCH, known, honest())
        low.append(known.get(7, START))
        high.append(known.get(8, START))
    assert (low[1], high[1]) == (moved(FLOOR, START), moved(FULL, START))
    assert low == sorted(low) and high == sorted(high, reverse=True)
    assert known.keys() == {*MINERS}, "it is forgotten"


def test_what_a_log_shows_and_its_pace() -> None:
    passes = [(Kind.FORWARD, 3), (Kind.FORWARD, 4), (Kind.BACKWARD, 3), (Kind.BACKWARD, 4)]
    after = [(Kind.FORWARD, 5), (Kind.BACKWARD, 5)]
    events = [Event(kind, sample, bytes(32), bytes(32)) for kind, sample in (*passes, *after)]
    events.insert(len(passes), Event(Kind.STEP, 0, bytes(32), bytes(32)))
    log = MinerLog(Origin(1, 6, 0, bytes(32)), tuple(events))
    assert Showed.of(log, 14) == Showed({3, 4, 5}, {3, 4}, 14, {5})
    assert Showed.of(log, 14).pace == pytest.approx(0.5)
    assert Showed.of(log, None).pace is None and Showed((), (), 5).pace is None
