# SPDX-License-Identifier: Apache-2.0
"""Keys of shards on a real chain: who was assigned a shard gets its key, and nobody gets it else.

Real keystores and transactions: the node's side is `DataAccess` in an agent's context, the
sponsor's side the `KeyServer` that `ape run keys serve` runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from agents.jobs.changed_readers import MOST_CHANGES
from agents.jobs.disclosed import Disclosures
from agents.jobs.job import DataLocked, JobContext
from agents.jobs.publish import Published, publish_job
from agents.protocol.network import Network
from agents.protocol.view import View, observe
from agents.rounds.data_access import DataAccess
from agents.rounds.plan import Plan, Plans
from agents.rounds.shards import NeededShards
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.key_release import KeyRelease, Recipient, make_release, node_reader
from agents.storage.sealed import new_key
from agents.training.sealed_data import key_for
from agents.training.spec import SpecError
from scripts._demo.cheats.leaker import Leaker
from scripts._demo.cheats.prying import Prying
from scripts._demo.encrypted import ENCRYPTED
from scripts._demo.secret import Sight
from scripts._shared.discloser import MOST_FILES
from scripts._shared.key_server import KeyServer
from scripts._shared.leaks import places_of, receivers, suspects_of
from tests.attacks.test_data_keys import sender_of
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import TERMS, Node, People
from tests.stage.memory.tiny_specs import tiny_model

KEY = new_key()
TEXT = [b"crane %d nests in sector %d of the reserve\n" % (i, i * 7 % 90) for i in range(900)]
FIELDS = {
    "rounds": 2,
    "batches_per_round": 160,
    "eval_batches": 2,
    "model": tiny_model(16, 32, 16),
    "optimizer": {"batch_size": 4, "seq_len": 16},
}


@dataclass
class Stage:
    """A job with a key for each shard whose first round is open, and its sponsor's server."""

    people: People
    store: EmbeddedStore
    published: Published
    agents: RunningAgents
    said: list[str] = field(default_factory=list)

    def start(self, name: str) -> tuple[DataAccess, Network]:
        """A node's agent, whose encryption key is published."""
        node = self.people.nodes[name]
        context = self.agents.begin(node, "trainer")
        network = Network(context.chain, context.deployment)
        access = DataAccess(network, self.store, context)
        while access.step(self.people.job, node.node_id):
            pass
        self.people.chain._nonces.clear()
        return access, network

    def server(self, network: Network) -> KeyServer:
        sponsor = self.people.sponsor
        server = KeyServer(
            *(network, self.store, self.people.job, KEY, sponsor.address),
            sender_of(self.people, sponsor),
            self.said.append,
        )
        server.holder.announce()
        return server

    def view(self, network: Network) -> View:
        return observe(network, self.people.job, network.chain.head())

    def plan(self, access: DataAccess, network: Network) -> Plan:
        plan = Plans(network, access.models).of(self.view(network))
        assert plan is not None
        return plan

    def files(self, network: Network) -> Disclosures:
        return Disclosures(network, self.store, self.people.job)


