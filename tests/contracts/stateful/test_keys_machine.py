# SPDX-License-Identifier: Apache-2.0
"""Random histories of two jobs' data keys against `keys_model`, while nodes rest, are suspended or
banned, win and lose roles, leave, and change their keys. Every call must succeed, or revert with
the reason, that the model says, and every release must have been one that was asked for."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import boa
from eth_utils import keccak
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from tests.contracts.stateful.keys_model import EMPTY, ROLES, ZERO, KeysModel, ModelNode
from tests.contracts.stateful.machine import Machine, run
from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import logged
from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import AGGREGATOR, DAY, INVALID, VERIFIER, Player, System

JOBS = (1, 2)
UNKNOWN_JOB = 3
KEY_IDS = [keccak(text=f"data key {i}") for i in range(2)]
PUBLIC_KEYS = [EMPTY, keccak(text="public key 0"), keccak(text="public key 1")]
DIGESTS = [EMPTY, *KEY_IDS]
# What only a history can bring about; `tests/contracts/keys` meets every other refusal.
LATE = {
    "keys: already requested",
    "keys: already released",
    "keys: not the current key",
    "keys: request is for another key",
    "keys: stale encryption key",
    "keys: reader key unchanged",
}

Job = st.sampled_from([*JOBS, *JOBS, *JOBS, UNKNOWN_JOB])
Pick = st.integers(0, 3)  # of people
Node = st.integers(0, 2)
# Mostly the right one.
Right = st.sampled_from([True] * 5 + [False])


class KeysMachine(Machine):
    stage: ClassVar[RoundStage]
    served: ClassVar[Counter[int]] = Counter()  # releases by role

    def __init__(self) -> None:
        super().__init__()
        self.s = self.stage.system
        self.keys, self.registry = self.s.keys, self.s.registry
        self.owner = str(self.s.coordinator.address)
        f = self.stage
        self.players = [f.trainers[0], f.verifiers[0], f.aggregators[0]]
        for player in self.players:
            self.registry.set_encryption_key(player.node_id, PUBLIC_KEYS[1], sender=player.operator)
        sponsors = {1: self.stage.sponsor, 2: self.stage.challenger}
        self.people = [*sponsors.values(), self.stage.stranger, f.trainers[0].operator]
        self.model = KeysModel(sponsors, {})

    @initialize(announced=st.sampled_from([JOBS, JOBS[:1]]))
    def announce(self, announced: tuple[int, ...]) -> None:
        for job in announced:
            self.set_key(True, job, KEY_IDS[0], 0)

    def read_nodes(self) -> None:
        """Time alone ends a suspension."""
        for player in self.players:
            node = player.node_id
            self.model.nodes[node] = ModelNode(
                self.registry.operator_of(node),
                self.registry.encryption_key_of(node),
                {role: self.registry.is_eligible(node, role) for role in ROLES},
            )

    def tick(self) -> None:
        self.model.now = boa.env.timestamp
        self.read_nodes()

    # The sponsor

    @rule(right=Right, job=Job, key_id=st.sampled_from([EMPTY, *KEY_IDS]), pick=Pick)
    def set_key(self, right: bool, job: int, key_id: bytes, pick: int) -> None:
        sender = self.model.sponsors.get(job, ZERO) if right else self.people[pick]
        if sender == ZERO:
            sender = self.people[pick]
        self.step(
            lambda m: m.set_key(sender, job, key_id),
            lambda: self.keys.set_key(job, key_id, sender=sender),
        )

    @rule(right=Right, job=st.sampled_from(JOBS), pick=Pick, to_zero=st.booleans())
    def set_releaser(self, right: bool, job: int, pick: int, to_zero: bool) -> None:
        sender = self.model.sponsors[job] if right else self.people[pick]
        account = ZERO if to_zero else self.people[pick]
        self.step(
            lambda m: m.set_releaser(sender, job, account),
            lambda: self.keys.set_releaser(job, account, sender=sender),
        )

    @rule(right=Right, job=st.sampled_from(JOBS), node=Node, by=Pick, kind=st.integers(0, 9))
    def release(self, right: bool, job: int, node: int, by: int, kind: int) -> None:
        """With the keys of now, mostly."""
        self.tick()
        node_id = self.players[node].node_id
        strangers = [p for p in self.people if p != self.model.releaser(job)]
        sender = self.model.releaser(job) if right else strangers[by % len(strangers)]
        key_id = KEY_IDS[by % 2] if kind == 0 else self.model.keys.get(job, KEY_IDS[0])
        public = PUBLIC_KEYS[by % 3] if kind == 1 else self.model.nodes[node_id].public_key
        self.answer(sender, (job, node_id, key_id, public, b"" if kind == 2 else b"sealed"))

    def answer(self, sender: str, args: tuple[int, int, bytes, bytes, bytes]) -> None:
        if self.step(
            lambda m: m.release(sender, *args), lambda: self.keys.release_key(*args, sender=sender)
        ):
            self.served[self.model.record[-1].role] += 1

    # Anybody

    @rule(by=Pick, key=st.sampled_from(PUBLIC_KEYS))
    def set_reader_key(self, by: int, key: bytes) -> None:
        sender = self.people[by]
        self.step(
            lambda m: m.set_reader_key(sender, key),
            lambda: self.keys.set_reader_key(key, sender=sender),
        )

    @rule(by=Pick, job=Job, round_id=st.integers(0, 2**256 - 1), digest=st.sampled_from(DIGESTS))
    def disclose(self, by: int, job: int, round_id: int, digest: bytes) -> None:
        """Put on record once, under the sender's name, and nothing else is."""
        sender, args = self.people[by], (job, round_id, digest)
        if self.step(
            lambda m: m.disclose(sender, *args),
            lambda: self.keys.disclose_keys(*args, sender=sender),
        ):
            names = ("job_id", "round_id", "digest", "by")
            said = dict(zip(names, self.model.disclosed[-1], strict=True))
            assert logged(self.keys) == [("KeysDisclosed", said)]

    # The nodes

    @rule(right=Right, job=Job, node=Node, by=Pick)
    def request(self, right: bool, job: int, node: int, by: int) -> None:
        self.tick()
        player = self.players[node]
        sender = player.operator if right else self.people[by]
        self.step(
            lambda m: m.request(sender, job, player.node_id),
            lambda: self.keys.request_key(job, player.node_id, sender=sender),
        )

    @rule(job=st.sampled_from(JOBS), node=Node, twice=st.booleans())
    def be_served(self, job: int, node: int, twice: bool) -> None:
        """A node asks, and is answered at once; perhaps both again."""
        for _ in range(1 + twice):
            self.request(True, job, node, 0)
            self.release(True, job, node, 0, 9)

    @rule(job=st.sampled_from(JOBS), node=Node, data=st.booleans(), late=st.booleans(), pick=Pick)
    def be_served_late(self, job: int, node: int, data: bool, late: bool, pick: int) -> None:
        """Between request and answer a key changes; the answer uses the old or the new."""
        self.request(True, job, node, 0)
        node_id = self.players[node].node_id
        old = (self.model.keys.get(job, KEY_IDS[0]), self.model.nodes[node_id].public_key)
        if data:
            self.set_key(True, job, KEY_IDS[old[0] == KEY_IDS[0]], 0)
        else:
            self.change_public_key(node, PUBLIC_KEYS[1 + pick % 2])
        self.tick()
        new = (self.model.keys.get(job, KEY_IDS[0]), self.model.nodes[node_id].public_key)
        self.answer(self.model.releaser(job), (job, node_id, *(old if late else new), b"sealed"))

    @rule(node=Node, key=st.sampled_from(PUBLIC_KEYS))
    def change_public_key(self, node: int, key: bytes) -> None:
        player = self.players[node]
        self.registry.set_encryption_key(player.node_id, key, sender=player.owner)
        self.changed = True

    @rule(node=Node, what=st.sampled_from(["rest", "role", "slash", "leave"]), gently=Right)
    def disturb(self, node: int, what: str, gently: bool) -> None:
        """Gently: it comes back, wins its role back, or only time passes."""
        player, registry = self.players[node], self.registry
        roles = registry.node(player.node_id).roles
        if what == "rest":
            registry.set_active(player.node_id, gently, sender=player.owner)
        elif what == "role":
            for role in (VERIFIER, AGGREGATOR):
                if roles & role:
                    registry.approve_role(player.node_id, role, gently, sender=self.owner)
        elif gently:
            mine(1, 3 * DAY)
        elif what == "slash":
            args = (player.node_id, INVALID, boa.env.timestamp, self.stage.stranger)
            registry.slash(*args, sender=self.s.rounds.address)
        elif node == 0 and not registry.node(player.node_id).unlock_at:
            registry.begin_exit(player.node_id, sender=player.owner)
        self.changed = True

    # What must hold

    @invariant()
    def chain_is_model(self) -> None:
        """A refused call left no trace by the rules of the EVM: only changes are worth a look."""
        if not self.changed:
            return
        self.changed = False
        self.tick()
        for job in (*JOBS, UNKNOWN_JOB):
            assert self.keys.key_of(job) == self.model.keys.get(job, EMPTY)
            assert self.keys.releaser_of(job) == self.model.releaser(job)
        for person in self.people:
            assert self.keys.reader_key_of(person) == self.model.readers.get(person, EMPTY)
        for job in JOBS:
            for player in self.players:
                self._place_is_model(job, player)

    def _place_is_model(self, job: int, player: Player) -> None:
        place = (job, player.node_id)
        stored = self.model.requests.get(place, (0, EMPTY, EMPTY, 0))
        assert tuple(self.keys.request_of(*place)) == stored
        released = self.model.released.get(place, (EMPTY, EMPTY, 0))
        assert tuple(self.keys.released(*place)) == released
        assert self.keys.is_open(*place) == self.model.is_open(place)


def test_keys_machine(system: System) -> None:
    stage = make_rounds(system, trainers=1)
    system.job(stage.challenger, escrow=0)
    KeysMachine.stage = stage
    run(KeysMachine, examples=20, steps=30)
    # Histories drawn at random may miss the odd refusal.
    machine = KeysMachine()
    machine.announce(JOBS)
    machine.be_served(1, 0, twice=True)
    for late in (True, False):
        for data in (True, False):
            machine.be_served_late(1, 0, data, late, pick=1)
            machine.chain_is_model()
    for _ in range(2):
        machine.set_reader_key(2, PUBLIC_KEYS[1])
    machine.teardown()
    assert set(KeysMachine.refused) >= LATE, "a change between question and answer never mattered"
    assert set(KeysMachine.served) == set(ROLES), "a role was never served"
