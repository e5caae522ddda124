# SPDX-License-Identifier: Apache-2.0
"""DataKeys in Python. A method changes the model, or raises `Refused` with the reason the contract
refuses with. Beside the contract's state it keeps what no contract could: every release ever
made, with the facts of the moment, for the machine to look back on."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.contracts.stateful.machine import need

EMPTY = bytes(32)
ZERO = "0x" + "00" * 20
ROLES = (1, 2, 4)  # in the order in which a node's role is looked for

Place = tuple[int, int]  # job, node


@dataclass
class ModelNode:
    """What the registry says of a node: the facts of another contract are not modelled here."""

    operator: str
    public_key: bytes
    eligible: dict[int, bool]  # by role

    @property
    def role(self) -> int:
        return next((role for role in ROLES if self.eligible[role]), 0)


@dataclass(frozen=True)
class Released:
    """One release, and who and what made it possible."""

    place: Place
    key_id: bytes
    public_key: bytes
    by: str
    role: int


@dataclass
class KeysModel:
    sponsors: dict[int, str]
    nodes: dict[int, ModelNode]
    now: int = 0
    keys: dict[int, bytes] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)
    requests: dict[Place, tuple[int, bytes, bytes, int]] = field(default_factory=dict)
    released: dict[Place, tuple[bytes, bytes, int]] = field(default_factory=dict)
    record: list[Released] = field(default_factory=list)
    readers: dict[str, bytes] = field(default_factory=dict)  # account to its public key
    disclosed: list[tuple[int, int, bytes, str]] = field(default_factory=list)

    def releaser(self, job: int) -> str:
        named = self.named.get(job, ZERO)
        return self.sponsors.get(job, ZERO) if named == ZERO else named

    def set_key(self, sender: str, job: int, key_id: bytes) -> None:
        need(sender == self.sponsors.get(job), "keys: not sponsor")
        need(key_id != EMPTY, "keys: empty key")
        need(key_id != self.keys.get(job), "keys: key unchanged")
        self.keys[job] = key_id

    def set_releaser(self, sender: str, job: int, account: str) -> None:
        need(sender == self.sponsors.get(job), "keys: not sponsor")
        self.named[job] = account

    def request(self, sender: str, job: int, node_id: int) -> None:
        node = self.nodes[node_id]
        need(sender == node.operator, "keys: not operator")
        need(job in self.keys, "keys: no key")
        need(bool(node.role), "keys: node not eligible")
        need(node.public_key != EMPTY, "keys: no encryption key")
        wanted = (self.keys[job], node.public_key)
        asked = self.requests.get((job, node_id), (0, EMPTY, EMPTY, 0))[1:3]
        need(asked != wanted, "keys: already requested")
        self.requests[job, node_id] = (node.role, *wanted, self.now)

    def release(
        self, sender: str, job: int, node_id: int, key_id: bytes, public_key: bytes, envelope: bytes
    ) -> None:
        place, node = (job, node_id), self.nodes[node_id]
        need(sender == self.releaser(job), "keys: not releaser")
        need(bool(envelope), "keys: empty envelope")
        need(place in self.requests, "keys: no request")
        need(key_id == self.keys[job], "keys: not the current key")
        need(key_id == self.requests[place][1], "keys: request is for another key")
        need(public_key == self.requests[place][2] == node.public_key, "keys: stale encryption key")
        need(self._answer(place) != (key_id, public_key), "keys: already released")
        need(bool(node.role), "keys: node not eligible")
        self.released[place] = (key_id, public_key, self.now)
        self.record.append(Released(place, key_id, public_key, sender, node.role))

    def set_reader_key(self, sender: str, public_key: bytes) -> None:
        need(public_key != EMPTY, "keys: no encryption key")
        need(public_key != self.readers.get(sender), "keys: reader key unchanged")
        self.readers[sender] = public_key

    def disclose(self, sender: str, job: int, round_id: int, digest: bytes) -> None:
        """Anybody, of any round: it gives nobody a right, and answers no request."""
        need(job in self.sponsors, "keys: no job")
        need(digest != EMPTY, "keys: empty digest")
        self.disclosed.append((job, round_id, digest, sender))

    def _answer(self, place: Place) -> tuple[bytes, bytes]:
        """The identifier of the key that was released last, and the key it was sealed to."""
        key_id, public_key, _ = self.released.get(place, (EMPTY, EMPTY, 0))
        return key_id, public_key

    def is_open(self, place: Place) -> bool:
        """By its definition: the releaser could answer with the keys of the request."""
        if place not in self.requests:
            return False
        _, key_id, public_key, _ = self.requests[place]
        answered = self._answer(place) == (key_id, public_key)
        node = self.nodes[place[1]]
        current = (self.keys[place[0]], node.public_key) == (key_id, public_key)
        return current and not answered and bool(node.role)
