# SPDX-License-Identifier: Apache-2.0
"""Where the sequences of a packed dataset lie in its shards, and which of them are trained on.

Two layouts. `Across`: sequences run through all tokens, from shard to shard, and an epoch shuffles
all of them; the validation split is the last of the sequences. `Within`, for data whose shards have
a key each: every sequence lies in one shard, an epoch goes shard by shard (`ShardOrder`), and the
validation split is the last shards, whole. So a batch needs the keys of few shards, and whoever
trains needs none of the validation text's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agents.training.order import BatchOrder, ShardOrder

Rows = NDArray[np.int64]


class Order(Protocol):
    """Which sequences each batch holds."""

    batches_per_epoch: int

    def rows(self, index: int) -> Rows: ...

    def rows_of(self, first: int, last: int) -> Rows: ...


class Layout(Protocol):
    """Sequences by number: those that are trained on first, then those of the validation split."""

    train: int
    val: int

    def order(self, batch_size: int, seed: int) -> Order:
        """The order in which they are trained on."""
        ...

    def starts(self, rows: Rows) -> Rows:
        """The first token of each sequence, counted through all shards."""
        ...


class Across:
    """Sequence i covers tokens i*seq_len .. i*seq_len + seq_len."""

    def __init__(self, tokens: Sequence[int], seq_len: int, val_fraction: float) -> None:
        """`tokens`: of each shard."""
        self._seq = seq_len
        total = (sum(tokens) - 1) // seq_len
        self.val = max(1, math.ceil(total * val_fraction))
        self.train = total - self.val

    def order(self, batch_size: int, seed: int) -> Order:
        return BatchOrder(self.train, batch_size, seed)

    def starts(self, rows: Rows) -> Rows:
        return rows * self._seq


class Within:
    """Every shard's sequences by themselves; what is left of it at its end is not used."""

    def __init__(self, tokens: Sequence[int], seq_len: int, val_fraction: float) -> None:
        """`tokens`: of each shard."""
        self._seq = seq_len
        sizes = np.asarray(tokens, np.int64)
        self._counts = np.maximum(sizes - 1, 0) // seq_len
        self._begins = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self._first = np.concatenate(([0], np.cumsum(self._counts)))
        wanted = max(1, math.ceil(int(self._first[-1]) * val_fraction))
        from_end = np.cumsum(self._counts[::-1])
        kept = min(int(np.searchsorted(from_end, wanted)) + 1, len(sizes))
        self._train_shards = len(sizes) - kept
        self.train = int(self._first[self._train_shards])
        self.val = int(self._first[-1]) - self.train

    def order(self, batch_size: int, seed: int) -> Order:
        return ShardOrder(self._counts[: self._train_shards], batch_size, seed)

    def starts(self, rows: Rows) -> Rows:
        shards = np.searchsorted(self._first, rows, "right") - 1
        found: Rows = self._begins[shards] + (rows - self._first[shards]) * self._seq
        return found
