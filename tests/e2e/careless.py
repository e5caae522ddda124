# SPDX-License-Identifier: Apache-2.0
"""A miner that works with broken weights (see dishonest.py for how it is started).

Its log, its losses and its payload say what it did, and each fits the others. Its model gives noise
for an answer, so its samples lose more than others' do.
"""

from __future__ import annotations

from typing import Any

import torch

from agents.pipeline.work import StageWork
from agents.rounds.mining import Mining
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer


class CarelessWork(StageWork):
    """Has random numbers for a head, and comes back to them after each step."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        lots = torch.Generator().manual_seed(7)
        self._broken = {name: tensor.clone() for name, tensor in self.state().items()}
        for name, tensor in self._broken.items():
            if name == "head.weight":
                tensor.copy_(torch.randn(tensor.shape, generator=lots))
        self._break()

    def stepped(self) -> None:
        """The step is logged with what became of it."""
        self._break()
        super().stepped()

    def _break(self) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(self._broken[name])


class Careless(Trainer):
    """Its owner has a machine with a fault, and didn't look."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, open_stores(context.settings.store))
        place = context, self.network, self.models, self.reader.memories, self.device
        self.mining = Mining(*place, self.outgoing, CarelessWork)


def build(context: Context) -> Careless:
    """The trainer of a started agent."""
    return Careless(context)
