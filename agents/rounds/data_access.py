# SPDX-License-Identifier: Apache-2.0
"""Opens jobs for one agent, with the data keys that were released or disclosed to its node.

Only work on a job's text needs its key. Spec, model and chain are open to everyone, so an agent
without a key still does the permissionless duties, such as ending a phase whose deadline has
passed.
"""

from __future__ import annotations

from agents.jobs.disclosed import ReceivedKeys
from agents.jobs.job import DataKeys
from agents.jobs.keys import DataKeyDuty
from agents.protocol.network import Network
from agents.rounds.large_files import LargeFiles
from agents.rounds.models import CaughtUp, Models
from agents.rounds.plan import Plan, Plans
from agents.rounds.reader import RoundReader
from agents.rounds.sealing import Sealing
from agents.rounds.shards import NeededShards, Shards
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.key_release import node_reader
from agents.training.spec import SpecError


class DataAccess:
    """The jobs of one agent. `models` reads them, with the keys that its node holds."""

    def __init__(self, network: Network, store: ContentStore, context: Context) -> None:
        self._network = network
        self._store = store
        self._address = context.wallet.address
        memory, large = context.settings.memory, LargeFiles(store)
        self.models = Models(network, store, self._key, self._caught_up, memory, large)
        context.metrics.model_numbers.set_function(lambda: self.models.largest)
        self._context = context
        self._duty = DataKeyDuty(network, context, self.models.spec)
        self.sealing = Sealing(network, self._duty.identity, self._address)
        self._received = ReceivedKeys(network, store, context, self._duty.identity)
        self.needed = NeededShards(network, self.models, Plans(network, self.models))

    def reader(self, device: str) -> RoundReader:
        """A reader of rounds with what this agent's keys open."""
        return RoundReader(
            self._network,
            self._store,
            device,
            models=self.models,
            sealing=self.sealing,
            folder=self._context.artefacts,
        )

    def step(self, job_id: int, node: int) -> str | None:
        """The next thing to do to read a job's data, or to be written to; None if nothing is."""
        if not self._encrypted(job_id):
            return self._duty.publish(node) if self.seals(job_id) else None
        if self._own_keys(job_id):
            return self._duty.publish(node)
        did = self._duty.publish(node) if self.seals(job_id) else None
        return did or self._duty.step(job_id, node)

    def ready(self, job_id: int, node: int) -> bool:
        """Whether the node can read what models are measured on."""
        if not self._encrypted(job_id):
            return True
        if self._own_keys(job_id):
            return self._holds(job_id, node, self.needed.to_measure(job_id))
        return self._duty.key(job_id, node) is not None

    def may_train(self, job_id: int, plan: Plan, node: int) -> bool:
        """Whether the node can read the batches that it was assigned."""
        if not self._encrypted(job_id) or not self._own_keys(job_id):
            return self.ready(job_id, node)
        return self._holds(job_id, node, self.needed.to_train(job_id, plan, node))

    def may_check(self, job_id: int, plan: Plan, node: int, of_node: int) -> bool:
        """Whether the node can do another one's work again."""
        if not self._encrypted(job_id) or not self._own_keys(job_id):
            return self.ready(job_id, node)
        return self._holds(job_id, node, self.needed.to_check(job_id, plan, of_node))

    def keys_of_shards(self, job_id: int, node: int) -> dict[int, bytes]:
        """The keys of shards that the node was given, by place."""
        return self._received.of_releaser(job_id, node_reader(node))[0]

    def _holds(self, job_id: int, node: int, shards: Shards) -> bool:
        return shards <= self.keys_of_shards(job_id, node).keys()

    def _own_keys(self, job_id: int) -> bool:
        return self.models.job(job_id).own_keys

    def seals(self, job_id: int) -> bool:
        """Whether payloads of the job are sealed for its aggregators and verifiers."""
        try:
            return self.models.job(job_id).sealed
        except StoreUnavailable:
            raise
        except (SpecError, StoreError):
            return False

    def _encrypted(self, job_id: int) -> bool:
        try:
            return self.models.spec(job_id).access == "encrypted"
        except StoreUnavailable:
            raise
        except (SpecError, StoreError):
            return False  # nobody can work on such a job; its permissionless duties remain

    def _caught_up(self, how: CaughtUp) -> None:
        """Say that the node's model was not the chain's, and is now."""
        facts = {
            "job": how.job_id,
            "model": how.model.hex(),
            "from_round": how.start,
            "rounds_replayed": how.replayed,
        }
        if how.damaged:
            self._context.metrics.resyncs.inc()
            lost = [model.hex() for model in how.damaged]
            self._context.log.warning("resynced", damaged=lost, **facts)
        else:
            self._context.log.info("caught_up", **facts)

    def _key(self, job_id: int) -> DataKeys | None:
        node = self._network.node_of(self._address)
        if not node:
            return None
        if self._own_keys(job_id):
            return self.keys_of_shards(job_id, node)
        return self._duty.key(job_id, node)
