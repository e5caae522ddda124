# SPDX-License-Identifier: Apache-2.0
"""How much of the data a trainer comes to hold keys of."""

from __future__ import annotations

import pytest

from agents.jobs.job import JobContext
from agents.jobs.publish import Published, publish_job
from agents.jobs.seen import seen, seen_sentence
from agents.storage.embedded import EmbeddedStore
from agents.storage.sealed import new_key
from tests.stage.memory.tiny_specs import tiny_model

KEY = new_key()
TEXT = [b"crane %d nests in sector %d\n" % (i, i * 7 % 90) * 4 for i in range(400)]
FIELDS = {
    "batches_per_round": 8,
    "rounds": 40,
    "model": tiny_model(16, 32, 16),
    "optimizer": {"batch_size": 4, "seq_len": 16},
}


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedStore:
    return EmbeddedStore(tmp_path_factory.mktemp("store"))


@pytest.fixture
def published(store: EmbeddedStore) -> Published:
    return publish_job(store, TEXT, FIELDS, data_key=KEY, shard_bytes=1024)


def test_the_share_only_grows_and_one_round_shows_few(
    store: EmbeddedStore, published: Published
) -> None:
    data = JobContext(published.spec, store).data  # no key is needed to say who would see what
    rounds = range(41)
    shares = seen(data, published.spec, 4, rounds)
    assert shares[0] == 0
    assert list(shares) == sorted(shares)
    # Two batches of four 16-token sequences fit into a shard of a thousand; it may be cut in two.
    assert shares[1] <= 2 / len(data.dataset.shards)
    assert shares[40] > shares[1]
    alone = seen(data, published.spec, 1, [1])[0]
    assert alone >= shares[1]


def test_a_global_shuffle_would_show_nearly_everything_at_once(store: EmbeddedStore) -> None:
    """Why shards with keys of their own are read shard by shard."""
    fields = {**FIELDS, "batches_per_round": 64}
    one = publish_job(store, TEXT, fields, data_key=KEY, one_key=True, shard_bytes=1024)
    own = publish_job(store, TEXT, fields, data_key=KEY, shard_bytes=1024)
    shares = []
    for published in (one, own):
        data = JobContext(published.spec, store, lambda: KEY).data
        shares.append(seen(data, published.spec, 4, [1])[0])
    assert shares[0] > 0.7
    assert shares[1] < 0.2


def test_the_sentence_names_the_figures(store: EmbeddedStore, published: Published) -> None:
    data = JobContext(published.spec, store).data
    first, tenth, last = seen(data, published.spec, 4, (1, 10, 40))
    said = seen_sentence(data, published.spec, 4)
    assert f"{first:.1%} after 1, {tenth:.1%} after 10, {last:.1%} after 40 rounds" in said
    assert f"{len(data.dataset.shards)} shards" in said
