# SPDX-License-Identifier: Apache-2.0
"""Payloads that only a round's aggregators and verifiers may read (`privacy: aggregate`).

Rule: a payload is sealed for every aggregator and verifier of the round's snapshot that had an
encryption key when the round opened; one that leaves somebody out is refused by all. Trainers and
auditors can't read it. They see the noised update only, and say so instead of judging the payload.
Committee members read it while a case is before them: verifiers then disclose its key to them
(`agents.verify.disclosing`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.protocol.network import Network
from agents.protocol.view import View
from agents.rounds.submissions import Unseal
from agents.runtime.wallet import Identity
from agents.storage.envelope import Purpose, is_usable
from agents.storage.sealed_payload import open_payload, payload_key, seal_payload


class Sealing:
    """Seals payloads, and opens those for one agent's node."""

    def __init__(self, network: Network, identity: Identity, operator: str) -> None:
        self._network = network
        self._identity = identity
        self._operator = operator
        self._place: object = None  # the round that `_readers` belong to
        self._readers: dict[int, bytes] = {}

    def readers(self, view: View) -> dict[int, bytes]:
        """Public keys by node id of those who must be able to read the round's payloads.

        Aggregators and verifiers of the snapshot that had a usable key when the round opened: the
        same for everyone, so that a payload that leaves one out is found by all.
        """
        block = view.round.opened_block
        nodes = tuple(sorted({*view.snapshot.aggregators, *view.snapshot.verifiers}))
        place = (nodes, block, self._network.chain.block_hash(block))
        if place != self._place:
            keys = self._network.encryption_keys_at(nodes, block)
            self._readers = {node: key for node, key in keys.items() if is_usable(key)}
            self._place = place
        return self._readers

    def ready(self, view: View) -> bool:
        """Whether a payload of the round can be sealed for any aggregator."""
        return bool(self.readers(view).keys() & set(view.snapshot.aggregators))

    def seal(self, payload: bytes, view: View) -> bytes:
        """The payload for the round's readers. ValueError unless `ready`."""
        return seal_payload(
            payload, self.readers(view), lambda n, k: self._purpose(view.job_id, n, k)
        )

    def opener(self, view: View) -> Unseal:
        """What opens the round's payloads, in any thread: the chain is asked here, for all of them.
        It raises NotForUs, SealError."""
        node, readers = self._network.node_of(self._operator), self.readers(view)
        unwrap, purpose = self._identity.open, partial(self._purpose, view.job_id)
        return lambda raw: open_payload(raw, node, unwrap, purpose, readers)

    def key_finder(self, job_id: int) -> Callable[[bytes], bytes]:
        """What finds the key of a payload of the job, to be disclosed, in any thread: the chain is
        asked here. It raises NotForUs, SealError."""
        node, unwrap = self._network.node_of(self._operator), self._identity.open
        purpose = partial(self._purpose, job_id)
        return lambda raw: payload_key(raw, node, unwrap, purpose)

    def _purpose(self, job_id: int, node: int, key_id: bytes) -> Purpose:
        deployment = self._network.deployment
        return Purpose(deployment.chain_id, self._network.rounds.address, job_id, node, key_id)
