# SPDX-License-Identifier: Apache-2.0
"""Encrypted data on a real chain: who may have the key gets it, and nobody else.

Real keystores, journals and transactions: the node's side is `DataKeyDuty` in an agent's context,
the sponsor's side the `Keyholder` that `ape run keys serve` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from eth_account import Account
from eth_account.signers.local import LocalAccount

from agents.jobs.keys import DataKeyDuty
from agents.jobs.publish import Published
from agents.protocol.network import Network
from agents.protocol.numbers import Role
from agents.protocol.structs import KeyRequest, read
from agents.runtime.context import Context
from agents.runtime.contracts import Contract
from agents.runtime.errors import Reverted
from agents.runtime.wallet import Identity, Wallet
from agents.storage.embedded import EmbeddedStore
from agents.storage.envelope import Purpose
from agents.storage.errors import StoreError
from agents.storage.sealed import SealError, key_id_of, new_key
from agents.training.data import DataSource
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.sealed_data import open_sealed, pack_sealed
from agents.training.spec import Hyperparameters, JobSpec
from scripts._net.anvil import CHAIN_ID
from scripts._shared.keyholder import Entry, Keyholder, KeyholderError, record
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.chain import Refused, key_of
from tests.stage.chain.people import EMPTY, TERMS, Node, People
from tests.stage.memory.honest_round import TinyJob

KEY = new_key()
TEXT = [b"crane %d nests in sector %d of the reserve\n" % (i, i * 7 % 90) for i in range(900)]


@dataclass(frozen=True)
class Sealed:
    """A job whose data is encrypted."""

    job_id: int
    spec: JobSpec
    store: EmbeddedStore


@pytest.fixture
def sealed(people: People, tiny: TinyJob, tmp_path: Path) -> Sealed:
    store = EmbeddedStore(tmp_path / "store")
    spec = tiny.published.spec.model_copy(
        update={"access": "encrypted", "data": pack_sealed(TEXT, store, KEY, shard_bytes=4096)}
    )
    published: Published = replace(
        tiny.published, spec=spec, spec_cid=store.put_bytes(spec.to_bytes())
    )
    job_id = people.create_job(people.sponsor, TERMS.encode(published), 0)
    return Sealed(job_id, spec, store)


@dataclass(frozen=True)
class Agent:
    """One node's agent, as far as data keys go."""

    node: Node
    context: Context
    duty: DataKeyDuty
    job: Sealed

    def step(self) -> str | None:
        return self.duty.step(self.job.job_id, self.node.node_id)

    def ask(self) -> None:
        """Steps until the request is on chain."""
        while (did := self.step()) is not None:
            assert did.startswith(("published:", "asked:"))

    @property
    def key(self) -> bytes | None:
        return self.duty.key(self.job.job_id, self.node.node_id)

    @property
    def purpose(self) -> Purpose:
        keys = self.context.deployment["DataKeys"].address
        return Purpose(CHAIN_ID, keys, self.job.job_id, self.node.node_id, key_id_of(KEY))


Start = Callable[[Node], Agent]


