# SPDX-License-Identifier: Apache-2.0
"""A sample's route is drawn, uniform and the same for everybody."""

from __future__ import annotations

from collections import Counter

import pytest

from agents.pipeline.routes import first, on_route, order, route

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


def test_a_log_counts_for_the_samples_that_its_miner_was_drawn_for() -> None:
    mine = {sample for sample in range(60) if route(SEED, sample, STAGES)[1] == 4}
    assert on_route(SEED, range(60), STAGES, 4) == mine
    assert 0 < len(mine) < 60
