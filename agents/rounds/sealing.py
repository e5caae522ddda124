# SPDX-License-Identifier: Apache-2.0
"""Payloads that only a round's aggregators and verifiers may read (`privacy: aggregate`).

Rule: a payload is sealed for every aggregator and verifier of the round's snapshot that has an
encryption key in the registry. Whoever holds no such node can't read it, and says so instead of
judging: trainers, committee and auditors see the noised update only.
"""

from __future__ import annotations

from agents.rounds.network import ZERO_DIGEST, Network
from agents.rounds.view import View
from agents.runtime.identity import Identity
from agents.storage.envelope import Purpose
from agents.storage.sealed_payload import open_payload, seal_payload


class Sealing:
    """Seals payloads, and opens those for one agent's node."""

    def __init__(self, network: Network, identity: Identity, operator: str) -> None:
        self._network = network
        self._identity = identity
        self._operator = operator

    def recipients(self, view: View) -> dict[int, bytes]:
        """Public keys by node id of those who may read the round's payloads."""
        nodes = sorted({*view.snapshot.aggregators, *view.snapshot.verifiers})
        registry = self._network.registry
        keys = self._network.chain.call_many(
            [(registry, "encryption_key_of", (node,)) for node in nodes]
        )
        pairs = zip(nodes, map(bytes, keys), strict=True)
        return {node: key for node, key in pairs if key != ZERO_DIGEST}

    def seal(self, payload: bytes, view: View) -> bytes | None:
        """The payload for the round's readers; None while no aggregator has an encryption key."""
        readers = self.recipients(view)
        if not readers.keys() & set(view.snapshot.aggregators):
            return None
        return seal_payload(payload, readers, lambda n, k: self._purpose(view.job_id, n, k))

    def open(self, raw: bytes, job_id: int) -> bytes:
        """The payload in `raw`. Raises NotForUs, SealError."""
        node = self._network.node_of(self._operator)
        return open_payload(
            raw, node, self._identity.open, lambda n, k: self._purpose(job_id, n, k)
        )

    def _purpose(self, job_id: int, node: int, key_id: bytes) -> Purpose:
        deployment = self._network.deployment
        return Purpose(deployment.chain_id, self._network.rounds.address, job_id, node, key_id)
