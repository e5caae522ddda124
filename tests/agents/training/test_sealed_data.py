# SPDX-License-Identifier: Apache-2.0
"""Sealed data trains exactly as plain data does, and the store never sees a plain byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from agents.jobs.publish import publish_job
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import TooLarge
from agents.storage.sealed import SealError, new_key, sealed_size
from agents.training.data import Dataset, DataSource, pack
from agents.training.documents import DataError
from agents.training.sealed_data import open_sealed, pack_sealed, seal_dataset
from agents.training.spec import JobSpec, SpecError

KEY = new_key()
TEXT = [b"where the nest of crane %d is, nobody may know\n" % i * 20 for i in range(40)]


def bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def sealed(store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A sealed dataset of 4 kB shards."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return pack_sealed(TEXT, store, KEY, shard_bytes=4096)


def test_a_batch_of_sealed_data_is_that_of_the_plain_data(
    store: EmbeddedStore, sealed: str, tiny_spec: Callable[..., JobSpec], tmp_path: Path
) -> None:
    plain = EmbeddedStore(tmp_path / "plain")
    data = pack(TEXT, plain, shard_bytes=4096)
    clear = DataSource(plain, tiny_spec(data=data))
    opened = DataSource(open_sealed(store, KEY, sealed), tiny_spec(data=sealed))
    assert opened.dataset.tokens == clear.dataset.tokens
    for index in (0, 7, clear.batches_per_epoch + 1):
        assert torch.equal(opened.batch(index), clear.batch(index))
    assert all(map(torch.equal, opened.val_batches(4), clear.val_batches(4)))
    own, plain_ones = ({s.cid for s in d.dataset.shards} for d in (opened, clear))
    assert not own & plain_ones
    # A dataset that is packed already becomes the same one.
    again = seal_dataset(data, plain, store, KEY)
    source = DataSource(open_sealed(store, KEY, again), tiny_spec(data=again))
    assert torch.equal(source.batch(3), clear.batch(3))


def test_no_plain_byte_is_left_in_the_store_or_in_temporary_files(
    store: EmbeddedStore, sealed: str, tmp_path: Path
) -> None:
    written = bytes_in(tmp_path)
    assert len(written) > sum(map(len, TEXT))
    assert b"crane" not in written
    assert KEY not in written
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_manifest_tells_sizes_only(store: EmbeddedStore, sealed: str) -> None:
    dataset = Dataset.from_bytes(open_sealed(store, KEY, sealed).get(sealed, 1 << 20))
    assert dataset.tokens == sum(map(len, TEXT)) + len(TEXT)
    for shard in dataset.shards:
        assert len(store.get(shard.cid, 1 << 20)) == sealed_size(shard.tokens)


def test_without_the_key_there_is_no_batch(
    store: EmbeddedStore, sealed: str, tiny_spec: Callable[..., JobSpec]
) -> None:
    spec = tiny_spec(data=sealed)
    with pytest.raises(TooLarge):
        DataSource(store, spec).batch(0)
    with pytest.raises(SealError, match="names key"):
        DataSource(open_sealed(store, new_key(), sealed), spec).batch(0)


def test_a_manifest_that_is_none_is_refused(store: EmbeddedStore) -> None:
    with pytest.raises(DataError):
        open_sealed(store, KEY, store.put_bytes(b"{}"))


def test_a_published_job_is_sealed_when_it_has_a_key(store: EmbeddedStore) -> None:
    published = publish_job(store, TEXT, {"rounds": 1}, data_key=KEY)
    assert published.spec.access == "encrypted"
    assert b"crane" not in bytes_in(store.root)
    source = DataSource(open_sealed(store, KEY, published.spec.data), published.spec)
    assert source.dataset.tokens == published.tokens


@pytest.mark.parametrize(
    ("access", "key"), [("encrypted", None), ("public", KEY)], ids=["no key", "public"]
)
def test_a_key_and_encrypted_data_belong_together(
    store: EmbeddedStore, access: str, key: bytes | None
) -> None:
    with pytest.raises(SpecError, match="belong together"):
        publish_job(store, TEXT, {"access": access}, data_key=key)
    assert b"crane" not in bytes_in(store.root)
