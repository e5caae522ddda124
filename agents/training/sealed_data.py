# SPDX-License-Identifier: Apache-2.0
"""A dataset whose shards only holders of a key can read: one key for all, or one for each.

The manifest is the same as for plain data (dtype, tokenizer, how many tokens each shard has), and
names sealed shards. Every shard is sealed, those of the validation split too. Plain shards never
reach the store: they are made in a private folder that is removed afterwards.

With a key for each shard, the manifest has the salt that they are derived with from the sponsor's
one secret (`agents.storage.sealed.shard_key`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.sealed import KEY_BYTES, Reader, SealedStore, seal, shard_key
from agents.training.data import MAX_MANIFEST_BYTES, MAX_SHARD_BYTES, Dataset, Shard, pack
from agents.training.sharding import own_size


def key_for(dataset: Dataset, master: bytes) -> Callable[[int], bytes]:
    """What gives the key of a shard by its place, to the holder of the sponsor's secret."""
    if dataset.key_salt is None:
        return lambda index: master
    salt = bytes.fromhex(dataset.key_salt)
    return lambda index: shard_key(master, salt, index)


def open_sealed(store: Reader, key: bytes | Callable[[int], bytes], manifest: str) -> SealedStore:
    """A reader for `DataSource` that opens the shards of the sealed dataset `manifest` (a CID).

    `key`: the sponsor's 32-byte secret, which gives every shard's key; or what gives the key of a
    shard by its place. Raises DataError for a wrong manifest, SealError for a shard that is listed
    twice, StoreError.
    """
    dataset = Dataset.from_bytes(store.get(manifest, MAX_MANIFEST_BYTES))
    if isinstance(key, bytes) and dataset.key_salt is not None:
        key = key_for(dataset, key)
    return SealedStore(store, key, [shard.cid for shard in dataset.shards])


def seal_dataset(
    manifest: str, source: ContentStore, target: ContentStore, key: bytes, one_key: bool = True
) -> str:
    """Seal every shard of the plain dataset `manifest` of `source` into `target`.

    One shard at a time goes through a temporary folder (mode 0700, removed afterwards), in bounded
    memory. The tokenizer is copied as it is. `one_key`: seal all shards with `key`, else each with
    its own, derived from `key`. Returns the CID of the sealed dataset's manifest. Raises DataError
    for a wrong manifest, StoreError.
    """
    plain_one = Dataset.from_bytes(source.get(manifest, MAX_MANIFEST_BYTES))
    salt = None if one_key else secrets.token_bytes(KEY_BYTES).hex()
    dataset = plain_one.model_copy(update={"key_salt": salt})
    key_of = key_for(dataset, key)
    itemsize = np.dtype(dataset.dtype).itemsize
    sealed = []
    with TemporaryDirectory(prefix="menagerie-seal-") as folder:
        plain, box = Path(folder) / "plain", Path(folder) / "sealed"
        for index, shard in enumerate(dataset.shards):
            source.get_file(shard.cid, plain, shard.tokens * itemsize)
            with plain.open("rb") as reading, box.open("wb") as writing:
                seal(reading, writing, key_of(index), index)
            sealed.append(Shard(cid=target.put_file(box), tokens=shard.tokens))
    if dataset.tokenizer is not None:
        target.put_bytes(source.get(dataset.tokenizer, MAX_SHARD_BYTES))
    return target.put_bytes(dataset.model_copy(update={"shards": tuple(sealed)}).to_bytes())


def pack_sealed(
    documents: Iterable[bytes],
    store: ContentStore,
    key: bytes,
    one_key: bool = True,
    nodes: int = 8,
    batch_bytes: int = 1024,
    **options: Any,
) -> str:
    """What `pack` does, with sealed shards: returns the CID of the sealed dataset's manifest.

    `one_key`: as for `seal_dataset`; without it shards are as small as so many `nodes` with batches
    of so many `batch_bytes` need (`agents.training.sharding`), unless `options`, which are
    `pack`'s, say how large. The plain shards are in a temporary folder (mode 0700) meanwhile.
    Raises DataError, StoreError.
    """
    if not one_key:
        size_of = partial(own_size, nodes=nodes, batch_bytes=batch_bytes)
        options.setdefault("shard_bytes", size_of)
    with TemporaryDirectory(prefix="menagerie-pack-") as folder:
        staging = EmbeddedStore(folder)
        plain = pack(documents, staging, **options)
        return seal_dataset(plain, staging, store, key, one_key)
