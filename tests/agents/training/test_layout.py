# SPDX-License-Identifier: Apache-2.0
"""Sequences within shards: each in one shard, every one once an epoch, validation apart."""

from __future__ import annotations

import numpy as np
import pytest

from agents.training.layout import Across, Within
from agents.training.order import ShardOrder

TOKENS = (101, 65, 8, 9, 200, 33, 64, 17)
SEQ = 8


def shards_at(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shard of the first and of the last token of each sequence."""
    begins = np.concatenate(([0], np.cumsum(TOKENS)))
    first, last = (np.searchsorted(begins, at, "right") - 1 for at in (starts, starts + SEQ))
    return first, last


def test_every_sequence_lies_in_one_shard() -> None:
    layout = Within(TOKENS, SEQ, 0.1)
    rows = np.arange(layout.train + layout.val)
    starts = layout.starts(rows)
    first, last = shards_at(starts)
    assert (first == last).all()
    assert len(rows) == sum((tokens - 1) // SEQ for tokens in TOKENS)
    assert len(set(starts.tolist())) == len(rows)


def test_the_validation_split_shares_no_shard_with_training() -> None:
    for fraction in (1e-6, 0.1, 0.3, 0.5):
        layout = Within(TOKENS, SEQ, fraction)
        rows = np.arange(layout.train + layout.val)
        shards, _ = shards_at(layout.starts(rows))
        trained, measured = set(shards[: layout.train]), set(shards[layout.train :])
        assert not trained & measured
        assert layout.val >= len(rows) * fraction


def test_an_epoch_has_each_sequence_once_and_goes_shard_by_shard() -> None:
    layout = Within(TOKENS, SEQ, 0.1)
    order = layout.order(3, 5)
    size = order.batches_per_epoch * 3
    for epoch in range(3):
        first = epoch * order.batches_per_epoch
        rows = order.rows_of(first, first + order.batches_per_epoch).reshape(-1)
        assert len(set(rows.tolist())) == size
        assert rows.min() >= 0
        assert rows.max() < layout.train
        shards, _ = shards_at(layout.starts(rows))
        changes = int((np.diff(shards) != 0).sum())
        assert changes + 1 == len(set(shards.tolist()))


def test_a_batch_is_the_same_alone_and_in_a_run_across_epochs() -> None:
    order = ShardOrder(np.array([7, 4, 9, 1]), 4, 11)
    per = order.batches_per_epoch
    run = order.rows_of(per - 2, 2 * per + 1)
    alone = [order.rows(index) for index in range(per - 2, 2 * per + 1)]
    assert (run == np.stack(alone)).all()
    epochs = [order.rows_of(e * per, (e + 1) * per).tolist() for e in range(4)]
    assert len({str(epoch) for epoch in epochs}) == 4
    other = ShardOrder(np.array([7, 4, 9, 1]), 4, 12)
    assert other.rows_of(0, per).tolist() != order.rows_of(0, per).tolist()


def test_data_of_one_shard_leaves_nothing_to_train_on() -> None:
    layout = Within((500,), SEQ, 0.1)
    assert layout.train == 0
    assert layout.val == 62


@pytest.mark.parametrize("fraction", [0.05, 0.5])
def test_the_other_layout_is_what_it_was(fraction: float) -> None:
    layout = Across(TOKENS, SEQ, fraction)
    total = (sum(TOKENS) - 1) // SEQ
    assert layout.train + layout.val == total
    assert layout.starts(np.arange(total)).tolist() == [i * SEQ for i in range(total)]
