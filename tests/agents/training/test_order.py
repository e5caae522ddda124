# SPDX-License-Identifier: Apache-2.0
"""The order of a job's sequences: every one once, evenly, the same bits everywhere, at any size."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from agents.training.order import MAX_SIZE, ROUNDS, BatchOrder, shuffled
from agents.training.rng import derive_key, raw_words

WORD = 2**64
# Chance of a false alarm, over all keys; the keys are fixed, so a test passes always or never.
RARE = 1e-4


def by_definition(key: bytes, size: int, place: int) -> int:
    """One place, in Python's whole numbers."""
    words = [int(word) for word in raw_words(key, 2 * ROUNDS)]
    for pivot, salt in zip(words[:ROUNDS], words[ROUNDS:], strict=True):
        partner = (pivot - place) % size
        word = (max(place, partner) + salt) % WORD
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % WORD
        word = (word ^ word >> 27) * 0x94D049BB133111EB % WORD
        if (word ^ word >> 31) & 1:
            place = partner
    return place


def keys(count: int) -> list[bytes]:
    return [derive_key("uniform", number) for number in range(count)]


@given(st.binary(min_size=16, max_size=32), st.integers(1, 300))
def test_each_number_stands_at_one_place(key: bytes, size: int) -> None:
    order = shuffled(key, size, np.arange(size))
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(size))


@given(st.binary(min_size=16, max_size=16), st.integers(1, MAX_SIZE), st.data())
def test_a_place_by_itself_is_as_defined(key: bytes, size: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, size - 1), max_size=4))
    found = shuffled(key, size, np.array(places, np.int64))
    assert found.tolist() == [by_definition(key, size, place) for place in places]


def test_the_bits_are_fixed() -> None:
    """Two parties with other bits here would train on other data and slash each other."""
    key = derive_key("order", 7, 0)
    assert shuffled(key, 10, np.arange(10)).tolist() == [5, 1, 9, 3, 6, 7, 2, 4, 8, 0]
    digest = hashlib.sha256(shuffled(key, 99_991, np.arange(99_991)).astype("<i8").tobytes())
    assert digest.hexdigest() == "70b8e38567420f78f00e10309e26a7d10e6d7a1f30656d23d1b26ae0ce158540"
    far = shuffled(key, MAX_SIZE, np.array([0, 1, MAX_SIZE - 1]))
    assert far.tolist() == [
        1643887757901743971,
        382753034641406224,
        2864799140774069070,
    ]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_order_of_a_few_is_as_likely(size: int) -> None:
    found = Counter(tuple(shuffled(key, size, np.arange(size)).tolist()) for key in keys(1_200))
    assert chisquare([found[order] for order in permutations(range(size))]).pvalue > RARE


@pytest.mark.parametrize("size", [5, 16, 17, 1_000])
def test_every_number_is_as_likely_at_a_place(size: int) -> None:
    """Counted in at most 16 classes of numbers, at the first, a middle and the last place."""
    places = np.array([0, size // 2, size - 1])
    classes = min(size, 16)
    drawn = np.stack([shuffled(key, size, places) for key in keys(1_200)])
    edges = np.linspace(0, size, classes + 1)
    shares = np.diff(np.ceil(edges)) / size
    for column in drawn.T:
        counts = np.histogram(column, np.ceil(edges))[0]
        assert chisquare(counts, shares * len(drawn)).pvalue > RARE


def test_neighbours_do_not_stay_together() -> None:
    """Distances of what stood side by side are those of a random order."""
    size = 4_096
    order = shuffled(derive_key("neighbours"), size, np.arange(size))
    steps = np.diff(order) % size
    counts = np.histogram(steps, 16, (0, size))[0]
    assert chisquare(counts).pvalue > RARE


def test_keys_give_unrelated_orders() -> None:
    size = 4_096
    one, other = (shuffled(derive_key("key", k), size, np.arange(size)) for k in (0, 1))
    same = int(np.sum(one == other))
    assert same <= 10  # of a Poisson variable of mean 1
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(size)


def test_a_batch_of_claimed_sequences_without_number_costs_its_own_rows() -> None:
    """A manifest may claim 2**60 sequences: nothing of that size is made (2**60 numbers would be
    8 EiB)."""
    order = BatchOrder(2**60, 8, seed=3)
    rows = order.rows(2**50)
    assert rows.shape == (8,) and len(set(rows.tolist())) == 8


@pytest.mark.parametrize(("first", "last"), [(0, 1), (7, 7), (20, 80), (49, 51), (3, 203)])
def test_many_batches_at_once_are_each_as_by_itself(
    monkeypatch: pytest.MonkeyPatch, first: int, last: int
) -> None:
    """Across epochs of 25 batches, and across blocks, one batch larger than a block too."""
    order = BatchOrder(103, 4, seed=3)
    alone = [order.rows(index).tolist() for index in range(first, last)]
    for block in (1, 40, 2**16):
        monkeypatch.setattr("agents.training.order._BLOCK", block)
        together = order.rows_of(first, last)
        assert together.tolist() == alone
        assert (together.shape, together.dtype) == ((last - first, 4), np.int64)


def test_kept_batches_are_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for in any order, across epochs, with room for two runs of three batches; what the
    asker does to one stays with it."""
    whole = BatchOrder(103, 4, seed=3).rows_of(0, 60).tolist()
    monkeypatch.setattr("agents.training.order._RUN", 12)
    monkeypatch.setattr("agents.training.order._RUNS", 2)
    order = BatchOrder(103, 4, seed=3)
    for index in (0, 1, 26, 24, 25, 59, 0, 24, 49, 50, 2, 1, 58):
        rows = order.rows(index)
        assert rows.tolist() == whole[index]
        rows += 1


def test_a_batch_is_its_places_of_its_epochs_shuffle() -> None:
    whole = shuffled(derive_key("order", 3, 2), 103, np.arange(103))
    assert BatchOrder(103, 4, seed=3).rows(2 * 25 + 6).tolist() == whole[24:28].tolist()


def test_batches_of_an_epoch_share_no_row() -> None:
    order = BatchOrder(103, 4, seed=3)
    assert order.batches_per_epoch == 25
    first = np.concatenate([order.rows(index) for index in range(25)])
    assert len(set(first.tolist())) == 100
    assert not np.array_equal(order.rows(0), order.rows(25))


@pytest.mark.parametrize(("size", "place"), [(0, 0), (MAX_SIZE + 1, 0), (5, 5), (5, -1)], ids=str)
def test_what_is_out_of_range_is_refused(size: int, place: int) -> None:
    with pytest.raises(ValueError, match=r"places, got|outside"):
        shuffled(bytes(16), size, np.array([place]))
