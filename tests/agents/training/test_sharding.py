# SPDX-License-Identifier: Apache-2.0
"""How large shards are where nobody says: enough for the nodes, never thousands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.jobs.job import JobContext
from agents.jobs.publish import publish_job
from agents.storage.embedded import EmbeddedStore
from agents.storage.sealed import new_key
from agents.training.data import Dataset, pack
from agents.training.sharding import EACH, MOST, OWN_BYTES, PLAIN_BYTES, own_size, plain_size

KIB, MIB, GIB = 2**10, 2**20, 2**30
TEXT = [b"document %d: where the nest of the crane is\n" % i * 20 for i in range(100)]


@pytest.mark.parametrize("total", [1, 500 * KIB, GIB])
def test_plain_data_has_the_usual_shards_up_to_a_gibibyte(total: int) -> None:
    assert plain_size(total) == PLAIN_BYTES


@pytest.mark.parametrize("size_of", [plain_size, lambda total: own_size(total, 8, 512)])
@pytest.mark.parametrize("total", [GIB + 1, 3 * GIB + 7, 200 * GIB])
def test_a_large_corpus_has_no_more_shards_than_a_manifest_should_list(
    size_of: Callable[[int], int], total: int
) -> None:
    assert 0.9 * MOST < total / size_of(total) <= MOST
    assert size_of(total) % 4 == 0


@pytest.mark.parametrize("nodes", [2, 8, 64])
@pytest.mark.parametrize("total", [300 * KIB, 4 * MIB, 40 * MIB])
def test_every_node_finds_shards_with_keys_of_their_own(nodes: int, total: int) -> None:
    size = own_size(total, nodes, 512)
    assert size <= OWN_BYTES
    assert -(-total // size) >= EACH * nodes - 1  # rounding to whole tokens may take one


def test_a_shard_holds_a_batch_however_little_data_there_is() -> None:
    assert own_size(2_000, 64, 512) == 512
    assert own_size(0, 1, 510) == 512


def test_a_small_encrypted_job_is_cut_for_its_nodes(store: EmbeddedStore) -> None:
    """Of 88 kB, two shards of the usual size: one for validation, one for all eight nodes."""
    key, total = new_key(), sum(map(len, TEXT)) + len(TEXT)
    assert total < 2 * OWN_BYTES
    by_nodes = {}
    for nodes in (8, 16):
        published = publish_job(store, TEXT, {"rounds": 1}, data_key=key, nodes=nodes)
        by_nodes[nodes] = len(JobContext(published.spec, store, lambda: key).data.dataset.shards)
    assert EACH * 8 <= by_nodes[8] < by_nodes[16] <= EACH * 16 + 1


def test_shards_are_the_text_whoever_says_their_size(store: EmbeddedStore) -> None:
    """By their length known beforehand, or from the bytes of all."""
    given = pack(TEXT, store, shard_bytes=4_096)
    assert pack(TEXT, store, shard_bytes=lambda total: 4_096) == given
    whole = Dataset.from_bytes(store.get(pack(TEXT, store), MIB))
    assert [shard.tokens for shard in whole.shards] == [sum(map(len, TEXT)) + len(TEXT)]
