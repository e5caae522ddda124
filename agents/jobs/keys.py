# SPDX-License-Identifier: Apache-2.0
"""How a node gets the key of a job's encrypted data: it asks on chain and is answered on chain.

An agent needs no message from a sponsor and no secret from a person. It publishes its encryption
key in the registry, asks for the job's key once it is eligible, and opens the envelope that the
release puts on record. What it keeps is the envelope: the job key itself is in memory only, and
opens from the journal and the operator's keystore after a restart.

A sponsor that announces another key before it has answered is asked for that one an hour after the
last question. Else it could have every node send a transaction for each of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST
from agents.protocol.structs import KeyRelease, KeyRequest, read
from agents.runtime.context import Context
from agents.runtime.contracts import Contract, Event
from agents.runtime.errors import Reverted
from agents.runtime.wallet import Identity
from agents.storage.envelope import EnvelopeError, Purpose
from agents.training.spec import JobSpec

_NOT_YET = "keys: node not eligible"
_KEPT = "data-key-envelope-"
_AGAIN_S = 3600  # that a question waits for its answer, before another data key is asked for


class DataKeyDuty:
    """Gets and keeps the data keys of one agent's node. Serves trainers and verifiers alike.

    `spec_of`: the spec of a job by its id.
    """

    def __init__(
        self, network: Network, context: Context, spec_of: Callable[[int], JobSpec]
    ) -> None:
        self.identity = Identity(context.wallet)
        self._network = network
        self._context = context
        self._spec_of = spec_of
        self._keys: Contract = network.deployment["DataKeys"]
        self._told: set[str] = set()

    def step(self, job_id: int, node: int) -> str | None:
        """The next thing to do for the key of a job's data; None when it is held, not needed, or
        not there yet.

        In order: publish the encryption key, ask, wait for the release, open and keep it.
        """
        if self._spec_of(job_id).access != "encrypted":
            return None
        key_id = self._announced(job_id)
        if key_id == ZERO_DIGEST:
            self._tell(f"job {job_id}", "the sponsor has not announced the key of this job's data")
            return None
        if self._name(job_id, node, key_id) in self._context.journal:
            return None
        did = self.publish(node)
        if did is not None:
            return did
        request, release = self._context.chain.call_many(
            [(self._keys, view, (job_id, node)) for view in ("request_of", "released")]
        )
        asked, given = read(KeyRequest, request), read(KeyRelease, release)
        if self._is_for(given, key_id):
            return self._receive(job_id, node, key_id)
        if self._is_for(asked, key_id) or self._waits(asked, given):
            return None
        return self._ask(job_id, node, key_id)

    def key(self, job_id: int, node: int) -> bytes | None:
        """The 32-byte key of the job's data: the one announced now, else the last received; None
        when none is held.

        A job's data can't change, so a sponsor that announces another key in the middle of a round
        does not take the data away from those who are to check the round.
        """
        announced = self._announced(job_id).hex()
        journal = self._context.journal
        found = [journal.get(name) for name in journal.keys(_KEPT)]
        held = [kept for kept in found if self._is_kept_for(kept, job_id, node)]
        if not held:
            return None
        best = max(held, key=lambda kept: (kept["key_id"] == announced, kept["block"]))
        purpose = self._purpose(job_id, node, bytes.fromhex(best["key_id"]))
        return self.identity.open(bytes.fromhex(best["envelope"]), purpose)

    def publish(self, node: int) -> str | None:
        """Set the node's encryption key in the registry, if it is another one there."""
        registry = self._network.registry

        def done() -> bool:
            known = self._context.chain.call(registry, "encryption_key_of", node)
            return read(bytes, known) == self.identity.public

        if done():
            return None
        self._context.sender.ensure(
            done, registry, "set_encryption_key", node, self.identity.public
        )
        return f"published: the encryption key of node {node}"

    # -- inside --------------------------------------------------------------------------------

    def _ask(self, job_id: int, node: int, key_id: bytes) -> str | None:
        chain = self._context.chain
        self._context.journal.put(_asked(job_id, node), chain.head().number)
        try:
            self._context.sender.ensure(
                lambda: self._is_for(self._request(job_id, node), key_id),
                self._keys,
                "request_key",
                job_id,
                node,
            )
        except Reverted as refused:
            if refused.reason != _NOT_YET:
                raise
            return None  # the benchmark or the approval is still to come
        return f"asked: for the key of job {job_id}"

    def _receive(self, job_id: int, node: int, key_id: bytes) -> str | None:
        """Open the envelope on record and put it on disk; only then is the key held."""
        begin = self._network.deployment.block
        asked = self._context.journal.get(_asked(job_id, node), begin)
        # A reorg may have brought the question and its answer into blocks before that one.
        mine = self._released(job_id, node, key_id, asked) or self._released(
            job_id, node, key_id, begin
        )
        if not mine:
            return None  # a reorg took it away again
        envelope = mine[-1].args["envelope"]
        try:
            self.identity.open(envelope, self._purpose(job_id, node, key_id))
        except EnvelopeError as error:
            self._tell(f"envelope {envelope.hex()}", str(error))
            return None
        kept = {
            "job": job_id,
            "node": node,
            "key_id": key_id.hex(),
            "encryption_key": self.identity.public.hex(),
            "block": mine[-1].block,
            "envelope": envelope.hex(),
        }
        self._context.journal.put(self._name(job_id, node, key_id), kept)
        return f"received: the key of job {job_id}"

    def _released(self, job_id: int, node: int, key_id: bytes, first: int) -> list[Event]:
        """The releases of a data key to the node from block `first` on, in chain order."""
        chain = self._context.chain
        where = {"job_id": job_id, "node_id": node}
        events = chain.events(self._keys, "KeyReleased", first, chain.head().number, where)
        wanted = (key_id, self.identity.public)
        return [e for e in events if (e.args["key_id"], e.args["encryption_key"]) == wanted]

    def _request(self, job_id: int, node: int) -> KeyRequest:
        return read(KeyRequest, self._context.chain.call(self._keys, "request_of", job_id, node))

    def _announced(self, job_id: int) -> bytes:
        return read(bytes, self._context.chain.call(self._keys, "key_of", job_id))

    def _is_for(self, record: KeyRequest | KeyRelease, key_id: bytes) -> bool:
        """Whether a request or release is about this data key and this node's encryption key."""
        return (record.key_id, record.encryption_key) == (key_id, self.identity.public)

    def _purpose(self, job_id: int, node: int, key_id: bytes) -> Purpose:
        chain_id = self._network.deployment.chain_id
        return Purpose(chain_id, self._keys.address, job_id, node, key_id)

    def _waits(self, asked: KeyRequest, given: KeyRelease) -> bool:
        """Whether the node's last question, about another data key, still waits for its answer."""
        if not self._is_for(asked, asked.key_id) or self._is_for(given, asked.key_id):
            return False
        return self._context.chain.head().timestamp - asked.at < _AGAIN_S

    def _name(self, job_id: int, node: int, key_id: bytes) -> str:
        """Journal key of an envelope; another operator key could not open it."""
        return f"{_KEPT}{job_id}-{node}-{key_id.hex()}-{self.identity.public.hex()}"

    def _is_kept_for(self, kept: dict[str, Any], job_id: int, node: int) -> bool:
        wanted = (job_id, node, self.identity.public.hex())
        return (kept["job"], kept["node"], kept["encryption_key"]) == wanted

    def _tell(self, what: str, why: str) -> None:
        """Log once why the job's data cannot be read."""
        if what not in self._told:
            self._told.add(what)
            self._context.log.warning("no_data_key", why=why)


def _asked(job_id: int, node: int) -> str:
    """Journal key of the block before the request: unless a reorg moved both, the release is after
    it."""
    return f"data-key-asked-{job_id}-{node}"
