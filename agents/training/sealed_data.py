# SPDX-License-Identifier: Apache-2.0
"""A dataset whose shards only holders of the job's key can read.

The manifest is the same as for plain data (dtype, tokenizer, how many tokens each shard has), and
names sealed shards. Every shard is sealed, those of the validation split too. Plain shards never
reach the store: they are made in a private folder that is removed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.sealed import Reader, SealedStore, seal
from agents.training.data import MAX_MANIFEST_BYTES, MAX_SHARD_BYTES, Dataset, Shard, pack


def open_sealed(store: Reader, key: bytes, manifest: str) -> SealedStore:
    """A reader for `DataSource` that opens the shards of the sealed dataset `manifest` (a CID).

    `key`: the job's 32-byte key. Raises DataError for a wrong manifest, SealError for a shard that
    is listed twice, StoreError.
    """
    dataset = Dataset.from_bytes(store.get(manifest, MAX_MANIFEST_BYTES))
    return SealedStore(store, key, [shard.cid for shard in dataset.shards])


def seal_dataset(manifest: str, source: ContentStore, target: ContentStore, key: bytes) -> str:
    """Seal every shard of the plain dataset `manifest` of `source` into `target`.

    One shard at a time goes through a temporary folder (mode 0700, removed afterwards), in bounded
    memory. The tokenizer is copied as it is. Returns the CID of the sealed dataset's manifest.
    Raises DataError for a wrong manifest, StoreError.
    """
    dataset = Dataset.from_bytes(source.get(manifest, MAX_MANIFEST_BYTES))
    itemsize = np.dtype(dataset.dtype).itemsize
    sealed = []
    with TemporaryDirectory(prefix="menagerie-seal-") as folder:
        plain, box = Path(folder) / "plain", Path(folder) / "sealed"
        for index, shard in enumerate(dataset.shards):
            source.get_file(shard.cid, plain, shard.tokens * itemsize)
            with plain.open("rb") as reading, box.open("wb") as writing:
                seal(reading, writing, key, index)
            sealed.append(Shard(cid=target.put_file(box), tokens=shard.tokens))
    if dataset.tokenizer is not None:
        target.put_bytes(source.get(dataset.tokenizer, MAX_SHARD_BYTES))
    return target.put_bytes(dataset.model_copy(update={"shards": tuple(sealed)}).to_bytes())


def pack_sealed(documents: Iterable[bytes], store: ContentStore, key: bytes, **options: Any) -> str:
    """What `pack` does, with sealed shards: returns the CID of the sealed dataset's manifest.

    `options` are `pack`'s. The plain shards are in a temporary folder (mode 0700) meanwhile.
    Raises DataError, StoreError.
    """
    with TemporaryDirectory(prefix="menagerie-pack-") as folder:
        staging = EmbeddedStore(folder)
        return seal_dataset(pack(documents, staging, **options), staging, store, key)
