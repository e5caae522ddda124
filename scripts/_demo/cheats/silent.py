# SPDX-License-Identifier: Apache-2.0
"""Commits to its work and never reveals it."""

from __future__ import annotations

from agents.protocol.view import View
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer


class Silent(Trainer):
    """Keeps its work to itself."""

    def reveal(self, view: View, node: int) -> str | None:
        """Do nothing."""
        return None


def build(context: Context) -> Silent:
    """The cheat of a started agent."""
    return Silent(context, open_stores(context.settings.store))
