# SPDX-License-Identifier: Apache-2.0
"""Every pair merges one shard, a lie is told by recomputation, and lost shards stay old."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.mechanisms.merge import MergeRefused
from agents.pipeline.butterfly import (
    Butterfly,
    Rule,
    agreement,
    primer_traffic,
    recomputed,
    settle,
    traffic,
    valid_fraction,
    valid_shards,
)

SEED = bytes(range(32))
MINERS = (3, 5, 8, 9)
BATCHES = {3: 1, 5: 2, 8: 3, 9: 4}
OLD = torch.full((29,), -1.0)


def drawn(miners=MINERS, length: int = 29) -> Butterfly:
    return Butterfly.draw(SEED, miners, length)


def uploads(butterfly: Butterfly) -> dict[int, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {m: torch.randn(butterfly.length, generator=generator) for m in butterfly.miners}


def honest(butterfly: Butterfly, rule: Rule | None = None):
    """(recompute, what everybody delivers) of honest owners."""
    recompute = recomputed(butterfly, uploads(butterfly), BATCHES, rule or Rule())
    return recompute, {
        (owner, shard): recompute(shard)
        for shard, pair in enumerate(butterfly.pairs)
        for owner in pair
    }


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


@pytest.mark.parametrize("name", ["weighted_mean", "mean", "geometric_mean", "trimmed_mean"])
def test_the_merge_of_all_shards_is_the_merge_of_the_whole(name: str) -> None:
    butterfly = drawn()
    recompute, delivered = honest(butterfly, Rule(name))
    settled = settle(butterfly, OLD, delivered, recompute)
    whole = Rule(name)([uploads(butterfly)[m] for m in MINERS], list(BATCHES.values()))
    assert torch.equal(settled.weights, whole)
    assert settled.accepted and settled.liars == {} and settled.recomputed == ()


def test_a_weighted_mean_divides_by_exactly_the_batches_it_adds() -> None:
    rows = [torch.tensor([8.0]), torch.tensor([2.0])]
    assert Rule()(rows, [1, 2]).item() == 4.0
    assert Rule()([torch.tensor([8.0])] * 3, [5, 1, 2]).item() == 8.0  # IOTA's divisor began at 1
    with pytest.raises(ValueError):
        Rule()(rows, [1, 0])
    with pytest.raises(ValueError, match="not finite"):
        Rule()([torch.tensor([torch.inf]), rows[0]], [1, 1])
    with pytest.raises(MergeRefused):
        Rule("trimmed_mean")(rows, [1, 1])


def test_a_lone_liar_is_named_and_its_partner_is_not() -> None:
    butterfly = drawn()
    recompute, delivered = honest(butterfly)
    for shard in butterfly.owned(5):
        delivered[5, shard] = delivered[5, shard] + 1
    settled = settle(butterfly, OLD, delivered, recompute)
    assert settled.liars == {5: butterfly.owned(5)}
    assert settled.recomputed == butterfly.owned(5)
    assert torch.equal(settled.weights, settle(butterfly, OLD, *honest(butterfly)[::-1]).weights)
    matrix = agreement(butterfly, butterfly.digests(delivered))
    assert [row.count(False) for row in matrix] == [1, 3, 1, 1]
    assert all(matrix[place][place] is None for place in range(4))


def test_a_majority_of_liars_convicts_nobody_honest_and_none_of_its_shards_is_taken() -> None:
    """Liars agree among themselves; each is found beside the honest one, and then everywhere."""
    butterfly = drawn()
    recompute, delivered = honest(butterfly)
    for liar in (3, 5, 8):
        for shard in butterfly.owned(liar):
            delivered[liar, shard] = recompute(shard) + 1
    matrix = agreement(butterfly, butterfly.digests(delivered))
    assert matrix[3].count(False) == 3  # the honest miner agrees with nobody
    settled = settle(butterfly, OLD, delivered, recompute)
    assert settled.liars == {liar: butterfly.owned(liar) for liar in (3, 5, 8)}
    assert torch.equal(settled.weights, settle(butterfly, OLD, *honest(butterfly)[::-1]).weights)


def test_a_pair_that_agrees_on_a_lie_is_found_if_its_shard_is_drawn() -> None:
    butterfly = drawn()
    recompute, delivered = honest(butterfly)
    (shard,) = set(butterfly.owned(3)) & set(butterfly.owned(9))
    for owner in (3, 9):
        delivered[owner, shard] = delivered[owner, shard] * 2
    missed = settle(butterfly, OLD, delivered, recompute)
    first, last = butterfly.spans[shard]
    assert missed.liars == {}
    assert torch.equal(missed.weights[first:last], 2 * recompute(shard))
    found = settle(butterfly, OLD, delivered, recompute, drawn={shard})
    assert found.liars == {3: (shard,), 9: (shard,)}
    assert torch.equal(found.weights[first:last], recompute(shard))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda values: values[:-1],
        lambda values: values.double(),
        lambda values: values * torch.nan,
        lambda values: values * 1.5,
    ],
)
def test_a_shard_that_one_owner_alone_delivered_is_recomputed(spoil) -> None:
    butterfly = drawn()
    recompute, delivered = honest(butterfly)
    shard = 2
    liar, absent = butterfly.pairs[shard]
    del delivered[absent, shard]
    delivered[liar, shard] = spoil(delivered[liar, shard])
    settled = settle(butterfly, OLD, delivered, recompute)
    assert settled.liars == {liar: (shard,)} and settled.recomputed == butterfly.owned(liar)
    first, last = butterfly.spans[shard]
    assert torch.equal(settled.weights[first:last], recompute(shard))


def test_two_lost_owners_leave_the_old_weights_of_their_shard() -> None:
    butterfly = drawn()
    recompute, delivered = honest(butterfly)
    left = {key: one for key, one in delivered.items() if key[0] not in (3, 8)}
    settled = settle(butterfly, OLD, left, recompute, least_valid=Fraction(5, 6))
    (shard,) = set(butterfly.owned(3)) & set(butterfly.owned(8))
    first, last = butterfly.spans[shard]
    assert settled.valid == tuple(place != shard for place in range(6))
    assert torch.equal(settled.weights[first:last], OLD[first:last])
    assert settled.accepted and sum(settled.valid) == valid_shards(4, 2)
    refused = settle(butterfly, OLD, left, recompute)
    assert not refused.accepted and torch.equal(refused.weights, OLD)


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


def test_uploads_are_checked_before_they_are_merged() -> None:
    butterfly = drawn()
    good = uploads(butterfly)
    for bad in (good[3][:-1], good[3].double(), good[3] * torch.nan):
        with pytest.raises(ValueError, match="upload of miner 3"):
            recomputed(butterfly, {**good, 3: bad}, BATCHES, Rule())
    with pytest.raises(ValueError, match="every miner"):
        recomputed(butterfly, {m: good[m] for m in (3, 5)}, BATCHES, Rule())
