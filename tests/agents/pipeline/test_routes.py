# SPDX-License-Identifier: Apache-2.0
"""A sample's route is drawn, uniform and the same for everybody."""

from __future__ import annotations

from collections import Counter

import pytest
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline.epoch import Epoch
from agents.pipeline.routes import first, order, route

SEED = bytes(range(32))
STAGES = [[1, 2, 3], [4, 5], [6, 7]]


def test_every_path_is_as_likely() -> None:
    paths = Counter(route(SEED, sample, STAGES) for sample in range(12_000))
    assert len(paths) == 12
    # 1,000 of each, standard deviation 30.
    assert all(850 < count < 1150 for count in paths.values())


def test_the_order_of_a_stage_does_not_count() -> None:
    other = [[3, 1, 2], [5, 4], [7, 6]]
    assert all(route(SEED, n, STAGES) == route(SEED, n, other) for n in range(50))


def test_an_absent_miner_moves_its_own_samples_only() -> None:
    for sample in range(100):
        before, after = route(SEED, sample, STAGES), route(SEED, sample, STAGES, {4})
        assert after == tuple(5 if miner == 4 else miner for miner in before)


def test_the_first_of_the_order_is_found_without_the_rest() -> None:
    for sample in range(50):
        assert first(SEED, sample, 2, [9, 7, 8]) == order(SEED, sample, 2, [7, 8, 9])[0]
    with pytest.raises(ValueError, match="no miner of stage 2"):
        first(SEED, 0, 2, [])


def test_a_stage_without_anybody_is_named() -> None:
    with pytest.raises(ValueError, match="stage 1 is present to process sample 9"):
        route(SEED, 9, STAGES, {4, 5})


# -- weights --------------------------------------------------------------------------------------


def test_without_weights_the_draw_is_that_of_old_jobs() -> None:
    """The hash is that of the orders which the code drew before there were weights."""
    stages = [[1, 2, 3], [4, 5], [6, 7, 30, 12, 9]]
    drawn: list[object] = [
        (order(SEED, n, k, miners), first(SEED, n, k, miners))
        for n in range(300)
        for k, miners in enumerate(stages)
    ]
    drawn += [route(SEED, n, stages, {4, 1}) for n in range(100)]
    assert keccak(text=repr(drawn)).hex().startswith("fc5dad3e2572f44f")


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_equal_weights_give_the_draw_without(weight: int, sample: int) -> None:
    alike = dict.fromkeys(STAGES[0], weight)
    assert order(SEED, sample, 0, STAGES[0], alike) == order(SEED, sample, 0, STAGES[0])


def test_a_miner_is_first_as_often_as_its_weight_says_and_so_is_the_next_of_the_rest() -> None:
    weights = {1: 4, 2: 1, 3: 1}
    drawn = Counter(order(SEED, sample, 0, STAGES[0], weights) for sample in range(12_000))
    firsts = Counter[int]()
    for one, count in drawn.items():
        firsts[one[0]] += count
    # 8,000, 2,000 and 2,000, standard deviation 52 and 41.
    assert abs(firsts[1] - 8_000) < 200 and all(abs(firsts[m] - 2_000) < 160 for m in (2, 3))
    # After the second miner the first one comes with four in five, sd 18.
    assert abs(drawn[2, 1, 3] - 1_600) < 70


WEIGHTS = st.fixed_dictionaries({m: st.integers(1, 1000) for stage in STAGES for m in stage})


@given(WEIGHTS, st.integers(0, 10**6), st.sets(st.sampled_from([1, 2, 4, 6])))
def test_all_who_ask_for_a_sample_are_told_the_same(
    weights: dict[int, int], sample: int, absent: set[int]
) -> None:
    stages = tuple(map(tuple, STAGES))
    epoch = Epoch(1, 1, SEED, stages, range(sample, sample + 1), tuple(sorted(weights.items())))
    asked = [epoch.candidates(sample, stage) for stage in range(3)]
    assert [sorted(one) for one in asked] == STAGES
    assert [tuple(epoch.asked(sample, stage)) for stage in range(3)] == asked
    assert [epoch.first(sample, stage) for stage in range(3)] == [one[0] for one in asked]
    here = tuple(next(m for m in one if m not in absent) for one in asked)
    assert epoch.route(sample, absent) == here
    assert [m for m in sorted(weights) if epoch.due(m)] == [one[0] for one in asked]
    assert [m for m in STAGES[0] if epoch.begins(sample, m)] == [asked[0][0]]


@pytest.mark.parametrize("weights", [{1: 0, 2: 1, 3: 1}, {1: -1, 2: 1, 3: 1}])
def test_a_weight_below_one_is_refused(weights: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        first(SEED, 0, 0, STAGES[0], weights)


def test_weights_of_other_miners_are_refused() -> None:
    with pytest.raises(ValueError, match="each miner of an epoch has a weight"):
        Epoch(1, 1, SEED, ((1, 2), (3,)), range(1), ((1, 5), (2, 5)))
