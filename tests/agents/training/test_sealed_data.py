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
from agents.storage.sealed import (
    SealError,
    key_id_in,
    key_id_of,
    new_key,
    sealed_size,
    shard_key,
)
from agents.training.data import Dataset, DataSource, pack
from agents.training.documents import DataError
from agents.training.sealed_data import key_for, open_sealed, pack_sealed, seal_dataset
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
    published = publish_job(store, TEXT, {"rounds": 1}, data_key=KEY, one_key=True)
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


def test_with_a_key_for_each_shard_the_secret_opens_the_same_text(
    store: EmbeddedStore, tiny_spec: Callable[..., JobSpec]
) -> None:
    manifest = pack_sealed(TEXT, store, KEY, one_key=False, shard_bytes=4096)
    source = DataSource(open_sealed(store, KEY, manifest), tiny_spec(data=manifest))
    whole = b"".join(text + b"\0" for text in TEXT)
    seq = source.batch(0).shape[1]
    for row in source.batch(5):
        assert bytes(row.tolist()) in whole
        assert len(row) == seq
    ids = [key_id_in(store.get(shard.cid, 1 << 20)) for shard in source.dataset.shards]
    assert len(set(ids)) == len(ids)
    assert key_id_of(KEY) not in ids


def test_the_keys_of_some_shards_open_those_and_no_other(
    store: EmbeddedStore, tiny_spec: Callable[..., JobSpec]
) -> None:
    manifest = pack_sealed(TEXT, store, KEY, one_key=False, shard_bytes=2048)
    whole = DataSource(open_sealed(store, KEY, manifest), tiny_spec(data=manifest))
    due = whole.shards_of([(3, 5)])
    assert 0 < len(due) < len(whole.dataset.shards) / 2
    every = key_for(whole.dataset, KEY)
    held = {index: every(index) for index in due}

    def key(index: int) -> bytes:
        if index not in held:
            raise SealError(f"no key of shard {index}")
        return held[index]

    own = DataSource(open_sealed(store, key, manifest), tiny_spec(data=manifest))
    for index in (3, 4):
        assert torch.equal(own.batch(index), whole.batch(index))
    opened = 0
    for index in range(own.batches_per_epoch):
        if whole.shards_of([(index, index + 1)]) <= due:
            opened += 1
            continue
        with pytest.raises(SealError, match="no key of shard"):
            own.batch(index)
    assert opened < own.batches_per_epoch / 2
    with pytest.raises(SealError, match="no key of shard"):
        own.val_batches(2)
    assert not whole.shards_measured(2) & due


def test_one_secret_for_two_datasets_gives_other_keys_in_each(store: EmbeddedStore) -> None:
    first, second = (
        Dataset.from_bytes(store.get(pack_sealed(TEXT, store, KEY, one_key=False), 1 << 20))
        for _ in range(2)
    )
    assert key_for(first, KEY)(0) != key_for(second, KEY)(0)
    assert key_for(first, KEY)(0) != key_for(first, KEY)(1)
    # A key of a shard gives no other's: not even by taking it for the secret.
    assert key_for(first, key_for(first, KEY)(0))(1) != key_for(first, KEY)(1)
    with pytest.raises(ValueError, match="32 bytes"):
        shard_key(KEY, b"short", 0)


def test_bytes_that_are_no_sealed_shard_name_no_key() -> None:
    for wrong in (b"", b"MENAGSHD\x01", b"MENAGSHD\x02" + bytes(100), bytes(200)):
        with pytest.raises(SealError, match="no sealed shard"):
            key_id_in(wrong)
