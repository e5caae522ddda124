# SPDX-License-Identifier: Apache-2.0
"""Which sequences each batch holds, worked out for a place without working out the others.

An epoch goes through the training sequences in an order that its key fixes. The order is a
swap-or-not shuffle (Hoang, Morris and Rogaway, "An Enciphering Scheme Based on a Card Shuffle",
CRYPTO 2012, figure 1), with as many rounds as Ethereum's shuffle of its validators has. Each place
is shuffled by itself: a batch costs time and memory for its own rows and some hundred beside them,
whatever the number of sequences that a manifest claims.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.training.rng import derive_key, raw_words

ROUNDS = 90  # SHUFFLE_ROUND_COUNT of Ethereum's consensus specification
MAX_SIZE = 2**62
_BLOCK = 2**16  # places that are shuffled at once, unless one batch has more
# Places are shuffled this many at once where one batch is asked for: neighbours are asked for soon,
# and to shuffle five hundred takes half as long again as to shuffle two.
_RUN = 2**9
_RUNS = 64  # of them are kept, a quarter of a megabyte unless batches are larger

Words = NDArray[np.uint64]


def shuffled(key: bytes, size: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """What stands at some places of the permutation of 0..size-1 that a key fixes.

    In round r each x of the set has a partner, (pivot_r - x) mod size, and changes place with it if
    a bit says so that is the same for both: the lowest of ``mix(max(x, partner) + salt_r)``. Pivots
    and salts are the first and the second ``ROUNDS`` Philox words of the key. Only integers modulo
    2**64 are used, so every machine has the same order.

    Args:
        key: at least 16 bytes.
        size: from 1 to 2**62.
        places: numbers in 0..size-1, any shape.

    Returns:
        Numbers in 0..size-1, int64, in the shape of ``places``; no two places give the same.

    Raises:
        ValueError: the key is too short, or the size or a place is out of range.
    """
    if not 1 <= size <= MAX_SIZE:
        raise ValueError(f"an order needs 1 to 2**62 places, got {size}")
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < size:
        raise ValueError(f"a place is outside 0..{size - 1}")
    words = raw_words(key, 2 * ROUNDS)
    count = np.uint64(size)
    at = places.astype(np.uint64)
    for pivot, salt in zip(words[:ROUNDS] % count, words[ROUNDS:], strict=True):
        partner = (pivot + (count - at)) % count
        swaps = (_mix(np.maximum(at, partner) + salt) & np.uint64(1)).astype(bool)
        at = np.where(swaps, partner, at)
    return at.astype(np.int64)


def _mix(words: Words) -> Words:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 15)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class BatchOrder:
    """Which sequences each batch holds: a shuffle per epoch, the rest left out.

    Attributes:
        batches_per_epoch: batches of one shuffle.
    """

    def __init__(self, sequences: int, batch_size: int, seed: int) -> None:
        self._sequences, self._batch, self._seed = sequences, batch_size, seed
        self.batches_per_epoch = sequences // batch_size
        self._runs: dict[int, NDArray[np.int64]] = {}  # rows by the first of a run of batches

    def rows(self, index: int) -> NDArray[np.int64]:
        """Numbers of the sequences of batch ``index`` >= 0, int64 [batch_size].

        Those of the batches around it are worked out with it and kept, as `_RUN` says.
        """
        length = max(_RUN // self._batch, 1)
        epoch, batch = divmod(index, self.batches_per_epoch)
        place = batch % length
        first = index - place
        rows = self._runs.get(first)
        if rows is None:
            end = min(first + length, (epoch + 1) * self.batches_per_epoch)
            rows = self.rows_of(first, end)
            if len(self._runs) >= _RUNS:
                self._runs.clear()
            self._runs[first] = rows
        found: NDArray[np.int64] = rows[place].copy()
        return found

    def rows_of(self, first: int, last: int) -> NDArray[np.int64]:
        """The `rows` of batches ``first`` to ``last`` - 1, int64 [last - first, batch_size].

        One shuffle for many batches: what a round costs is hardly more for all than for one.
        """
        found = [np.empty(0, np.int64)]
        most = max(_BLOCK // self._batch, 1)
        while first < last:
            epoch, batch = divmod(first, self.batches_per_epoch)
            until = min(batch + last - first, self.batches_per_epoch, batch + most)
            places = np.arange(batch * self._batch, until * self._batch)
            key = derive_key("order", self._seed, epoch)
            found.append(shuffled(key, self._sequences, places))
            first += until - batch
        return np.concatenate(found).reshape(-1, self._batch)


class ShardOrder:
    """As `BatchOrder`, shard by shard: the shards of an epoch are shuffled, then the sequences of
    each among themselves.

    Neighbouring batches so lie in few shards, and a node that is assigned a run of batches needs
    few of them. The price is that sequences of different shards mix less.

    Attributes:
        batches_per_epoch: batches of one pass.
    """

    def __init__(self, counts: NDArray[np.int64], batch_size: int, seed: int) -> None:
        """`counts`: sequences of each shard, numbered through in this order."""
        self._counts, self._batch, self._seed = counts, batch_size, seed
        self._first = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self.batches_per_epoch = int(self._first[-1]) // batch_size
        self._latest: tuple[int, NDArray[np.int64]] = (-1, self._first)  # an epoch and its shards

    def rows(self, index: int) -> NDArray[np.int64]:
        """Numbers of the sequences of batch ``index`` >= 0, int64 [batch_size]."""
        return self.rows_of(index, index + 1).reshape(-1)

    def rows_of(self, first: int, last: int) -> NDArray[np.int64]:
        """The `rows` of batches ``first`` to ``last`` - 1, int64 [last - first, batch_size]."""
        found = [np.empty((0, self._batch), np.int64)]
        while first < last:
            epoch, batch = divmod(first, self.batches_per_epoch)
            until = min(batch + last - first, self.batches_per_epoch)
            places = np.arange(batch * self._batch, until * self._batch)
            found.append(self._at(epoch, places).reshape(-1, self._batch))
            first += until - batch
        return np.concatenate(found)

    def _at(self, epoch: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sequences at places of an epoch's order."""
        if self._latest[0] != epoch:
            key = derive_key("order", self._seed, epoch)
            every = np.arange(len(self._counts))
            self._latest = epoch, shuffled(key, len(self._counts), every)
        shards = self._latest[1]
        ends = np.cumsum(self._counts[shards])
        rows = np.empty(len(places), np.int64)
        which = np.searchsorted(ends, places, "right")
        for turn in np.unique(which):
            shard, mine = int(shards[turn]), which == turn
            count = int(self._counts[shard])
            own = derive_key("order", self._seed, epoch, shard)
            within = shuffled(own, count, places[mine] - (int(ends[turn]) - count))
            rows[mine] = int(self._first[shard]) + within
        return rows
