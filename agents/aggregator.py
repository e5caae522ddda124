# SPDX-License-Identifier: Apache-2.0
"""The aggregator: merges what was revealed and proposes the round's result.

    AGGREGATE   when on duty, or in the fallback window: fetch, check, merge, apply, evaluate,
                score, publish update and report, propose (`agents.rounds.held_back`: or the other
                way round)
    any phase   permissionless duties, before everybody else

It has no secrets. Verifiers recompute whatever it proposes. It serves several jobs at once.
"""

from __future__ import annotations

from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, Role
from agents.protocol.view import View
from agents.rounds.data_access import DataAccess
from agents.rounds.gathering import Gathering
from agents.rounds.proposer import Proposer
from agents.rounds.serving import Serving
from agents.rounds.upkeep import Upkeep
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.training.local import device_name, device_of

_HEAD_START = 0.0
_PATIENCE_S = 0.0


class AggregatorInJob:
    """One aggregator node in one job."""

    def __init__(self, context: Context, store: ContentStore, network: Network) -> None:
        self.context = context
        self.network = network
        self.access = DataAccess(network, store, context)
        device = device_of(context.settings.device)
        context.log.info("device", device=device, name=device_name(device))
        self.reader = self.access.reader(device)
        self.proposer = Proposer(
            *(network, self.reader, context.sender, _HEAD_START),
            Gathering(context, network, self.reader),
        )
        self.upkeep = Upkeep(network, context.sender, _PATIENCE_S, context.settings.jitter_s)

    def step(self, view: View, node: int) -> str | None:
        """The single next action in the job."""
        did = self.access.step(view.job_id, node) if node else None
        if node and not did and self.access.ready(view.job_id, node):
            did = self.proposer.publish(view) or self.proposer.step(view, node)
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


class Aggregator:
    """One aggregator node, as a function of the chain. `kind`: what it does in a job."""

    kind = AggregatorInJob

    def __init__(self, context: Context, store: ContentStore) -> None:
        self.context = context
        self.network = Network(context.chain, context.deployment)
        self.jobs = Serving(
            self.network,
            context,
            store,
            Role.AGGREGATOR,
            lambda own: self.kind(own, store, self.network),
        )

    def step(self, head: Head) -> str | None:
        """The single next action."""
        return self.jobs.step(head, self.network.node_of(self.context.wallet.address))


def build(context: Context) -> Aggregator:
    """The aggregator of a started agent."""
    return Aggregator(context, open_stores(context.settings.store))
