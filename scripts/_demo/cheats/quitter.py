# SPDX-License-Identifier: Apache-2.0
"""Commits to a fake and reveals it only where it can't lose: when another has revealed the same."""

from __future__ import annotations

from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.tasks.contract import Task
from scripts._demo.cheats.forger import Forger


class Quitter(Forger):
    """Would rather be silent than be caught."""

    def reveals(self, task: Task) -> bool:
        """Whether its tag has been revealed."""
        lane = task.lane_of(self.node_id)
        own = None if lane is None else self.secret_behind(task, task.answers[lane])
        return own is not None and own.tag in task.revealed()


def build(context: Context) -> Quitter:
    """The cheat of a started agent."""
    return Quitter(context, open_stores(context.settings.store))
