# SPDX-License-Identifier: Apache-2.0
"""Every pair owns one shard, by a seed; what that costs, and what is left when miners are lost."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline.butterfly import (
    Butterfly,
    primer_traffic,
    traffic,
    valid_fraction,
    valid_shards,
)

SEED = bytes(range(32))
MINERS = (3, 5, 8, 9)


def drawn(miners=MINERS, length: int = 29) -> Butterfly:
    return Butterfly.draw(SEED, miners, length)


@given(st.integers(2, 12), st.integers(1, 400))
def test_shards_tile_the_weights_and_each_pair_owns_one(count: int, length: int) -> None:
    butterfly = drawn(range(1, count + 1), length)
    assert sorted(butterfly.pairs) == list(combinations(butterfly.miners, 2))
    sizes = [last - first for first, last in butterfly.spans]
    assert butterfly.spans[0][0] == 0 and sum(sizes) == length
    full = -(-length // len(sizes))
    assert sizes == sorted(sizes, reverse=True)
    assert sum(0 < size < full for size in sizes) <= 1
    owners = Counter(owner for pair in butterfly.pairs for owner in pair)
    assert {m: len(butterfly.owned(m)) for m in butterfly.miners} == owners
    assert set(owners.values()) == {count - 1}


def test_the_order_follows_the_seed_and_not_the_listing() -> None:
    assert drawn((9, 3, 8, 5)).pairs == drawn().pairs
    orders = {Butterfly.draw(bytes([n]) * 32, MINERS, 1).pairs for n in range(20)}
    assert len(orders) > 10


@pytest.mark.parametrize(("miners", "length"), [((1,), 5), ((1, 1), 5), ((1, 2), 0)])
def test_a_butterfly_needs_two_miners_and_weights(miners, length) -> None:
    with pytest.raises(ValueError):
        drawn(miners, length)


@given(st.integers(2, 12), st.data())
def test_valid_shards_counted_are_the_formulas(count: int, data: st.DataObject) -> None:
    miners = range(count)
    lost = data.draw(st.sets(st.sampled_from(miners)))
    butterfly = drawn(miners, 1000)
    counted = sum(not set(pair) <= lost for pair in butterfly.pairs)
    assert counted == valid_shards(count, len(lost))
    assert valid_fraction(count, len(lost)) == Fraction(counted, len(butterfly.pairs))


def test_formulas_by_hand() -> None:
    assert valid_fraction(50, 5) == 1 - Fraction(20, 2450)
    assert valid_fraction(50, 16) > Fraction(9, 10) > valid_fraction(50, 17)


@pytest.mark.parametrize("count", [2, 3, 10])
def test_bytes_that_a_miner_moves(count: int) -> None:
    butterfly = drawn(range(count), 9000)
    weights = 36_000
    for miner in butterfly.miners:
        parts = traffic(butterfly, miner)
        own = 2 * weights // count
        assert parts.upload_shards == own
        assert parts.download_shards == (count - 1) * own
        assert parts.total == 4 * weights
        assert primer_traffic(weights, count) - parts.total == own
