# SPDX-License-Identifier: Apache-2.0
"""The executor of redundant tasks: a node that trains nothing and runs what it is drawn for.

    before the first task   wait until the owner has registered the node, take a seat
    any time                `agents.executor`

The seat is looked after last: nothing comes before a reveal.
"""

from __future__ import annotations

from agents.executor import Executor
from agents.protocol.network import Network
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore, open_store
from agents.tasks.seat import TaskSeat


class Redundant:
    """One node that runs tasks, as a function of the chain. `kind` is how it does."""

    def __init__(
        self, context: Context, store: ContentStore, kind: type[Executor] = Executor
    ) -> None:
        self.context = context
        self.network = Network(context.chain, context.deployment)
        self.executor = kind(self.network, context, store, context.settings.device)
        self.seat = TaskSeat(self.network, self.executor.tasks, context)
        self.node_id = 0
        self._told = False

    def step(self, head: Head) -> str | None:
        """The single next action."""
        if not self.node_id:
            self.node_id = self.network.node_of(self.context.wallet.address)
            if not self.node_id:
                self._tell()
                return None
            self.context.log.info("node", node_id=self.node_id)
        did = self.executor.step(head, self.node_id)
        return did or self.seat.step(head, self.node_id, self.executor.runner.label)

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self.context.log.warning(
                "not_registered",
                why=f"no node has {self.context.wallet.address} as its operator; the owner "
                "registers it with `ape run node register`",
            )


def build(context: Context) -> Redundant:
    """The executor of a started agent."""
    return Redundant(context, open_store(context.settings.store))