@pytest.fixture
def agent(
    people: People, sealed: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    """Starts a node's agent; called again for the same node, it restarts it."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        agents = RunningAgents(people, tmp_path, stack)

        def run(node: Node) -> Agent:
            context = agents.begin(node, "trainer")
            network = Network(context.chain, context.deployment)
            duty = DataKeyDuty(network, context, lambda _: sealed.spec)
            return Agent(node, context, duty, sealed)

        yield run


def sender_of(people: People, account: LocalAccount) -> Callable[..., Any]:
    """Sends as `account`, with refusals as agents know them."""

    def send(contract: Contract, function: str, args: tuple[Any, ...]) -> Any:
        try:
            return people.chain.send(account, contract, function, *args)
        except Refused as refused:
            raise Reverted(str(refused)) from None

    return send


@dataclass(frozen=True)
class RunningKeyholder:
    """The sponsor's keyholder and what it said."""

    holder: Keyholder
    said: list[str]


Hold = Callable[..., RunningKeyholder]


@pytest.fixture
def hold(people: People, sealed: Sealed, agent: Start, network: Network) -> Hold:
    """Makes a keyholder, by default the sponsor's with the job's key."""

    def make(key: bytes = KEY, account: LocalAccount | None = None) -> RunningKeyholder:
        account = account or people.sponsor
        said: list[str] = []
        send = sender_of(people, account)
        holder = Keyholder(network, sealed.job_id, key, account.address, send, said.append)
        return RunningKeyholder(holder, said)

    return make


@pytest.fixture
def network(agent: Start, people: People) -> Network:
    context = agent(people.nodes["cat"]).context
    return Network(context.chain, context.deployment)


def served(hold: Hold, agent: Agent) -> RunningKeyholder:
    """The sponsor's keyholder, once it has given the agent the key that it asked for."""
    sponsor = hold()
    sponsor.holder.announce()
    agent.ask()
    assert sponsor.holder.step() == [agent.node.node_id]
    assert agent.step() == f"received: the key of job {agent.job.job_id}"
    return sponsor


def log_of(agent: Agent) -> str:
    return agent.context.settings.log_file.read_text()  # type: ignore[union-attr]


# -- who gets it -------------------------------------------------------------------------------


def test_an_eligible_trainer_gets_the_key_and_trains_on_the_data(
    sealed: Sealed, agent: Start, hold: Hold, ann: Node, network: Network
) -> None:
    trainer = agent(ann)
    assert trainer.step() is None, "no key is announced yet"
    assert "has not announced" in log_of(trainer)
    sponsor = hold()
    assert sponsor.holder.announce() is True
    assert trainer.step() == f"published: the encryption key of node {ann.node_id}"
    assert trainer.step() == f"asked: for the key of job {sealed.job_id}"
    assert trainer.step() is None
    assert trainer.key is None
    assert sponsor.holder.step() == [ann.node_id]
    assert trainer.step() == f"received: the key of job {sealed.job_id}"
    assert trainer.step() is None
    assert trainer.key == KEY

    spec = sealed.spec
    data = DataSource(open_sealed(sealed.store, trainer.key, spec.data), spec)
    before = init_state(spec.model, None)
    batches = [data.batch(index) for index in range(6)]
    text = b"".join(line + b"\0" for line in TEXT)
    assert bytes(batches[0][0].to(torch.uint8).tolist()) in text
    net = FlatModel(spec.model, None, "cpu")
    result = train_local(net, before, batches * 5, Hyperparameters.of(spec, 0), bytes(32))
    assert result.losses[-1] < 0.9 * result.losses[0]
    assert record(network, sealed.job_id) == [
        Entry(
            node=ann.node_id,
            role=Role.TRAINER,
            key_id=key_id_of(KEY),
            encryption_key=trainer.duty.identity.public,
            asked_block=record(network, sealed.job_id)[0].asked_block,
            released_block=network.chain.head().number,
            by=network.job(sealed.job_id).sponsor,
        )
    ]


@pytest.mark.parametrize(
    ("name", "role"), [("vic", Role.VERIFIER), ("abe", Role.AGGREGATOR)], ids=["vic", "abe"]
)
def test_approved_roles_get_it_too(
    people: People,
    sealed: Sealed,
    agent: Start,
    hold: Hold,
    network: Network,
    name: str,
    role: Role,
) -> None:
    sponsor = hold()
    sponsor.holder.announce()
    node = agent(people.nodes[name])
    node.ask()
    assert sponsor.holder.step() == [node.node.node_id]
    node.step()
    assert node.key == KEY
    assert [entry.role for entry in record(network, sealed.job_id)] == [role]


def test_without_a_verified_benchmark_there_is_no_key(
    people: People, sealed: Sealed, agent: Start, hold: Hold
) -> None:
    sponsor = hold()
    sponsor.holder.announce()
    newcomer = agent(people.enlist("dan", spare=10**18))
    for _ in range(3):
        newcomer.ask()
        assert sponsor.holder.step() == []
        assert newcomer.key is None
    # It does not help to ask in another way, nor does the sponsor's good will.
    keys = newcomer.context.deployment["DataKeys"]
    node, key_id = newcomer.node, key_id_of(KEY)
    args = (sealed.job_id, node.node_id)
    people.chain._nonces.clear()
    people.chain.refuse("keys: node not eligible", node.operator, keys, "request_key", *args)
    people.chain.refuse("keys: not operator", node.owner, keys, "request_key", *args)
    release = (*args, key_id, newcomer.duty.identity.public, b"envelope")
    people.chain.refuse("keys: no request", people.sponsor, keys, "release_key", *release)
    with pytest.raises(StoreError):
        DataSource(sealed.store, sealed.spec).batch(0)
    with pytest.raises(SealError, match="names key"):
        DataSource(open_sealed(sealed.store, new_key(), sealed.spec.data), sealed.spec).batch(0)

    people.benchmark(node)
    newcomer.ask()
    assert sponsor.holder.step() == [node.node_id]


def test_a_node_that_leaves_before_the_answer_is_not_served(
    people: People, sealed: Sealed, agent: Start, hold: Hold, eve: Node, network: Network
) -> None:
    sponsor = hold()
    sponsor.holder.announce()
    attacker = agent(eve)
    attacker.ask()
    people.chain.send(eve.owner, people.registry, "begin_exit", eve.node_id)
    assert sponsor.holder.step() == []
    assert attacker.step() is None
    assert [entry.released_block for entry in record(network, sealed.job_id)] == [None]


def test_a_stranger_cannot_release_and_cannot_announce(
    people: People, sealed: Sealed, agent: Start, hold: Hold, ann: Node
) -> None:
    stranger = people.person("mallory")
    with pytest.raises(KeyholderError, match="only its sponsor"):
        hold(account=stranger).holder.announce()
    hold().holder.announce()
    agent(ann).ask()
    mallory = hold(account=stranger)
    with pytest.raises(KeyholderError, match="may release the key"):
        mallory.holder.check_releaser()
    assert mallory.holder.step() == []
    assert mallory.said == [f"Node {ann.node_id} is not served now: keys: not releaser."]


def test_a_file_with_another_key_is_refused(hold: Hold) -> None:
    hold().holder.announce()
    other = new_key()
    with pytest.raises(KeyholderError, match=f"this file holds key {key_id_of(other).hex()}"):
        hold(other).holder.announce()


def test_the_releaser_serves_in_the_sponsors_place(
    people: People, sealed: Sealed, agent: Start, hold: Hold, ann: Node
) -> None:
    hold().holder.announce()
    hot = people.person("hot key")
    keys = agent(ann).context.deployment["DataKeys"]
    people.chain.send(people.sponsor, keys, "set_releaser", sealed.job_id, hot.address)
    trainer = agent(ann)
    trainer.ask()
    serving = hold(account=hot)
    assert serving.holder.announce() is False
    serving.holder.check_releaser()
    with pytest.raises(KeyholderError, match=f"Only {hot.address} may release"):
        hold().holder.check_releaser()
    assert serving.holder.step() == [ann.node_id]
    trainer.step()
    assert trainer.key == KEY


# -- restarts and changes ----------------------------------------------------------------------


def test_the_keyholder_is_a_function_of_the_chain(
    agent: Start, hold: Hold, ann: Node, bob: Node, network: Network, sealed: Sealed
) -> None:
    first = hold()
    first.holder.announce()
    agent(ann).ask()
    assert first.holder.step() == [ann.node_id]
    agent(bob).ask()
    restarted = hold()
    assert restarted.holder.announce() is False
    assert restarted.holder.step() == [bob.node_id]
    assert restarted.holder.step() == first.holder.step() == hold().holder.step() == []
    assert [entry.node for entry in record(network, sealed.job_id)] == [ann.node_id, bob.node_id]


def test_the_key_survives_a_restart_and_is_not_on_disk(
    agent: Start, hold: Hold, ann: Node, tmp_path: Path
) -> None:
    trainer = agent(ann)
    served(hold, trainer)
    again = agent(ann)
    assert again.step() is None
    assert again.key == KEY
    secret = Wallet(Account.from_key(ann.operator.key)).derive(b"menagerie node encryption key v1")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".journal" for path in files)
    for path in files:
        content = path.read_bytes()
        for hidden in (KEY, secret):
            assert hidden not in content and hidden.hex().encode() not in content, path


