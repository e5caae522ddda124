# SPDX-License-Identifier: Apache-2.0
"""Rests for three rounds, misses their updates, and goes on from its own, deviating model.

The third peer of Figure 2 of the Gauntlet paper. It takes every update since it came back, so that
its model stays as far from the others' as the updates it missed; it claims to have started from the
round's model all the same. CHEAT_PAUSE_AFTER (default 1) is the last round before the rest.

A rest is an ordinary one (`set_active`): nobody waits for the node while it lasts.
"""

from __future__ import annotations

import os

from agents.protocol.view import View
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.trainer import Trainer
from agents.training.state import State

AFTER = "CHEAT_PAUSE_AFTER"
PAUSE = 3  # rounds


class Desynchronised(Trainer):
    """Never catches up."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        super().__init__(context, store)
        self._last = int(os.environ.get(AFTER, "1"))
        self._missed: State | None = None

    def commit(self, view: View, node: int) -> str | None:
        """The honest commitment; then the rest begins, or ends before the next round opens."""
        did = super().commit(view, node)
        resting = self._last <= view.round_id < self._last + PAUSE
        committed = node not in view.snapshot.nodes or self._committed(view, node)
        if committed and self.network.node(node).active == resting:
            self.context.sender.send(self.network.registry, "set_active", node, not resting)
            return f"{'rests' if resting else 'is back'} after round {view.round_id}"
        return did

    def starting_state(self, view: View) -> State:
        """The round's model, without the updates that were missed."""
        model = super().starting_state(view)
        if view.round_id <= self._last + PAUSE:
            return model
        missed = self._updates_missed(view.job_id)
        return {name: tensor + missed[name] for name, tensor in model.items()}

    def _updates_missed(self, job_id: int) -> State:
        """By how much the model that the rest began with differs from the one it ended with."""
        if self._missed is None:
            held, found = (
                self.models.at(job_id, self.network.round(job_id, number).prev_model)
                for number in (self._last + 1, self._last + PAUSE + 1)
            )
            self._missed = {name: held[name] - found[name] for name in held}
        return self._missed

    def _committed(self, view: View, node: int) -> bool:
        return node in self.network.committed(view.job_id, view.round_id, [node])


def build(context: Context) -> Desynchronised:
    """The cheat of a started agent."""
    return Desynchronised(context, open_stores(context.settings.store))
