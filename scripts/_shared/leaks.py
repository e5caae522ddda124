# SPDX-License-Identifier: Apache-2.0
"""Who may have leaked keys of shards: those who had been given all that are shown.

A key of a shard is the same for everybody who was given it, so one key names a group. What differs
from node to node is which keys it was given. A leak of several is narrowed down to those who had
all of them, and often to one. It is a hint for the sponsor and no proof: two nodes may put
together what they hold, and the sponsor has every key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from agents.jobs.disclosed import Disclosure
from agents.storage.content_store import ContentStore
from agents.storage.sealed import key_id_in, key_id_of, sealed_size
from agents.training.data import Dataset


def places_of(store: ContentStore, dataset: Dataset, leaked: Iterable[bytes]) -> frozenset[int]:
    """Which shards these keys open; what opens none is left out. Nothing is opened for it: a shard
    names its key's id."""
    wanted = {key_id_of(key) for key in leaked}
    itemsize = {"uint8": 1, "uint16": 2, "uint32": 4}[dataset.dtype]
    return frozenset(
        index
        for index, shard in enumerate(dataset.shards)
        if key_id_in(store.get(shard.cid, sealed_size(shard.tokens * itemsize))) in wanted
    )


def receivers(disclosed: Iterable[Disclosure]) -> dict[str, frozenset[int]]:
    """The shards whose keys each reader was given, by the files on record."""
    given: dict[str, set[int]] = defaultdict(set)
    for one in disclosed:
        if one.release.kind == "shards":
            for entry in one.release.readers:
                given[entry.reader] |= set(entry.items)
    return {reader: frozenset(items) for reader, items in given.items()}


def suspects_of(given: dict[str, frozenset[int]], leaked: Collection[int]) -> list[str]:
    """Readers that had been given every one of the leaked keys; nobody for no key."""
    if not leaked:
        return []
    return sorted(reader for reader, items in given.items() if set(leaked) <= items)
