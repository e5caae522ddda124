# SPDX-License-Identifier: Apache-2.0
"""A miner that does all of its work and takes longer (see dishonest.py for how it is started)."""

from __future__ import annotations

import time

from agents.pipeline.inbox import Entry
from agents.pipeline.stage import Passed
from agents.pipeline.work import StageWork
from agents.rounds.mining import Mining
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer

_SLEEP_S = 0.3  # many times what an entry of a tiny model takes


class SlowWork(StageWork):
    """Honest, on a machine that is slower than the others'."""

    def do(self, entry: Entry) -> Passed:
        """What the entry gives, later."""
        time.sleep(_SLEEP_S)
        return super().do(entry)


class SlowMiner(Trainer):
    """Its owner has an old machine."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, open_stores(context.settings.store))
        place = context, self.network, self.models, self.reader.memories, self.device
        self.mining = Mining(*place, self.outgoing, SlowWork)


def build(context: Context) -> SlowMiner:
    """The trainer of a started agent."""
    return SlowMiner(context)