def test_a_new_operator_key_asks_again(
    people: People, sealed: Sealed, agent: Start, hold: Hold, ann: Node, network: Network
) -> None:
    old = agent(ann)
    sponsor = served(hold, old)
    fresh = people.person("ann operator 2", 10**18)
    signed = people.consent(fresh, ann.owner)
    people.chain.send(
        ann.owner, people.registry, "set_operator", ann.node_id, fresh.address, signed
    )
    new = agent(replace(ann, operator=fresh))
    assert new.key is None
    new.ask()
    assert sponsor.holder.step() == [ann.node_id]
    new.step()
    assert new.key == KEY
    assert len({entry.encryption_key for entry in record(network, sealed.job_id)}) == 2


def test_a_changed_encryption_key_makes_the_request_stale(
    people: People, agent: Start, hold: Hold, ann: Node
) -> None:
    sponsor = hold()
    sponsor.holder.announce()
    trainer = agent(ann)
    trainer.ask()
    other = Identity(Wallet(key_of("another key"))).public
    people.chain.send(ann.owner, people.registry, "set_encryption_key", ann.node_id, other)
    assert sponsor.holder.step() == []
    assert trainer.step() == f"published: the encryption key of node {ann.node_id}"
    assert sponsor.holder.step() == [ann.node_id]
    trainer.step()
    assert trainer.key == KEY


