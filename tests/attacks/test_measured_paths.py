# SPDX-License-Identifier: Apache-2.0
"""Attacks on paths that are drawn by what was measured: what they win, against honest work.

Five stages of five miners share 1,000 ZOO an epoch, 40 each, and half of a miner's pay is what its
work costs. Twenty epochs, each drawn by the weights that the one before gave. Profits are ZOO an
epoch, pay less the cost of the work that was done, beside those of the same miners working honestly
on the same machines; `pytest -s` prints them. No chain is needed: pay and weights follow from who
did what.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import pytest
from eth_utils import keccak

from agents.pipeline import pace, passes
from agents.pipeline.epoch import Epoch
from agents.pipeline.pace import FLOOR, FULL, START, Showed, weights_after, weights_of
from agents.pipeline.passes import unbroken

STAGES = tuple(tuple(range(10 * stage, 10 * stage + 5)) for stage in range(5))
MINERS = [miner for stage in STAGES for miner in stage]
POT, PAY, ROUNDS, SAMPLES = 1000.0, 40.0, 20, 100
FAIR = SAMPLES // 5  # samples of a miner, where all count alike
COST = PAY / 2 / FAIR  # of a pass

# A sample's way -> where it breaks: the miner at this place lacks its forward; None if it does not.
# A place below 0 is one from which the backward of the miner at ~place is missing.
Breaks = Callable[[int, Sequence[int], "Played"], "int | None"]
States = Callable[[int], float]  # a miner -> how much longer than the others it says it takes


@dataclass
class Played:
    """`profit`: an epoch's, by miner. `lost`: share of the samples that count for nobody."""

    profit: dict[int, float] = field(default_factory=lambda: dict.fromkeys(MINERS, 0.0))
    weights: dict[int, int] = field(default_factory=dict)
    lost: float = 0.0
    had: dict[int, int] = field(default_factory=dict)  # samples that came, in this epoch
    lots: random.Random = field(default_factory=lambda: random.Random(1))

    def of(self, friends: Collection[int]) -> float:
        return sum(self.profit[miner] for miner in friends)


def never(sample: int, way: Sequence[int], now: Played) -> int | None:
    return None


def alike(miner: int) -> float:
    return 1.0


def play(
    breaks: Breaks = never,
    states: States = alike,
    measured: bool = True,
    renamed: Callable[[int], Collection[int]] = lambda number: (),
    away: Collection[int] = (),
    costs: Sequence[int] = (1,) * 5,
    around: Breaks = never,
) -> Played:
    """`states`: what each says of its pace. `renamed`: who comes under a new name after a round.
    `away`: who shows no log. `costs`: of the stages' samples, which are alike, as is reckoned.
    `around`: the place of a miner that gets no gradient, while all others do."""
    played = Played()
    for number in range(ROUNDS):
        seed = keccak(b"epoch %d" % number)
        weights = weights_of(MINERS, played.weights) if measured else ()
        epoch = Epoch(1, number + 1, seed, STAGES, range(SAMPLES), weights)
        forwards = {miner: set[int]() for miner in MINERS}
        entered = {miner: set[int]() for miner in MINERS}
        paid, done = dict.fromkeys(MINERS, 0), 0
        played.had = dict.fromkeys(MINERS, 0)
        for sample in epoch.samples:
            way = epoch.route(sample, away)
            place = breaks(sample, way, played)
            skipped = around(sample, way, played)
            for at, miner in enumerate(way):
                played.had[miner] += 1
                if place is None or place < 0 or at < place:
                    forwards[miner].add(sample)
                if at != skipped and (place is None or at > ~place >= 0):
                    entered[miner].add(sample)
            for miner in unbroken(sample, way, forwards, entered):
                paid[miner] += sample in entered[miner]
            done += place is None and skipped is None
        played.lost += (1 - done / SAMPLES) / ROUNDS
        showed = {}
        for miner in {*MINERS} - {*away}:
            work = len(forwards[miner]) + 2 * len(entered[miner])
            played.profit[miner] += POT * paid[miner] / (5 * SAMPLES) / ROUNDS
            played.profit[miner] -= COST * work / 3 / ROUNDS
            told = max(1, round(1000 * work * states(miner)))
            showed[miner] = Showed(forwards[miner], entered[miner], told)
        played.weights = weights_after(epoch, played.weights, showed, costs)
        for miner in renamed(number):
            del played.weights[miner]
    return played


