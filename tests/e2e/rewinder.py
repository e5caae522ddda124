# SPDX-License-Identifier: Apache-2.0
"""A trainer whose inner optimizer forgets (see dishonest.py for how it is started).

It begins each round from zero where the job says that its state lives on, and is honest otherwise:
batches, steps, trace and proof are as they should be from that state.
"""

from __future__ import annotations

from agents.rounds.carried import Carried
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer


class Rewinder(Trainer):
    """Says to itself that it has kept the codec's memory alone."""

    def _carried(self, job_id: int, round_id: int, seed: bytes) -> Carried | None:
        """What it kept, without the optimizer's state."""
        kept = super()._carried(job_id, round_id, seed)
        return None if kept is None else Carried(kept.owed)


def build(context: Context) -> Rewinder:
    """The rewinder of a started agent."""
    return Rewinder(context, open_stores(context.settings.store))