@pytest.fixture
def stage(people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    store = EmbeddedStore(tmp_path / "store")
    published = publish_job(store, TEXT, FIELDS, data_key=KEY, shard_bytes=1024)
    sponsor = people.person("encrypted sponsor", 2 * TERMS.reward_per_round)
    own = replace(people, sponsor=sponsor)
    own.job = own.create_job(sponsor, TERMS.encode(published), 2 * TERMS.reward_per_round)
    with ExitStack() as stack:
        yield Stage(own, store, published, RunningAgents(own, tmp_path, stack))


def test_a_node_can_read_its_own_batches_and_no_others(stage: Stage, ann: Node, eve: Node) -> None:
    (access, network), (other, _) = stage.start("ann"), stage.start("eve")
    server = stage.server(network)
    job = stage.people.job
    assert server.step() is False, "no round is open"
    stage.people.open()
    plan = stage.plan(access, network)
    assert not access.may_train(job, plan, ann.node_id)
    assert server.step() is True
    assert server.step() is False, "everybody was served once"
    for own, node, foe in ((access, ann, eve), (other, eve, ann)):
        assert own.may_train(job, plan, node.node_id)
        assert not own.may_check(job, plan, node.node_id, foe.node_id)
        assert not own.ready(job, node.node_id), "a trainer measures nothing"
        mine = plan.manifest.of(node.node_id)
        theirs = plan.manifest.of(foe.node_id)
        assert mine is not None and theirs is not None
        data = own.models.job(job).data
        for first, last in mine.ranges:
            for index in range(first, last):
                data.batch(index)
        locked = [i for first, last in theirs.ranges for i in range(first, last)]
        for index in locked:
            if not data.shards_of([(index, index + 1)]) <= data.shards_of(mine.ranges):
                with pytest.raises(DataLocked, match="was not given to this node"):
                    data.batch(index)


def test_the_sponsor_is_told_once_that_its_job_is_over(stage: Stage) -> None:
    people = stage.people
    server = stage.server(stage.start("ann")[1])
    server.step()
    assert not any("has ended" in line for line in stage.said)
    people.chain.send(people.sponsor, people.jobs, "cancel_job", people.job)
    server.step()
    server.step()
    (told,) = (line for line in stage.said if "has ended" in line)
    assert told.startswith(f"Job {people.job} has ended")


def test_who_asks_for_the_key_is_never_given_the_secret(
    stage: Stage, people: People, eve: Node
) -> None:
    """The request of a job with one key is open to every eligible node; here it gives nothing."""
    _, network = stage.start("eve")
    server = stage.server(network)
    keys = network.deployment["DataKeys"]
    people.chain.send(eve.operator, keys, "request_key", stage.people.job, eve.node_id)
    assert network.chain.call(keys, "is_open", stage.people.job, eve.node_id)
    stage.people.open()
    server.step()
    assert network.chain.call(keys, "released", stage.people.job, eve.node_id).at == 0
    for one in stage.files(network).read():
        assert one.release.kind == "shards"


def test_nothing_is_given_before_the_seed_or_to_who_is_not_in_the_round(
    stage: Stage, people: People
) -> None:
    access, network = stage.start("ann")
    server = stage.server(network)
    stage.people.chain.send(people.faucet, people.rounds, "open_round", stage.people.job)
    server.step()
    newcomer = people.enlist("dan", spare=10**18)
    stage.people.nodes["dan"] = newcomer
    stage.start("dan")
    stage.people.chain.mine()
    server.step()
    assert access.may_train(
        stage.people.job, stage.plan(access, network), people.nodes["ann"].node_id
    )
    given = receivers(stage.files(network).read())
    assert node_reader(newcomer.node_id) not in given


def test_verifiers_get_no_trainers_shards_before_the_draw(stage: Stage, people: People) -> None:
    """Who knew the drawn nodes' data early, and so the draw, could warn a friend."""
    stage.start("ann")
    verifier, network = stage.start("vic")
    server = stage.server(network)
    stage.people.open()
    server.step()
    job, node = stage.people.job, people.nodes["vic"].node_id
    assert verifier.ready(job, node)
    given = receivers(stage.files(network).read())[node_reader(node)]
    needed = NeededShards(network, verifier.models, Plans(network, verifier.models))
    assert given == needed.to_measure(job)
    plan = stage.plan(verifier, network)
    assert not verifier.may_check(job, plan, node, people.nodes["ann"].node_id)


def forged(
    stage: Stage, network: Network, node: Node, public: bytes, keys: dict[int, bytes], round_id: int
) -> KeyRelease:
    place = stage.files(network).place(round_id, "shards")
    release = make_release(place, [Recipient(node_reader(node.node_id), public, keys)])
    assert release is not None
    return release


def test_a_strangers_file_is_no_file(stage: Stage, people: People, ann: Node, eve: Node) -> None:
    """Wrong keys from eve would keep ann from training; and a file that lies of its place."""
    access, network = stage.start("ann")
    server = stage.server(network)
    stage.people.open()
    job, keys = stage.people.job, network.deployment["DataKeys"]
    public = network.chain.call(network.registry, "encryption_key_of", ann.node_id)
    every = range(len(access.models.job(job).data.dataset.shards))
    wrong = {index: new_key() for index in every}
    lie = forged(stage, network, ann, bytes(public), wrong, 1)
    digest = digest_of(stage.store.put_bytes(lie.to_bytes()))
    people.chain.send(eve.operator, keys, "disclose_keys", job, 1, digest)
    plan = stage.plan(access, network)
    assert not access.may_train(job, plan, ann.node_id), "a stranger's keys count for nothing"
    # By the sponsor, but for round 1 under the name of round 2; then bytes that are no file.
    sponsor = stage.people.sponsor
    people.chain.send(sponsor, keys, "disclose_keys", job, 2, digest)
    junk = digest_of(stage.store.put_bytes(b"no file of keys"))
    people.chain.send(sponsor, keys, "disclose_keys", job, 1, junk)
    people.chain.send(sponsor, keys, "disclose_keys", job, 1, b"\7" * 32)  # the store lacks it
    assert not access.may_train(job, plan, ann.node_id)
    assert server.step() is True, "what is due is given all the same"
    assert access.may_train(job, plan, ann.node_id)
    shards = sorted(access.needed.to_train(job, plan, ann.node_id))
    data = access.models.job(job).data
    assert data.shards_of(plan.manifest.of(ann.node_id).ranges) == set(shards)  # type: ignore[union-attr]
    data.batch(plan.manifest.of(ann.node_id).ranges[0][0])  # type: ignore[union-attr]


def test_who_changes_its_public_key_again_and_again_costs_the_sponsor_no_more(
    stage: Stage, people: People, ann: Node, eve: Node
) -> None:
    access, network = stage.start("ann")
    stage.start("eve")
    server = stage.server(network)
    stage.people.open()
    for _ in range(MOST_FILES + 4):
        public = X25519PrivateKey.generate().public_key().public_bytes_raw()
        people.chain.send(eve.operator, network.registry, "set_encryption_key", eve.node_id, public)
        server.step()
    assert len(stage.files(network).read()) == MOST_CHANGES
    plan = stage.plan(access, network)
    assert access.may_train(stage.people.job, plan, ann.node_id), "ann was served with the first"


def test_trainers_that_use_up_their_files_keep_nobody_from_being_checked(
    stage: Stage, ann: Node
) -> None:
    """Many nodes together, each of which names its key a little later than the one before. What is
    due to verifiers after the draw, and to the committee, is given all the same."""
    _, network = stage.start("ann")
    discloser = stage.server(network)._discloser
    stage.people.open()

    def give(reader: str, most: int) -> list[str]:
        public = X25519PrivateKey.generate().public_key().public_bytes_raw()
        return discloser._give(1, {(reader, public): frozenset({0})}, most)

    before = [give(node_reader(100 + i), MOST_FILES) for i in range(MOST_FILES + 3)]
    assert [bool(found) for found in before] == [True] * MOST_FILES + [False] * 3
    assert give(node_reader(9), 2 * MOST_FILES), "a verifier after the draw"
    assert len(stage.files(network).read()) == MOST_FILES + 1


class Slow(EmbeddedStore):
    """Serves large files once it may."""

    asked = 0

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_serve = threading.Event()

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        raw = super().get_digest(digest, max_bytes)
        if len(raw) > 1 << 17:
            self.asked += 1
            self.may_serve.wait(60.0)
        return raw


def test_many_large_files_that_come_slowly_hold_no_receiver_up(
    stage: Stage, people: People, ann: Node
) -> None:
    """The sponsor of a job puts files on record of 16 MiB each, which took five minutes each at 64
    KiB a second. A node waits two seconds for those that it begins, and reads on meanwhile; what is
    sealed to others it does not keep."""
    (access, network), job = stage.start("ann"), stage.people.job
    server, keys = stage.server(network), network.deployment["DataKeys"]
    stage.people.open()
    plan, round_id = stage.plan(access, network), stage.view(network).round_id
    assert server.step() is True
    place = stage.files(network).place(round_id, "shards")
    public = X25519PrivateKey.generate().public_key().public_bytes_raw()
    for number in range(6):
        many = {item: bytes([number]) * 32 for item in range(4000)}
        release = make_release(place, [Recipient("node 999", public, many)])
        assert release is not None
        digest = digest_of(stage.store.put_bytes(release.to_bytes()))
        stage.people.chain.send(stage.people.sponsor, keys, "disclose_keys", job, round_id, digest)
    slow = Slow(stage.store.root)
    access = DataAccess(network, slow, access._context)
    access.keys_of_shards(job, ann.node_id)
    assert slow.asked == 2, "it comes back while none is served"
    slow.may_serve.set()
    end = time.monotonic() + 60.0
    while not access.may_train(job, plan, ann.node_id):
        assert time.monotonic() < end
        time.sleep(0.2)
    assert slow.asked == 6


def test_a_leak_names_who_had_all_of_it(stage: Stage, people: People, ann: Node) -> None:
    access, network = stage.start("ann")
    stage.start("eve")
    stage.start("vic")
    stage.server(network)
    stage.people.open()
    stage.server(network).step()
    job, plan = stage.people.job, stage.plan(access, network)
    dataset = access.models.job(job).data.dataset
    mine = access.needed.to_train(job, plan, ann.node_id)
    key_of = key_for(dataset, KEY)
    leaked = [key_of(index) for index in mine]
    assert places_of(stage.store, dataset, [*leaked, new_key()]) == mine
    given = receivers(stage.files(network).read())
    assert suspects_of(given, mine) == [node_reader(ann.node_id)]
    assert suspects_of(given, []) == []
    # Whoever leaks together with another is not named: nobody had all of it.
    theirs = access.needed.to_train(job, plan, people.nodes["eve"].node_id)
    assert not theirs <= mine
    assert suspects_of(given, mine | theirs) == []


def test_the_sponsor_that_lost_everything_but_its_key_file_goes_on(
    stage: Stage, people: People, ann: Node
) -> None:
    access, network = stage.start("ann")
    stage.people.open()
    assert stage.server(network).step() is True
    assert stage.server(network).step() is False, "a second one serves nobody twice"
    # The files are lost with the store: what is due is given again.
    for one in stage.files(network).read():
        digest = digest_of(stage.store.put_bytes(one.release.to_bytes()))
        for path in stage.store.root.rglob(f"{digest.hex()}*"):
            path.unlink()
    assert stage.files(network).read() == []
    assert stage.server(network).step() is True
    assert access.may_train(stage.people.job, stage.plan(access, network), ann.node_id)


def test_a_manifest_with_sealed_shards_is_refused_where_nobody_gets_keys(stage: Stage) -> None:
    spec = stage.published.spec
    with pytest.raises(SpecError, match="its shards are sealed, each with a key of its own"):
        JobContext(spec.model_copy(update={"access": "public"}), stage.store)


def test_the_demos_prying_node_and_leaker_are_seen_for_what_they_are(
    stage: Stage, people: People, tmp_path: Path
) -> None:
    """What the demo's judge says of them, here of one round; and that it says otherwise of a node
    that holds a key too many."""
    seats = {"trainer-1": "ann", "trainer-2": "bob", "trainer-3": "cat"}
    for name in seats.values():
        _, network = stage.start(name)
    stage.people.open()
    stage.server(network).step()
    nodes = {seat: people.nodes[name] for seat, name in seats.items()}
    prying = Prying(stage.agents.running["ann"], stage.store)
    prying.pry(stage.view(network), nodes["trainer-1"].node_id)
    leaker = Leaker(stage.agents.running["bob"], stage.store)
    leaker.leak(stage.people.job, nodes["trainer-2"].node_id)
    folders = {seat: tmp_path / name for seat, name in seats.items()}
    ids = {seat: node.node_id for seat, node in nodes.items()}
    sight = Sight(network, stage.store, stage.people.job, KEY, folders, ids, tmp_path)
    cheats = {"prying": "trainer-1", "leaker": "trainer-2"}
    checks = ENCRYPTED.sight(sight, cheats)
    assert [check.sentence for check in checks if not check.holds] == []
    assert len(checks) == 6
    # The same judge, of a trainer that was given a key too many, and of another leaker.
    public = network.chain.call(network.registry, "encryption_key_of", ids["trainer-3"])
    shards = JobContext(stage.published.spec, stage.store, lambda: KEY).data.dataset.shards
    more = {index: new_key() for index in range(len(shards))}
    place = stage.files(network).place(1, "shards")
    release = make_release(place, [Recipient(node_reader(ids["trainer-3"]), bytes(public), more)])
    assert release is not None
    digest = digest_of(stage.store.put_bytes(release.to_bytes()))
    keys = network.deployment["DataKeys"]
    people.chain.send(stage.people.sponsor, keys, "disclose_keys", stage.people.job, 1, digest)
    wrong = [c.sentence for c in ENCRYPTED.sight(sight, cheats) if not c.holds]
    assert any("WRONG: trainer-3" in sentence for sentence in wrong)
    assert any("only trainer-2, trainer-3 had been given" in sentence for sentence in wrong)
