# SPDX-License-Identifier: Apache-2.0
"""The choice of jobs: pay per expected work decides, and a job is left only for a reason."""

from __future__ import annotations

from typing import Any

import pytest

from agents.jobs.choice import (
    Offer,
    PastRound,
    Rated,
    choose,
    hourly,
    looked_at,
    ranked,
    refusal,
)
from agents.protocol.numbers import ZOO

SPEED = 1e11
WINDOWS = 3_000
NOW = 10**9


def offer(job_id: int = 1, zoo: float = 1_000, **fields: Any) -> Offer:
    return Offer(
        **{"job_id": job_id, "pay": int(zoo * ZOO), "nodes": 4, "windows_s": WINDOWS, **fields}
    )


def rounds(*paid: bool, lasted: int = WINDOWS) -> tuple[PastRound, ...]:
    """Rounds one after the other, the last one just over."""
    first = NOW - lasted * len(paid)
    return tuple(PastRound(first + lasted * i, lasted, done) for i, done in enumerate(paid))


def why(one: Offer, least_pay: float = 0, now: int = NOW) -> str | None:
    return refusal(one, SPEED, least_pay, now)


# -- pay -------------------------------------------------------------------------------------------


def test_pay_is_a_nodes_share_for_the_hours_that_a_round_holds_it() -> None:
    assert hourly(offer(zoo=1_000), SPEED) == pytest.approx(1_000 / 4 / (3_000 / 3_600))


def test_computing_counts_by_the_nodes_own_speed() -> None:
    heavy = offer(flop=4 * 3_000 * SPEED)  # another 3,000 s on each of four nodes
    assert hourly(heavy, SPEED) == pytest.approx(hourly(offer(), SPEED) / 2)
    assert hourly(heavy, 1e6 * SPEED) == pytest.approx(hourly(offer(), SPEED), rel=1e-3)


def test_tiny_work_for_little_pay_is_no_good_pay() -> None:
    """Per operation it pays a million times as much; but it holds the node as long."""
    tiny, usual = offer(zoo=1, flop=1e6), offer(zoo=1_000, flop=1e15)
    assert hourly(usual, SPEED) > 100 * hourly(tiny, SPEED)


def test_quick_rounds_pay_more_than_their_windows_promise() -> None:
    quick = offer(past=rounds(*[True] * 8, lasted=60))
    assert hourly(quick, SPEED) == pytest.approx(hourly(offer(), SPEED) * 9 * 3_000 / 3_480)


def test_a_round_that_waited_for_the_next_one_counts_its_windows_at_most() -> None:
    assert hourly(offer(past=rounds(True, lasted=90_000)), SPEED) == hourly(offer(), SPEED)


def test_each_round_without_a_result_makes_the_pay_less() -> None:
    pays = [hourly(offer(past=rounds(*[False] * n)), SPEED) for n in range(9)]
    assert pays == pytest.approx([pays[0] / (n + 1) for n in range(9)])


# -- jobs that a node does not work on -------------------------------------------------------------


def test_terms_outside_of_the_bounds_are_refused_with_their_sentence() -> None:
    assert why(offer(refused="a round pays 0")) == "a round pays 0"


def test_the_floor_names_both_figures() -> None:
    pays = hourly(offer(zoo=1), SPEED)
    assert why(offer(zoo=1), least_pay=pays) is None
    assert why(offer(zoo=1), least_pay=2) == (
        "an hour of its work pays 0.3 ZOO, and least_pay asks for 2"
    )


@pytest.mark.parametrize("lost", range(9))
def test_a_job_without_progress_is_left_and_tried_again_after_growing_pauses(lost: int) -> None:
    stuck = offer(past=rounds(True, *[False] * lost)[-8:])
    said = why(stuck)
    assert (said is not None) == (lost >= 3)
    if said is not None:
        assert f"its last {lost} rounds with work ended without a result" in said
        again = stuck.past[-1].opened_at + WINDOWS * 2 ** (lost - 2)
        assert str(again) in said
        assert why(stuck, now=again - 1) is not None and why(stuck, now=again) is None


def test_one_result_shows_progress() -> None:
    assert why(offer(past=rounds(*[False] * 7, True))) is None


def test_an_overdue_round_that_nobody_ends_is_no_job() -> None:
    assert why(offer(overdue_s=WINDOWS)) is None
    assert "overdue" in str(why(offer(overdue_s=WINDOWS + 1)))


def empty(count: int, since: int = NOW) -> tuple[PastRound, ...]:
    """Rounds of 100 s each that nobody came to."""
    return tuple(PastRound(since + 100 * i, 100, False, worked=False) for i in range(count))


@pytest.mark.parametrize("count", [1, 5, 8, 60])
def test_rounds_that_nobody_came_to_change_neither_pay_nor_pause(count: int) -> None:
    """Anyone may open them, for gas."""
    for past in ((), rounds(*[True] * 8), rounds(True, False, False, False)):
        offers = offer(past=past), offer(past=(*past, *empty(count)))
        assert len({hourly(one, SPEED) for one in offers}) == 1
        for now in (NOW, NOW + 3 * WINDOWS):
            assert len({why(one, now=now) for one in offers}) == 1
    assert "its last 3 rounds with work ended without a result" in str(why(offers[1]))


# -- the choice ------------------------------------------------------------------------------------


def rated(**pays: float) -> list[Rated]:
    """job_3=20: job 3 pays 20."""
    return [Rated(int(name.removeprefix("job_")), pay) for name, pay in pays.items()]


def test_the_order_is_by_pay_and_then_by_age() -> None:
    order = ranked(rated(job_4=5, job_2=5, job_1=1, job_3=9))
    assert [one.job_id for one in order] == [3, 2, 4, 1]


