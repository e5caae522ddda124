# SPDX-License-Identifier: Apache-2.0
"""Miners of which one in each epoch works with a fault (see dishonest.py for how they are started).

Who it is follows from the epoch, so that it sits in the first stage whatever seats the seed draws.
Its steps lead uphill, so the samples that pass it lose more, at whichever miner of the last stage
they end. Its log and its payload say what it did, and each fits the other. It stays as near to
where it began as an epoch's steps of the job's rate may lead: else its payload would be none
(`agents.rounds.stage_bound`).
"""

from __future__ import annotations

from typing import Any

from agents.pipeline.epoch import Epoch
from agents.pipeline.work import StageWork
from agents.rounds.mining import Mining
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer

_AWAY = 0.025  # from where each number began


def careless_of(epoch: Epoch) -> int:
    """The miner of the first stage whose samples those of the last stage share most evenly.

    Else one of the last stage may have so many of them by chance that its own mean loss is high.
    """
    ways = [epoch.route(sample) for sample in epoch.samples]

    def uneven(miner: int) -> float:
        shares = []
        for reporter in epoch.stages[-1]:
            own = [way[0] for way in ways if way[-1] == reporter]
            shares.append(own.count(miner) / max(1, len(own)))
        return max(shares) - min(shares)

    return min(epoch.stages[0], key=uneven)


class CarelessWork(StageWork):
    """Honest, unless the epoch has it be careless. Then each of its steps leads the wrong way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._careless = self.miner == careless_of(self.epoch)
        self._began = {name: tensor.clone() for name, tensor in self.state().items()}
        self._before = self._began

    def stepped(self) -> None:
        """The step is logged with what became of it."""
        if self._careless:
            for name, tensor in self.state().items():
                step = tensor - self._before[name]
                tensor.copy_(self._began[name] - _AWAY * step.sign())
            self._before = {name: tensor.clone() for name, tensor in self.state().items()}
        super().stepped()


class Careless(Trainer):
    """Its owner has changed the optimizer, and hasn't looked what becomes of it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, open_stores(context.settings.store))
        place = context, self.network, self.models, self.reader.memories, self.device
        self.mining = Mining(*place, self.outgoing, CarelessWork)


def build(context: Context) -> Careless:
    """The trainer of a started agent."""
    return Careless(context)
