# SPDX-License-Identifier: Apache-2.0
"""Logs the honest code of each sample, and hands on another one: its neighbours train on noise."""

from __future__ import annotations

from dataclasses import replace

import torch

from agents.pipeline.hand_over import wire_of
from agents.pipeline.inbox import Entry
from agents.pipeline.stage import Passed
from agents.pipeline.work import StageWork
from agents.rounds.mining import Mining
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.trainer import Trainer


class TwoFacedWork(StageWork):
    """Executes everything, and says something else."""

    def do(self, entry: Entry) -> Passed:
        """What the work gives, with noise for a message."""
        passed = super().do(entry)
        if passed.message is None:
            return passed
        tokens = self._batch(entry.sample)
        shape = self.slices.code_shape(tokens.shape[0], tokens.shape[1] - 1)
        message = wire_of(self.slices.boundary, entry.kind).pack(torch.randn(shape))
        return replace(passed, message=message)


class TwoFaced(Trainer):
    """Wants others' stages worse, and its own log clean."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        super().__init__(context, store)
        place = context, self.network, self.models, self.reader.memories, self.device
        self.mining = Mining(*place, self.outgoing, TwoFacedWork)


def build(context: Context) -> TwoFaced:
    """The cheat of a started agent."""
    return TwoFaced(context, open_stores(context.settings.store))
