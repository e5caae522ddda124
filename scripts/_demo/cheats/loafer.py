# SPDX-License-Identifier: Apache-2.0
"""Holds a stage and does none of its work: random codes and gradients, a log that says otherwise.

Its messages have the right form, its log their digests, and its weights hardly change.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agents.pipeline.clasp import PPM, loss_digest
from agents.pipeline.hand_over import wire_of
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Event, Kind
from agents.pipeline.stage import Passed
from agents.pipeline.work import StageWork, digest
from agents.rounds.mining import Mining
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.trainer import Trainer

_STEP = 1e-4  # how far each number moves in a step
_LOSS = 3.0


class IdleWork(StageWork):
    """Answers each entry with random numbers."""

    def do(self, entry: Entry) -> Passed:
        """What the real work would give, by its form alone."""
        if entry.kind is Kind.STEP:
            for tensor in self.state().values():
                tensor.add_(_STEP * torch.randn(tensor.shape))
            self.stepped()
            return Passed()
        forward = entry.kind is Kind.FORWARD
        if forward:
            self.waiting[entry.sample] = None
            if self.stage == self.epoch.last:
                self.losses[entry.sample] = _LOSS
        else:
            del self.waiting[entry.sample]
            self.passes += 1
        ends = self.stage == (self.epoch.last if forward else 0)
        message = None if ends else self._invented(entry.kind, self._batch(entry.sample))
        received = entry.message if entry.sender else None
        told = loss_digest(round(_LOSS * PPM)) if ends and forward else digest(message)
        self.events.append(Event(entry.kind, entry.sample, digest(received), told))
        return Passed(message, _LOSS if ends and forward else None)

    def _invented(self, kind: Kind, tokens: Tensor) -> bytes:
        shape = self.slices.code_shape(tokens.shape[0], tokens.shape[1] - 1)
        return wire_of(self.slices.boundary, kind).pack(torch.randn(shape))


class Loafer(Trainer):
    """Wants to be paid for passes that it never made."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        super().__init__(context, store)
        place = context, self.network, self.models, self.reader.memories, self.device
        self.mining = Mining(*place, self.outgoing, IdleWork)


def build(context: Context) -> Loafer:
    """The cheat of a started agent."""
    return Loafer(context, open_stores(context.settings.store))