@pytest.mark.parametrize(
    ("jobs", "followed", "busy", "chosen", "said"),
    [
        ({}, 0, False, 0, "no live job is worth working on"),
        ({}, 3, False, 0, "no live job is worth working on"),
        ({"job_1": 1}, 0, False, 1, "job 1 pays 1 ZOO for an hour of its expected work"),
        ({"job_1": 1, "job_2": 9}, 0, False, 2, "the most of 2 jobs"),
        ({"job_1": 1, "job_2": 9}, 7, False, 2, "the most of 2 jobs"),
        ({"job_1": 4, "job_2": 5}, 1, False, 1, "no job pays 1.25 times that"),
        ({"job_1": 4, "job_2": 5.1}, 1, False, 2, "and job 1 4 only"),
        ({"job_1": 4, "job_2": 3}, 1, False, 1, "no job pays more"),
        ({"job_1": 4, "job_2": 500}, 1, True, 1, "has yet to open its work"),
        ({"job_2": 500}, 1, True, 1, "has yet to open its work"),
    ],
)
def test_the_best_job_is_followed_until_another_is_a_good_part_better(
    jobs: dict[str, float], followed: int, busy: bool, chosen: int, said: str
) -> None:
    job, sentence = choose(rated(**jobs), followed, busy)
    assert job == chosen
    assert said in sentence


def test_two_jobs_that_overtake_each_other_by_little_never_make_a_node_hop() -> None:
    followed, hops = 1, 0
    for turn in range(20):
        job, _ = choose(rated(job_1=10 + turn % 2, job_2=11 - turn % 2), followed, False)
        hops += job != followed
        followed = job
    assert hops == 0


def test_a_hundred_free_jobs_change_nothing() -> None:
    free = [Rated(i, 0.01) for i in range(1, 101)]
    assert choose([*free, Rated(101, 300)], 0, False)[0] == 101


# -- several jobs ----------------------------------------------------------------------------------


def order(
    offers: list[Offer], most: int, node: int = 1, hour: int = 0, keep: tuple[int, ...] = ()
) -> list[int]:
    return [one.job_id for one in looked_at(offers, SPEED, keep, most, node, hour)]


PROVEN = [offer(job_id, zoo=100, past=rounds(*[True] * 8)) for job_id in range(1, 9)]


def test_jobs_that_have_paid_come_before_most_of_those_that_say_they_will() -> None:
    """Eight jobs that nobody works in promise more than one whose rounds are paid."""
    baits = [offer(job_id, zoo=5_000) for job_id in range(2, 10)]
    honest = [offer(1, zoo=1_000, past=rounds(True, False)), offer(10, zoo=2_000)]
    found = order([*honest, *baits], 8)
    assert found[2] == 1 and sorted(found) == list(range(1, 11))
    rest = [job_id for job_id in found[3:] if job_id != 10]
    assert rest == sorted(rest), "what no place was drawn for comes by pay"
    assert order([*honest, *baits], 8, keep=(9, 1))[:2] == [9, 1]


@pytest.mark.parametrize(("most", "places"), [(2, 1), (3, 1), (4, 1), (8, 2), (9, 2), (32, 8)])
def test_new_jobs_have_one_place_in_four_and_one_at_least(most: int, places: int) -> None:
    new = [offer(job_id, zoo=1) for job_id in range(50, 60)]
    for hour in range(20):
        found = order([*PROVEN, *new], most, hour=hour)
        assert min(found[:places]) >= 50 and found[places : places + 8] == list(range(1, 9))


def test_a_node_that_serves_one_job_serves_a_new_one_in_an_hour_of_four() -> None:
    """Else one job that nobody works in would hold all such nodes."""
    hours = [order([*PROVEN, offer(50, zoo=9_000)], 1, hour=hour)[0] for hour in range(400)]
    assert set(hours) == {1, 50} and 70 < hours.count(50) < 130


def test_places_for_new_jobs_are_drawn_whatever_they_promise() -> None:
    """Two of three promise a hundred times as much. Each has two places of three in the end."""
    new = [offer(50, zoo=900), offer(60, zoo=90_000), offer(61, zoo=90_000)]
    for node in (1, 2, 70_000):
        drawn = [order([*PROVEN, *new], 8, node, hour)[:2] for hour in range(400)]
        assert drawn == [order([*new, *PROVEN], 8, node, hour)[:2] for hour in range(400)]
        for one in new:
            assert 230 < sum(one.job_id in places for places in drawn) < 300
    at_once = [order([*PROVEN, *new], 8, node, 7)[:2] for node in range(400)]
    assert 230 < sum(50 in places for places in at_once) < 300, "nodes draw differently"


@pytest.mark.parametrize("worked", [False, True])
def test_a_job_whose_rounds_got_no_result_has_no_place_of_a_new_one(worked: bool) -> None:
    """Until one is paid; one round may fail, as a first one often does."""

    def lure(job_id: int, *paid: bool) -> Offer:
        past = tuple(
            PastRound(one.opened_at, one.lasted_s, one.paid, worked or one.paid)
            for one in rounds(*paid)
        )
        return offer(job_id, zoo=90_000, past=past)

    others = [*PROVEN, offer(50, zoo=900)]
    for hour in range(20):
        found = order([*others, lure(60, False, False), lure(61, *[False] * 8)], 8, hour=hour)
        assert found == [50, *range(1, 9), 60, 61]
        assert set(order([*others, lure(60, False)], 8, hour=hour)[:2]) == {50, 60}
        assert order([*others, lure(60, False, True)], 8, hour=hour)[:2] == [50, 60]