@cache
def honest(measured: bool = True) -> Played:
    return play(measured=measured)


def won(attack: str, played: Played, friends: Collection[int], fair: Played | None = None) -> float:
    """The profit beside honest work, printed."""
    profit = played.of(friends) - (fair or honest()).of(friends)
    least = min(played.weights.values()) / FULL
    print(f"{attack}: {profit:+.1f} ZOO; {played.lost:.1%} lost; least weight {least:.2f}")
    return profit


def test_honest_miners_keep_the_full_weight() -> None:
    """Control: nobody gains by the draw, and nothing is lost."""
    found = honest()
    assert found.lost == 0 and min(found.weights.values()) > 0.99 * FULL
    for miner in MINERS:
        assert found.profit[miner] == pytest.approx(PAY / 2, abs=5)
        assert found.profit[miner] == honest(False).profit[miner]


# -- what a miner says of its pace ----------------------------------------------------------------


def boast(friends: Collection[int], times: float = 1000) -> States:
    return lambda miner: 1 / times if miner in friends else 1.0


@pytest.mark.parametrize(
    "staff",
    [
        *((1, 0, 0, 0, 0), (1, 1, 1, 1, 0), (2, 2, 2, 0, 0), (2, 2, 2, 2, 2)),
        *((3, 0, 0, 0, 0), (3, 3, 0, 0, 0), (4, 4, 4, 0, 0), (3, 3, 3, 3, 0)),
    ],
)
def test_who_states_too_high_a_pace_gains_nothing(staff: Sequence[int]) -> None:
    """Up to twelve of all 25 miners, also where they are most of a stage."""
    friends = friends_of(staff)
    boasting = play(states=boast(friends))
    assert boasting.weights == honest().weights
    assert won(f"{len(friends)} of 25 seats state 1,000 times their pace", boasting, friends) == 0


def test_were_a_stages_own_median_all_that_counts_most_of_it_would_gain() -> None:
    """The control: a stage that is reckoned to cost next to nothing has its own median alone."""
    friends = friends_of((3, 0, 0, 0, 0))
    boasting = play(states=boast(friends), costs=(1, *(1_000_000,) * 4))
    assert 15 < won("3 of 5 seats boast, judged in their stage alone", boasting, friends) < 35
    assert all(FLOOR <= boasting.weights[m] < FLOOR + 5_000 for m in STAGES[0][3:])


@pytest.mark.parametrize(("reckoned", "most"), [(90, 0), (67, 0), (50, 15), (125, 0)])
def test_most_of_a_stage_that_is_reckoned_too_cheap_gains_little(reckoned: int, most: int) -> None:
    """Where all state the truth a wrong cost changes nothing."""
    costs = (reckoned, *(100,) * 4)
    friends = friends_of((3, 0, 0, 0, 0))
    fair, boasting = play(costs=costs), play(states=boast(friends), costs=costs)
    assert fair.weights == honest().weights
    profit = won(f"3 of 5 seats boast, their stage costs {reckoned} %", boasting, friends, fair)
    assert 0 <= profit <= most


def test_most_of_all_miners_can_make_the_others_look_slow__not_defended() -> None:
    friends = friends_of((3, 3, 3, 3, 1))
    assert 60 < won("13 of 25 seats boast", play(states=boast(friends)), friends) < 120


def boast_where_machines_differ(staff: Sequence[int], most: float) -> list[float]:
    """What it wins where machines are up to `most` times as slow as the fastest, for four draws."""
    friends = friends_of(staff)
    profits = []
    for seed in range(4):
        lots = random.Random(seed)
        slower = {miner: lots.uniform(1, most) for miner in MINERS}
        truth = play(states=slower.__getitem__)
        told = {m: time / (1000 if m in friends else 1) for m, time in slower.items()}
        lie = play(states=told.__getitem__)
        name = f"{len(friends)} of 25 seats boast, machines are 1 to {most} times as slow"
        profits.append(won(name, lie, friends, truth))
    return profits


