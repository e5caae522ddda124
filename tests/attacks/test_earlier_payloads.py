# SPDX-License-Identifier: Apache-2.0
"""Eve takes down what she sent in an earlier round, so that nobody can judge what she sends now.

A verifier that judges her does her rounds since the codec's memory was empty again, and needs her
payloads of these. Each node has a daemon of its own here, which keeps what is pinned there and
nothing else: what it only read it has to ask the others for again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agents.aggregator import AggregatorInJob
from agents.protocol.network import Network
from agents.protocol.view import View, observe
from agents.storage.cid import cid_from_digest
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound, StoreError
from agents.trainer import Trainer
from agents.training.state import State
from agents.verifier import Verifier, VerifierInJob
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import (
    AGGREGATE,
    CHALLENGE,
    COMMIT,
    FINALIZED,
    INVALID,
    TERMS,
    VERIFIERS,
    Node,
    People,
)
from tests.stage.memory.honest_round import make_tiny_job
from tests.stage.terminal import until

TRAINED = ("ann", "bob", "eve")
FIFTH = 20 * 10**18  # of the least stake
SPARSE: dict[str, Any] = {
    "codec": "sparse",
    "codec_options": {"memory_rounds": 4},
    "merge": "mean",
    "rounds": 8,
    "audit_sample": 3,
}
_ANY_SIZE = 1 << 30


class Daemon(EmbeddedStore):
    """A node's own store, and what the others' `network` serves while they do."""

    def __init__(self, root: Path, network: list[EmbeddedStore]) -> None:
        super().__init__(root)
        self._network = network
        network.append(self)

    def get(self, cid: str, max_bytes: int) -> bytes:
        for peer in (self, *self._network):
            try:
                return EmbeddedStore.get(peer, cid, max_bytes)
            except NotFound as error:
                missing = error
        raise missing

    def resolve(self, digest: bytes) -> str:
        for peer in (self, *self._network):
            try:
                return EmbeddedStore.resolve(peer, digest)
            except NotFound as error:
                missing = error
        raise missing

    def pin(self, cid: str) -> None:
        if not self.has(cid):
            self.put_bytes(self.get(cid, _ANY_SIZE))

    def take_down(self, digest: bytes | None) -> None:
        """Serve this content no more, or nothing of all that was pinned so far."""
        for path in self._objects.rglob("*.*" if digest is None else f"{digest.hex()}.*"):
            path.unlink()


class Lying(Trainer):
    """Sends ten times its update where `lies` is set."""

    lies = False

    def outgoing(self, update: State, memory: State | None) -> State:
        return {name: 10 * t for name, t in update.items()} if self.lies else update


class Memory(RunningAgents):
    """A job whose codec has a memory, and all its nodes' agents, each with a daemon of its own."""

    def __init__(self, people: People, folder: Path, stack: ExitStack) -> None:
        super().__init__(people, folder, stack)
        self.network: list[EmbeddedStore] = []
        tiny = make_tiny_job(Daemon(folder / "sponsor", self.network), **SPARSE)
        funds = 8 * TERMS.reward_per_round
        sponsor = people.person("second sponsor", funds)
        people.job = people.create_job(sponsor, TERMS.encode(tiny.published), funds)
        self.daemons = {name: Daemon(folder / f"of {name}", self.network) for name in people.nodes}
        self.trainers = {name: self.trainer(name) for name in TRAINED}
        self.verifiers = {name: self.verifier(name) for name in VERIFIERS}

    def trainer(self, name: str) -> Lying:
        return Lying(self._begun(name, "trainer"), self.daemons[name])

    def verifier(self, name: str) -> VerifierInJob:
        """Starts, or restarts, a verifier; what it does in the job."""
        context = self._begun(name, "verifier")
        return Verifier(context, self.daemons[name]).jobs.in_job(self.people.job)

    def _begun(self, name: str, role: str) -> Any:
        return self.begin(self.people.nodes[name], role, job_id=self.people.job, device="cpu")

    def view(self, agent: Trainer | VerifierInJob | AggregatorInJob) -> View:
        return observe(agent.network, self.people.job, agent.context.chain.head())

    def train(self) -> None:
        """A round up to CHALLENGE, with the result of whoever is on duty."""
        self.reveal()
        self.propose()

    def reveal(self) -> None:
        """A round up to AGGREGATE, with all payloads published."""
        people = self.people
        people.open()
        for name, trainer in self.trainers.items():
            said = trainer.commit(self.view(trainer), people.nodes[name].node_id)
            assert said is not None and said.startswith("committed:")
        people.pass_phase(COMMIT)
        for name, trainer in self.trainers.items():
            said = trainer.reveal(self.view(trainer), people.nodes[name].node_id)
            assert said is not None and said.startswith("revealed:")
            until(lambda name=name: self._published(name), "the payload is published")
        assert people.phase == AGGREGATE

    def propose(self) -> None:
        duty = self.people.on_duty
        context = self._begun(duty.name, "aggregator")
        network = Network(context.chain, context.deployment)
        aggregator = AggregatorInJob(context, self.daemons[duty.name], network)
        said = aggregator.proposer.step(self.view(aggregator), duty.node_id)
        assert said is not None and said.startswith("proposed:")
        self.people.chain.mine()

    def _published(self, name: str) -> bool:
        self.trainers[name].publication.step()
        log = (self.folder / f"{name}.log").read_text()
        return log.count('"published"') == self.people.round

    def warned(self, name: str, event: str) -> int:
        """How often a node's log says so."""
        return (self.folder / f"{name}.log").read_text().count(f'"event": "{event}"')

    def says(self, name: str) -> str:
        """What a verifier does next; it waits for half of the window where something is missing."""
        verifier, node = self.verifiers[name], self.people.nodes[name].node_id
        for _ in range(3):
            try:
                said = verifier.verify(self.view(verifier), node)
            except StoreError:
                said = None
            if said:
                return said
            self.people.chain.warp(TERMS.challenge_s // 4 + 1)
        raise AssertionError(f"{name} says nothing")

    def end(self) -> dict[int, int]:
        """The result is made final; contributions by node."""
        network = self.verifiers["vic"].network
        view = self.view(self.verifiers["vic"])
        proposal = network.proposal(*self.people.place, view.round)
        self.people.finalize((list(proposal.nodes), list(proposal.contributions)))
        assert self.people.phase == FINALIZED
        return dict(zip(proposal.nodes, proposal.contributions, strict=True))

    def sent(self, name: str) -> bytes:
        """The digest of a node's payload of the newest round."""
        network = self.verifiers["vic"].network
        opened = self.view(self.verifiers["vic"]).round.opened_block
        return network.reveals(*self.people.place, opened)[self.people.nodes[name].node_id].content


@pytest.fixture
def memory(people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Memory(people, tmp_path, stack)


@pytest.mark.parametrize("everything", [False, True], ids=["payload", "everything"])
def test_what_she_and_the_proposer_take_down__shields_her_from_nothing(
    memory: Memory, people: People, eve: Node, everything: bool
) -> None:
    """Whoever proposed the round is her friend. They drop her payload, or all that they published,
    update and report of the round too."""
    memory.train()
    for name in VERIFIERS:
        assert memory.says(name) == "attested: round 1"
    friend, payload = people.on_duty.name, memory.sent("eve")
    memory.end()
    for name in ("eve", friend):
        memory.daemons[name].take_down(None if everything else payload)
    memory.trainers["eve"].lies = True
    memory.train()
    for name in ("vic", "vera"):
        memory.verifiers[name] = memory.verifier(name)  # what it had in memory is gone
        said = memory.says(name)
        if name == "vic":
            assert said == "announced: violations in round 2"
            said = memory.says(name)
        assert said == f"reported: node {eve.node_id} for INVALID in round 2"
    assert people.phase == CHALLENGE
    invalid = (*people.place, eve.node_id, INVALID)
    report = bytes(people.chain.call(people.reports, "report_id_of", *invalid))
    paid = people.wealth(eve)
    for name in ("vic", "vera"):
        assert memory.says(name) == "attested: round 2"
    memory.end()
    people.execute(report)
    assert people.wealth(eve) == paid - FIFTH


def test_what_is_taken_down_before_it_was_kept__delays_a_verifier_by_half_of_its_window(
    memory: Memory, people: People
) -> None:
    """Vic had read all of it while the aggregator was at work. The result is right, and nobody can
    keep it from being attested."""
    memory.reveal()
    vic = memory.verifiers["vic"]
    vic.prepare(memory.view(vic))
    payload = memory.sent("eve")
    memory.propose()
    for name in ("eve", people.on_duty.name):
        memory.daemons[name].take_down(payload)
    opened = people.chain.now
    assert memory.says("vic") == "attested: round 1"
    assert people.chain.now - opened >= TERMS.challenge_s // 2
    assert memory.warned("vic", "cannot_keep") == 1
    assert not memory.daemons["vic"].has(cid_from_digest(payload))


def test_a_round_that_nobody_attested__has_no_keeper_but_its_proposer(
    memory: Memory, people: People, eve: Node
) -> None:
    """This attack succeeds: all verifiers are away in one round, and it ends by its window. Until
    the memory is empty again eve may send what she likes."""
    memory.train()
    friend, payload = people.on_duty.name, memory.sent("eve")
    people.wait_until(int(people.state.deadline))
    memory.end()
    for name in ("eve", friend):
        memory.daemons[name].take_down(payload)
    memory.trainers["eve"].lies = True
    memory.train()
    for name in VERIFIERS:
        assert memory.says(name) == "attested: round 2"
        assert memory.warned(name, "cannot_reexecute") == 1
    before = people.wealth(eve)
    assert eve.node_id in memory.end()
    assert people.wealth(eve) > before
