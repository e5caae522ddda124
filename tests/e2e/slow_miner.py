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

_LEAST_S = 0.3  # many times what an entry of a tiny model takes
_MOST_S = 2.0  # less than others wait for it
_SLOWER = 3  # times what an entry takes here, as where the whole machine is busy


class SlowWork(StageWork):
    """Honest, on a machine that is slower than the others'."""

    def do(self, entry: Entry) -> Passed:
        """What the entry gives, later."""
        began = time.monotonic()
        passed = super().do(entry)
        time.sleep(min(_MOST_S, max(_LEAST_S, _SLOWER * (time.monotonic() - began))))
        return passed


class SlowMiner(Trainer):
    """Its owner has an old machine."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, open_stores(context.settings.store))
        place = context, self.network, self.models, self.reader.memories, self.device
        self.mining = Mining(*place, self.outgoing, SlowWork)


def build(context: Context) -> SlowMiner:
    """The trainer of a started agent."""
    return SlowMiner(context)