@pytest.mark.parametrize("staff", [(1, 1, 1, 1, 0), (2, 2, 2, 2, 0), (2, 2, 2, 2, 2)])
def test_where_machines_differ_by_twice_boasting_gains_next_to_nothing(
    staff: Sequence[int],
) -> None:
    assert max(boast_where_machines_differ(staff, 2)) < 3


def test_where_machines_differ_by_four_times_boasting_hides_a_slow_one__not_defended() -> None:
    """It has what equal paths would give it, and others look slower than they are."""
    assert 2 < max(boast_where_machines_differ((1, 1, 1, 1, 0), 4)) < 6
    assert 10 < max(boast_where_machines_differ((2, 2, 2, 2, 2), 4)) < 50


def test_without_slack_boasting_would_pay_where_machines_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control of the rule that two thirds of the usual pace are enough."""
    monkeypatch.setattr(pace, "SLACK", Fraction(1))
    assert max(boast_where_machines_differ((1, 1, 1, 1, 0), 2)) > 5
    assert max(boast_where_machines_differ((2, 2, 2, 2, 2), 2)) > 20


def test_were_a_higher_pace_than_usual_believed_boasting_would_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control of the rule that no pace counts for more than the usual one."""
    friends = friends_of((1, 1, 1, 1, 0))
    monkeypatch.setattr(pace, "MOST", 2 * pace.SLACK**2)
    boasting = play(states=boast(friends))
    name = "4 of 25 seats boast, twice the weight is believed"
    assert 40 < won(name, boasting, friends) < 70


