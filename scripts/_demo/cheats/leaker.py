# SPDX-License-Identifier: Apache-2.0
"""Sells the keys of the shards that it was given: they end up in a file that everybody can read.

It trains honestly and is not slashed for it: no rule of the chain can know where a file comes from.
"""

from __future__ import annotations

from pathlib import Path

from agents.protocol.view import View
from agents.runtime.context import Context
from agents.storage.durable import write_atomic
from agents.storage.several import open_stores
from agents.trainer import Trainer

LEAK = "leaked.txt"  # in the node's own folder


class Leaker(Trainer):
    """Shows its keys to strangers."""

    def commit(self, view: View, node: int) -> str | None:
        """As everybody; then it leaks what it holds, without its name on it."""
        did = super().commit(view, node)
        if did is not None and did.startswith("committed"):
            self.leak(view.job_id, node)
        return did

    def leak(self, job_id: int, node: int) -> None:
        """Write down all keys that it holds."""
        keys = sorted(self.access.keys_of_shards(job_id, node).values())
        path = Path(self.context.settings.data_dir) / LEAK
        write_atomic(path, "".join(f"{key.hex()}\n" for key in keys).encode())


def build(context: Context) -> Leaker:
    """The cheat of a started agent."""
    return Leaker(context, open_stores(context.settings.store))
