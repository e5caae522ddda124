# SPDX-License-Identifier: Apache-2.0
"""Attack 18: hold readers up by another operator key, again and again, after the reveal.

Rule: what was revealed is what the chain's event says, and a key that changes later is no part of
it. So nobody reads a payload, a proof or a trace again because of one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from agents.protocol.structs import Round, read
from agents.protocol.view import observe
from agents.rounds.reader import RoundReader
from agents.rounds.submissions import Submission
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.verify.proofs import Proofs
from tests.attacks.conftest import plan_of, publish_work
from tests.attacks.test_draws import network_of
from tests.stage.chain.people import COMMIT, Node, People
from tests.stage.memory.honest_round import DEVICE, TinyJob


class Counted(EmbeddedStore):
    """A store that counts what is read from it, by digest."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: Counter[bytes] = Counter()

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        self.read[digest] += 1
        return super().get_digest(digest, max_bytes)


@dataclass
class Reading:
    """What a verifier reads of a round in two looks."""

    people: People
    reader: RoundReader
    store: Counted

    @classmethod
    def begin(cls, people: People, tiny: TinyJob) -> Reading:
        store = Counted(tiny.store.root)
        return cls(people, RoundReader(network_of(people), store, DEVICE), store)

    def look(self, proofs: Proofs) -> list[Submission]:
        network = self.reader.network
        view = observe(network, self.people.job, network.chain.head())
        submissions = self.reader.submissions(view)
        inputs = self.reader.inputs(view, submissions)
        assert inputs is not None
        proofs.of(inputs, [one.reveal.node for one in submissions])
        return submissions


def change_key(people: People, node: Node, name: str) -> None:
    fresh = people.person(name)
    consent = people.consent(fresh, node.owner)
    args = (node.node_id, fresh.address, consent)
    people.chain.send(node.owner, people.registry, "set_operator", *args)


def test_change_the_operator_after_the_reveal__nothing_is_read_again(
    people: People, tiny: TinyJob, ann: Node, eve: Node
) -> None:
    """Eve keeps her proof back. Each key was a reveal that nobody knew yet: her payload was read
    and decoded again, the proof looked for again, and the whole round screened again."""
    plan = plan_of(tiny, people)
    works = [publish_work(tiny, plan, node) for node in (ann, eve)]
    for work in works:
        people.commit(work.node, work.committed)
    people.pass_phase(COMMIT)
    for work in works:
        people.reveal(work.node, work.committed)
    people.pass_phase(2)
    hers = works[1].committed
    reading = Reading.begin(people, tiny)
    store: ContentStore = reading.store
    proofs = Proofs(store)
    before = reading.look(proofs)
    seen = dict(reading.store.read)
    assert seen[hers.content] == 1 and seen[hers.proof] == 1
    for number in range(3):
        change_key(people, eve, f"key {number} of eve")
        assert reading.look(proofs) == before
    assert dict(reading.store.read) == seen


def test_change_the_operator_after_the_reveal__it_is_the_same_reveal(
    people: People, ann: Node, eve: Node
) -> None:
    """Also of a node that has left and has no operator any more."""
    people.train(ann, eve)
    network = network_of(people)
    place = (*people.place, read(Round, people.state).opened_block)
    before = network.reveals(*place)
    change_key(people, eve, "another key of eve")
    assert network.reveals(*place) == before