def test_a_changed_data_key_takes_nothing_away_and_is_asked_for(
    people: People, sealed: Sealed, agent: Start, hold: Hold, ann: Node
) -> None:
    trainer = agent(ann)
    sponsor = served(hold, trainer)
    other = new_key()
    keys = people.contracts["DataKeys"]
    people.chain.send(people.sponsor, keys, "set_key", sealed.job_id, key_id_of(other))
    assert trainer.key == KEY
    trainer.ask()
    assert sponsor.holder.step() == [], "it holds the old key only"
    assert trainer.key == KEY
    assert hold(other).holder.step() == [ann.node_id]
    trainer.step()
    assert trainer.key == other
    people.chain.send(people.sponsor, keys, "set_key", sealed.job_id, key_id_of(KEY))
    assert trainer.step() is None
    assert trainer.key == KEY


# -- bad envelopes and bad keys ----------------------------------------------------------------


def test_a_sponsor_that_names_another_key_again_and_again_is_asked_once_an_hour(
    people: People, sealed: Sealed, agent: Start, ann: Node
) -> None:
    """One transaction of the sponsor's had each node that could work send one, and it never has to
    answer. Control: an hour later a node asks for the key that stands then."""
    trainer, chain, names = agent(ann), people.chain, [key_id_of(new_key()) for _ in range(2)]
    trainer.duty.publish(ann.node_id)

    def sent() -> int:
        return int(chain.rpc("eth_getTransactionCount", ann.operator.address, "latest"), 16)

    before = sent()
    for number in range(6):
        place = sealed.job_id, names[number % 2]
        chain.send(people.sponsor, people.keys, "set_key", *place)
        trainer.ask()
    assert sent() == before + 1
    assert _asked_for(people, sealed, ann) == names[0]
    chain.warp(3600)
    trainer.ask()
    assert _asked_for(people, sealed, ann) == names[1]


def _asked_for(people: People, sealed: Sealed, node: Node) -> bytes:
    found = people.chain.call(people.keys, "request_of", sealed.job_id, node.node_id)
    return read(KeyRequest, found).key_id


def test_a_public_key_of_small_order_is_not_served_and_stops_nobody(
    people: People, sealed: Sealed, agent: Start, hold: Hold, ann: Node, eve: Node
) -> None:
    sponsor = hold()
    sponsor.holder.announce()
    trainer = agent(ann)
    keys = trainer.context.deployment["DataKeys"]
    bad = bytes([1]) + bytes(31)
    people.chain.send(eve.operator, people.registry, "set_encryption_key", eve.node_id, bad)
    people.chain.send(eve.operator, keys, "request_key", sealed.job_id, eve.node_id)
    trainer.ask()
    assert sponsor.holder.step() == [ann.node_id]
    assert sponsor.holder.step() == []
    assert sum("no X25519 public key" in line for line in sponsor.said) == 1


def test_no_public_key_is_no_request(people: People, sealed: Sealed, hold: Hold, ann: Node) -> None:
    hold().holder.announce()
    keys = people.contracts["DataKeys"]
    args = (sealed.job_id, ann.node_id)
    assert people.chain.call(people.registry, "encryption_key_of", ann.node_id) == EMPTY
    people.chain.refuse("keys: no encryption key", ann.operator, keys, "request_key", *args)


@pytest.mark.parametrize("kind", ["noise", "other key", "other node"])
def test_a_bad_envelope_is_named_and_gives_no_key(
    people: People, sealed: Sealed, agent: Start, hold: Hold, ann: Node, kind: str
) -> None:
    hold().holder.announce()
    trainer = agent(ann)
    trainer.ask()
    public = trainer.duty.identity.public
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    recipient = X25519PublicKey.from_public_bytes(public)
    others = replace(trainer.purpose, node_id=ann.node_id + 1)
    envelope = {
        "noise": bytes(81),
        "other key": b"\1" + suite.encrypt(bytes(32), recipient, trainer.purpose.to_bytes()),
        "other node": b"\1" + suite.encrypt(KEY, recipient, others.to_bytes()),
    }[kind]
    keys = trainer.context.deployment["DataKeys"]
    args = (sealed.job_id, ann.node_id, key_id_of(KEY), public, envelope)
    people.chain.send(people.sponsor, keys, "release_key", *args)
    assert trainer.step() is None
    assert trainer.step() is None
    assert trainer.key is None
    assert log_of(trainer).count("no_data_key") == 1


def test_public_jobs_need_no_key(sealed: Sealed, agent: Start, ann: Node, network: Network) -> None:
    context = agent(ann).context
    public = sealed.spec.model_copy(update={"access": "public"})
    duty = DataKeyDuty(network, context, lambda _: public)
    assert duty.step(sealed.job_id, ann.node_id) is None
    assert bytes(context.chain.call(network.registry, "encryption_key_of", ann.node_id)) == EMPTY
