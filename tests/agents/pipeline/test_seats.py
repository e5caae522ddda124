# SPDX-License-Identifier: Apache-2.0
"""Seats follow memory and seed only, are as even as memory allows, and lost stages are refilled."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline.seats import Miner, Unseated, refill, seat

SEED = bytes(range(32))
MEMORIES = st.lists(st.integers(0, 4), min_size=1, max_size=6)
NEEDS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def snapshot(memories: Sequence[int]) -> list[Miner]:
    return [Miner(10 + place, memory) for place, memory in enumerate(memories)]


def staff(seats: dict[int, int], stages: int) -> list[int]:
    return [list(seats.values()).count(stage) for stage in range(stages)]


def seatings(miners: Sequence[Miner], needs: Sequence[int]) -> list[dict[int, int]]:
    """Every seating of all who fit somewhere that leaves no stage empty."""
    fits = [m for m in miners if m.memory >= min(needs)]
    stages = range(len(needs))
    choices = ([s for s in stages if needs[s] <= m.memory] for m in fits)
    every = itertools.product(*choices)
    ids = [m.id for m in fits]
    return [dict(zip(ids, c, strict=True)) for c in every if set(c) == set(stages)]


@given(MEMORIES, NEEDS, st.randoms())
def test_seats_are_as_even_as_any_seating_whoever_is_listed_first(memories, needs, order) -> None:
    miners = snapshot(memories)
    possible = seatings(miners, needs)
    if not possible:
        with pytest.raises(Unseated):
            seat(SEED, miners, needs)
        return
    seats = seat(SEED, miners, needs)
    assert seats in possible
    evenness = min(sorted(staff(one, len(needs)), reverse=True) for one in possible)
    assert sorted(staff(seats, len(needs)), reverse=True) == evenness
    order.shuffle(miners)
    assert seat(SEED, miners, needs) == seats


def test_another_seed_seats_others() -> None:
    miners = snapshot([4] * 12)
    found = {tuple(seat(bytes([n]) * 32, miners, [1, 1, 1]).values()) for n in range(20)}
    assert len(found) == 20


@pytest.mark.parametrize(
    ("memories", "needs", "words"),
    [
        ([3, 3], [1, 5], r"No miner can hold stage 1: it needs 5 .* declares is 3\."),
        ([5, 3, 3], [5, 1, 5], "Too few miners can hold stage [02]: 1 have the 5 .* for 2 stages"),
        ([], [1], "declares is 0"),
    ],
)
def test_a_stage_that_nobody_can_hold_is_named(memories, needs, words) -> None:
    with pytest.raises(Unseated, match=words):
        seat(SEED, snapshot(memories), needs)


@given(MEMORIES, NEEDS, st.sets(st.integers(10, 15)))
def test_a_lost_stage_is_refilled_by_the_fewest_moves(memories, needs, lost) -> None:
    miners = snapshot(memories)
    if not seatings(miners, needs):
        return
    before = seat(SEED, miners, needs)
    left = {one: stage for one, stage in before.items() if one not in lost}
    possible = seatings([m for m in miners if m.id not in lost], needs) if left else []
    if not possible:
        with pytest.raises(Unseated):
            refill(SEED, before, lost, miners, needs)
        return
    after = refill(SEED, before, lost, miners, needs)
    assert after in possible

    def moved(seats: dict[int, int]) -> int:
        return sum(seats[one] != stage for one, stage in left.items())

    assert moved(after) == min(map(moved, possible))


def test_the_best_staffed_stage_gives_a_miner() -> None:
    miners = snapshot([9] * 7)
    seats = dict(zip(range(10, 17), (0, 1, 1, 1, 2, 2, 3), strict=True))
    after = refill(SEED, seats, [16], miners, [1] * 4)
    (gone,) = [one for one in (11, 12, 13) if after[one] != 1]
    assert after == {**{o: s for o, s in seats.items() if o != 16}, gone: 3}


def test_a_chain_of_moves_passes_through_a_stage_whose_miner_has_the_memory() -> None:
    miners = [Miner(1, 9), Miner(2, 5), Miner(3, 2), Miner(4, 2), Miner(5, 9)]
    after = refill(SEED, {1: 0, 2: 0, 3: 2, 4: 2, 5: 1}, [5], miners, [5, 9, 2])
    assert after == {1: 1, 2: 0, 3: 2, 4: 2}
    after = refill(SEED, {1: 0, 2: 2, 3: 2, 4: 2, 5: 1}, [5], miners, [5, 9, 2])
    assert after == {1: 1, 2: 0, 3: 2, 4: 2}