@pytest.mark.parametrize("floor", [FULL // 8, FULL // 2])
def test_another_floor_moves_what_most_of_all_gain_and_what_a_griefer_costs(
    floor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lower one gives more to the most of all, a higher one lets a griefer cost more."""
    usual = play(states=boast(friends_of((3, 3, 3, 3, 1))))
    monkeypatch.setattr(pace, "FLOOR", floor)
    friends = friends_of((3, 3, 3, 3, 1))
    found = play(states=boast(friends))
    won(f"the least weight were {floor / FULL:.3f}: 13 of 25 seats boast", found, friends)
    griefed = play(overrun(1))
    won("    a miner does one sample", griefed, (SLOW,))
    more = found.of(friends) > usual.of(friends) + 5
    assert (more, griefed.lost > 0.09) == (floor < FLOOR, floor > FLOOR)


def test_who_states_too_low_a_pace_is_paid_less() -> None:
    (lazy,) = friends = friends_of((1, 0, 0, 0, 0))
    profit = won("states a tenth of its pace", play(states=lambda m: 1 + 9 * (m == lazy)), friends)
    assert -PAY / 2 < profit < -8


# -- a slow miner that says that it is not --------------------------------------------------------

SLOW = STAGES[2][0]


def overrun(most: int) -> Breaks:
    """The slow miner does the first `most` samples of an epoch, and lets the others' time pass."""

    def breaks(sample: int, way: Sequence[int], now: Played) -> int | None:
        return 2 if way[2] == SLOW and now.had[SLOW] >= most else None

    return breaks


def test_a_slow_miner_that_boasts_loses_samples_until_its_reliability_has_fallen() -> None:
    """It does 7 samples in an epoch, a third of what the others could. Truth: it says so."""
    slow = overrun(7)
    alike = play(slow, measured=False)
    truth = play(slow, states=lambda m: 3.0 if m == SLOW else 1.0)
    lie = play(slow)
    won("three times slower, says so", truth, (SLOW,))
    assert won("the same, boasts", lie, (SLOW,), truth) < 2
    won("the same, equal paths", alike, (SLOW,), honest(False))
    assert truth.lost < 0.04 and lie.lost < 0.08 < 0.11 < alike.lost
    assert lie.weights[SLOW] < 0.7 * FULL


def test_a_griefer_that_takes_samples_and_drops_them_costs_others_less_each_round() -> None:
    """It does one sample, so that it is there."""
    one = overrun(1)
    alike, measured = play(one, measured=False), play(one)
    assert won("does one sample, equal paths", alike, (SLOW,), honest(False)) < -PAY / 3
    assert won("does one sample, measured paths", measured, (SLOW,)) < -PAY / 3
    assert alike.lost > 0.17 and measured.lost < 0.09
    assert measured.weights[SLOW] == FLOOR


def test_free_rider_that_shows_no_log_is_drawn_less_and_paid_nothing() -> None:
    away = play(away=(SLOW,))
    assert won("shows no log", away, (SLOW,)) == pytest.approx(-honest().of((SLOW,)))
    assert away.weights[SLOW] == FLOOR and away.lost == 0


# -- who drops a rival's samples so that it is drawn less -----------------------------------------

FRIEND, RIVAL = STAGES[2][1], STAGES[2][2]


def starve(droppers: Collection[int], blamed: bool) -> Breaks:
    """What a dropper has of the rival's is lost. `blamed`: between the two; else the break is
    behind the rival, by whatever means."""

    def breaks(sample: int, way: Sequence[int], now: Played) -> int | None:
        if way[2] != RIVAL or way[1] not in droppers:
            return None
        return 2 if blamed else 3

    return breaks


@pytest.mark.parametrize("blamed", [True, False])
@pytest.mark.parametrize("droppers", [1, 2, 3])
def test_who_drops_a_rivals_samples_loses_more_than_its_friend_gains(
    droppers: int, blamed: bool
) -> None:
    """Its friend is drawn more, and it loses its own pass of each sample. Three droppers and a
    friend are 4 of 25 seats."""
    friends = (*STAGES[1][:droppers], FRIEND)
    played = play(starve(friends, blamed))
    name = f"{droppers} drop a rival's samples" + ("" if blamed else ", and others are blamed")
    equal = play(starve(friends, blamed), measured=False)
    profit = won(name, played, friends)
    without = won("    the same, equal paths", equal, friends, honest(False))
    print(f"    the rival's weight: {played.weights[RIVAL] / FULL:.2f}")
    assert max(profit, without) < -3
    assert played.weights[RIVAL] < 0.95 * FULL


# -- who has a rival do a forward in vain, while others do the sample -----------------------------


def in_vain(blamed: int, friends: Collection[int]) -> Breaks:
    """Friends in stage `blamed` have a miner of stage 2 that is none of them get no gradient. In
    stage 1 they had all of stage 3 take the sample from a friend first. In stage 3 they keep the
    gradient back. In stage 2 they let the time pass themselves, where strangers are beside them.
    Others then do the sample. What it costs the friends beside their own work is left out."""

    def around(sample: int, way: Sequence[int], now: Played) -> int | None:
        if blamed == 2:
            beside = way[2] in friends and not {way[1], way[3]} & {*friends}
            return 2 if beside else None
        return 2 if way[blamed] in friends and way[2] not in friends else None

    return around


NAMES = {1: "who hands it on", 2: "who lets the time pass", 3: "who takes it"}
WAYS_TO = [
    *((1, (0, 1, 1, 0, 0)), (1, (0, 3, 1, 0, 0)), (1, (0, 5, 2, 0, 0))),
    *((2, (0, 1, 1, 1, 0)), (2, (0, 2, 2, 2, 0))),
    *((3, (0, 0, 1, 1, 0)), (3, (0, 0, 1, 3, 0)), (3, (0, 0, 2, 5, 0))),
]


@pytest.mark.parametrize(("blamed", "staff"), WAYS_TO)
def test_who_has_a_rival_work_in_vain_loses_more_than_its_friends_gain(
    blamed: int, staff: Sequence[int]
) -> None:
    friends = friends_of(staff)
    around = in_vain(blamed, friends)
    name = f"work in vain, by {NAMES[blamed]}, {len(friends)} of 25 seats"
    measured, equal = play(around=around), play(around=around, measured=False)
    profit = won(name, measured, friends)
    without = won("    the same, equal paths", equal, friends, honest(False))
    others = [miner for miner in MINERS if miner not in friends]
    print(f"    the others: {measured.of(others) - honest().of(others):+.1f} ZOO")
    assert max(profit, without) < -3


@pytest.mark.parametrize(("blamed", "before", "behind"), [(1, 0, 2), (3, 1, 1)])
def test_were_one_side_of_a_miner_without_a_gradient_blamed_the_other_would_win(
    blamed: int, before: int, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controls: blamed are the miner and the one behind it, or the miner and the one before."""

    def one_side(stage: int, elsewhere: bool) -> range:
        return range(stage - before, stage + behind) if elsewhere else range(stage, stage + 2)

    monkeypatch.setattr(passes, "beside_missing", one_side)
    friends = friends_of((0, 3, 1, 0, 0) if blamed == 1 else (0, 0, 1, 3, 0))
    played = play(around=in_vain(blamed, friends))
    name = f"work in vain, by {NAMES[blamed]}, {len(friends)} of 25 seats, the other side blamed"
    assert won(name, played, friends) > 3


# -- who drops the samples of which it has few passes ---------------------------------------------


def friends_of(staff: Sequence[int]) -> list[int]:
    return [miner for stage, held in zip(STAGES, staff, strict=True) for miner in stage[:held]]


def drop(friends: Collection[int], most: int, blamed: bool = True) -> Breaks:
    """A friend of the way refuses where `most` or fewer of them are on it. Not `blamed`: the way
    breaks between two strangers wherever two stand side by side."""

    def breaks(sample: int, way: Sequence[int], now: Played) -> int | None:
        mine = [at for at, miner in enumerate(way) if miner in friends]
        if not 1 <= len(mine) <= most:
            return None
        at = now.lots.choice(mine)
        if not blamed:
            strange = [k for k in range(1, 5) if not {k - 1, k} & {*mine}]
            behind = [k for k in strange if k > at]
            if behind:
                return behind[0]
            if strange:
                return ~(strange[-1] - 1)
        return at

    return breaks


@pytest.mark.parametrize(
    ("staff", "most"), [((2, 2, 0, 0, 0), 1), ((2, 2, 2, 0, 0), 1), ((2,) * 5, 2)]
)
def test_clique_that_drops_samples_loses_more_than_with_equal_paths(
    staff: Sequence[int], most: int
) -> None:
    """It boasts as well. Each break is beside a member of it, and it has fewer members."""
    friends = friends_of(staff)
    played = play(drop(friends, most), states=boast(friends))
    equal = play(drop(friends, most), measured=False)
    share = f"{len(friends)} of 25 seats"
    without = won(f"clique drops samples, {share}, equal paths", equal, friends, honest(False))
    profit = won(f"clique drops samples, {share}, measured paths", played, friends)
    assert profit < without - 5 < -20


def test_clique_that_could_blame_strangers_for_its_drops_would_lose_as_well() -> None:
    """Which of a way's hand-overs fails is decided by who refuses, is silent or is late: the break
    is beside it. A code that makes strangers fail further on has to be signed, and replay denies
    it. Even so it would lose the passes."""
    friends = friends_of((2, 2, 0, 0, 0))
    shifted = play(drop(friends, 1, blamed=False))
    assert won("clique drops, 4 of 25 seats, strangers blamed", shifted, friends) < -20


# -- a new name -----------------------------------------------------------------------------------


def sloppy(sample: int, way: Sequence[int], now: Played) -> int | None:
    """The slow miner does three of ten samples."""
    return 2 if way[2] == SLOW and now.lots.random() > 0.3 else None


@pytest.mark.parametrize("every", [1, 5])
def test_who_comes_back_under_a_new_name_is_below_honest_miners(every: int) -> None:
    """Without the cost of a name, which is a stake and a benchmark."""
    stays = play(sloppy)
    again = play(sloppy, renamed=lambda number: (SLOW,) if number % every == 0 else ())
    assert won("does three of ten samples", stays, (SLOW,)) < -8
    assert won(f"the same, a new name every {every} rounds", again, (SLOW,)) < -8
    assert won("    the new names alone", again, (SLOW,), stays) < 4
    assert stays.weights[SLOW] < START
