# SPDX-License-Identifier: Apache-2.0
"""How large a dataset's shards are where its sponsor does not say: by how much data there is.

A node downloads a shard whole, and where shards have keys of their own it comes to hold the keys of
those that its batches lie in. So a shard of such data is small, and a small corpus is cut finer,
until each node finds shards that no other needs. A large corpus is cut coarser, because the
manifest lists every shard.
"""

from __future__ import annotations

PLAIN_BYTES = 1024 * 1024  # of a shard that anybody may read
OWN_BYTES = 64 * 1024  # of plain bytes in a shard with a key of its own
EACH = 8  # shards with keys of their own for each node, where there is enough data
MOST = 1024  # shards


def plain_size(total: int) -> int:
    """Bytes of a shard of plain data of `total` bytes, or of data under one key."""
    return _whole(max(PLAIN_BYTES, -(-total // MOST)))


def own_size(total: int, nodes: int, batch_bytes: int) -> int:
    """Bytes of a shard with a key of its own, of `total` bytes for `nodes` nodes.

    A shard holds a batch (`batch_bytes`) at least, however little data there is: sequences lie
    within shards, and so do not run over the end of a shorter one.
    """
    finer = max(batch_bytes, min(OWN_BYTES, total // (EACH * max(1, nodes))))
    return _whole(max(finer, -(-total // MOST)))


def _whole(size: int) -> int:
    """Rounded up to whole tokens, whose longest has four bytes."""
    return -(-size // 4) * 4
