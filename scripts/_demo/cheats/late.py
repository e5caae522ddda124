# SPDX-License-Identifier: Apache-2.0
"""Is in time in one round of four, and gets to work only once the others' windows are over.

It never commits late, because the contract would refuse that. So it has nothing to reveal and is
not slashed; it loses only its pay.
"""

from __future__ import annotations

from agents.protocol.view import View
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer

_IN_TIME = 4  # one round of so many, the first among them


class Late(Trainer):
    """Looks at the clock too late."""

    def commit(self, view: View, node: int) -> str | None:
        """As everybody, in the rounds in which it is in time."""
        expected = node in view.snapshot.nodes
        if expected and view.round_id % _IN_TIME != 1 and not view.overdue:
            return None
        return super().commit(view, node)


def build(context: Context) -> Late:
    """The cheat of a started agent."""
    return Late(context, open_stores(context.settings.store))
