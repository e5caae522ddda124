# SPDX-License-Identifier: Apache-2.0
"""Holds the key of a job's encrypted data, and answers the nodes that ask for it.

What to answer is read from DataKeys each time (`is_open`: the node could work now, and asked for
the current key), so a keyholder that was down, was started twice or lost everything but its key
file serves exactly who has not been served.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, Role
from agents.protocol.structs import KeyRequest, read
from agents.runtime.contracts import Contract
from agents.runtime.errors import AgentError, Reverted
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.storage.envelope import EnvelopeError, Purpose, seal_key
from agents.storage.sealed import key_id_of

Send = Callable[[Contract, str, tuple[Any, ...]], Any]
"""Sends a call of the keyholder's account; raises Reverted with the contract's reason."""


_REQUEST_VIEWS = ("is_open", "request_of")


class KeyholderError(AgentError):
    """The job has another key, or this account may not release it."""


@dataclass(frozen=True)
class Entry:
    """One line of the record: a request, and the block of its answer (None while it has none)."""

    node: int
    role: Role
    key_id: bytes
    encryption_key: bytes
    asked_block: int
    released_block: int | None
    by: str | None


class Keyholder:
    """Serves one job's key from one account. `account`: its address; `say`: hears what happens."""

    def __init__(
        self,
        network: Network,
        job_id: int,
        key: bytes,
        account: str,
        send: Send,
        say: Callable[[str], None],
    ) -> None:
        self.key_id = key_id_of(key)
        self._network = network
        self._keys = network.deployment["DataKeys"]
        self._job_id = job_id
        self._key = key
        self._account = account
        self._send = send
        self._say = say
        self._requests = EventLog(
            EventCursor(
                network.chain,
                self._keys,
                ["KeyRequested"],
                network.deployment.block,
                {"job_id": job_id},
            )
        )
        self._refused: set[tuple[int, bytes]] = set()

    def announce(self) -> bool:
        """Announce the key when the job has none yet; returns whether that was done.

        Raises KeyholderError when the job has another key, or none and this is not its sponsor.
        """
        announced = read(bytes, self._network.chain.call(self._keys, "key_of", self._job_id))
        sponsor = self._network.job(self._job_id).sponsor
        if announced == ZERO_DIGEST and self._account == sponsor:
            self._send(self._keys, "set_key", (self._job_id, self.key_id))
            return True
        if announced == ZERO_DIGEST:
            raise KeyholderError(
                f"Job {self._job_id} has no key yet, and only its sponsor {sponsor} can announce "
                f"one. Let it run `ape run keys announce`."
            )
        if announced != self.key_id:
            raise KeyholderError(
                f"Job {self._job_id} has key {announced.hex()}, but this file holds key "
                f"{self.key_id.hex()}. Use the file of the job's key."
            )
        return False

    def check_releaser(self) -> None:
        """Raise KeyholderError unless this account may release the job's key."""
        releaser = self._network.chain.call(self._keys, "releaser_of", self._job_id)
        if releaser != self._account:
            raise KeyholderError(
                f"Only {releaser} may release the key of job {self._job_id}; {self._account} may "
                "not. The sponsor names the releaser with `ape run keys delegate`."
            )

    def step(self) -> list[int]:
        """Answer every open request; returns the nodes that were served now, ascending."""
        nodes = self._find_requests()
        views = [(self._keys, view, (self._job_id, n)) for n in nodes for view in _REQUEST_VIEWS]
        answers = self._network.chain.call_many(views)
        requests = [read(KeyRequest, request) for request in answers[1::2]]
        found = zip(nodes, answers[::2], requests, strict=True)
        return [n for n, is_open, request in found if is_open and self._release(n, request)]

    def _find_requests(self) -> list[int]:
        """Every node that ever asked for a key of the job."""
        return sorted({event.args["node_id"] for event in self._requests.read()})

    def _release(self, node: int, request: KeyRequest) -> bool:
        recipient = request.encryption_key
        if request.key_id != self.key_id or (node, recipient) in self._refused:
            return False
        chain_id = self._network.deployment.chain_id
        purpose = Purpose(chain_id, self._keys.address, self._job_id, node, self.key_id)
        try:
            envelope = seal_key(self._key, recipient, purpose)
            self._send(
                self._keys, "release_key", (self._job_id, node, self.key_id, recipient, envelope)
            )
        except EnvelopeError as error:
            self._refused.add((node, recipient))
            self._say(f"Node {node} is not served: {error}")
            return False
        except Reverted as error:  # the node has changed in between: it is looked at again
            self._say(f"Node {node} is not served now: {error.reason}.")
            return False
        self._say(f"Node {node} received key {self.key_id.hex()[:16]}.")
        return True


def record(network: Network, job_id: int) -> list[Entry]:
    """Who asked for a job's key and who received which, from the chain, in order of asking."""
    keys, head = network.deployment["DataKeys"], network.chain.head().number
    first, where = network.deployment.block, {"job_id": job_id}
    released = network.chain.events(keys, "KeyReleased", first, head, where)
    asked = network.chain.events(keys, "KeyRequested", first, head, where)
    entries = []
    for event in asked:
        wanted = _request_of(event.args)
        after = (r for r in released if r.block >= event.block and _request_of(r.args) == wanted)
        answer = next(after, None)
        entries.append(
            Entry(
                node=event.args["node_id"],
                role=Role(event.args["role"]),
                key_id=event.args["key_id"],
                encryption_key=event.args["encryption_key"],
                asked_block=event.block,
                released_block=None if answer is None else answer.block,
                by=None if answer is None else answer.args["by"],
            )
        )
    return entries


def _request_of(args: dict[str, Any]) -> tuple[int, bytes, bytes]:
    """What a release answers: node, data key and encryption key."""
    return args["node_id"], args["key_id"], args["encryption_key"]
