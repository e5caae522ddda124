# SPDX-License-Identifier: Apache-2.0
"""Works like an honest miner, and states false merges of the shards that it owns of its stage."""

from __future__ import annotations

from torch import Tensor

from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer

_OFF = 1e-3  # what it adds to each merged number


class Misstater(Trainer):
    """Wants the model to move its own way."""

    def outgoing_shards(self, owner: int, shards: dict[int, Tensor]) -> dict[int, Tensor]:
        """Every shard, moved."""
        return {shard: values + _OFF for shard, values in shards.items()}


def build(context: Context) -> Misstater:
    """The cheat of a started agent."""
    return Misstater(context, open_stores(context.settings.store))
