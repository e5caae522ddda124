# SPDX-License-Identifier: Apache-2.0
"""The aggregator: merges what was revealed and proposes the round's result.

    AGGREGATE   when on duty, or in the fallback window: fetch, check, merge, apply, evaluate,
                score, publish update and report, propose
    any phase   permissionless duties, before everybody else

It has no secrets. Verifiers recompute whatever it proposes.
"""

from __future__ import annotations

from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST
from agents.protocol.view import View, observe
from agents.rounds.access import DataAccess
from agents.rounds.proposer import Proposer
from agents.rounds.upkeep import Upkeep
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore, open_store
from agents.training.local import pick_device

_HEAD_START = 0.0
_PATIENCE_S = 0.0


class Aggregator:
    """One aggregator node, as a function of the chain."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        self.context = context
        self.network = Network(context.chain, context.deployment)
        self.access = DataAccess(self.network, store, context)
        configured = context.settings.device
        device = pick_device() if configured == "auto" else configured
        self.reader = self.access.reader(device)
        self.proposer = Proposer(self.network, self.reader, context.sender, _HEAD_START)
        self.upkeep = Upkeep(self.network, context.sender, _PATIENCE_S, context.settings.jitter_s)

    def step(self, head: Head) -> str | None:
        """The single next action."""
        job_id = self.context.settings.job_id or self.network.current_job()
        if not job_id or job_id > self.network.job_count():
            return None
        view = observe(self.network, job_id, head)
        self.context.metrics.round.set(view.round_id)
        self.context.metrics.phase.set(view.phase)
        node = self.network.node_of(self.context.wallet.address)
        did = self.access.step(job_id, node) if node else None
        if node and not did and self.access.ready(job_id, node):
            did = self.proposer.step(view, node)
        return did or self.upkeep.step(view, first=self._leads(view, node))

    def _leads(self, view: View, node: int) -> bool:
        """Whether the seed drew this node for the newest round.

        The contract says so from AGGREGATE on; the one who leads moves the phases before it too.
        """
        if not node or not view.round_id or view.round.seed == ZERO_DIGEST:
            return False
        aggregators = view.snapshot.aggregators
        place = int.from_bytes(view.round.seed, "big") % len(aggregators)
        return aggregators[place] == node


def build(context: Context) -> Aggregator:
    """The aggregator of a started agent."""
    return Aggregator(context, open_store(context.settings.store))
