# SPDX-License-Identifier: Apache-2.0
"""Appeals on encrypted data: members judge them with keys that they have while the case is open.

Two verifiers report both an honest trainer and one that sent noise; both appeal. A member that was
given no key has no verdict; with the keys it tells the one from the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from agents.jobs.changed_readers import MOST_CHANGES
from agents.jobs.disclosed import Disclosures
from agents.jobs.job import JobContext
from agents.jobs.model_files import read_model
from agents.jobs.publish import publish_job
from agents.protocol.network import Network
from agents.protocol.view import View, observe
from agents.rounds.data_access import DataAccess
from agents.rounds.member_access import MemberAccess
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.rounds.sealing import Sealing
from agents.rounds.shards import NeededShards
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.envelope import BOX_BYTES
from agents.storage.key_release import Entry, KeyRelease, Kind, Recipient, make_release
from agents.storage.sealed import KEY_BYTES, new_key
from agents.verifier import VerifierInJob
from agents.verify.disclosing import PayloadKeys
from agents.verify.judging import Judge
from agents.verify.key_searches import KeySearches
from scripts._shared.key_server import KeyServer
from tests.attacks.test_data_keys import sender_of
from tests.attacks.test_shard_keys import FIELDS, KEY, TEXT, Stage
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import COMMIT, INVALID, TERMS, CommittedWork, Node, People
from tests.stage.memory.honest_round import DEVICE, make_work, noise
from tests.stage.memory.tiny_specs import SEALED_PAYLOADS

HOW = {
    "shards": {"data_key": KEY, "shard_bytes": 1024},
    "one key": {"data_key": KEY, "one_key": True},
    "sealed": {},
}


@pytest.fixture
def stage(
    how: str, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    """A job whose data is encrypted in a way of `HOW`, or whose payloads are sealed."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    store = EmbeddedStore(tmp_path / "store")
    fields = {**FIELDS, **(SEALED_PAYLOADS if how == "sealed" else {})}
    published = publish_job(store, TEXT, fields, **HOW[how])
    sponsor = people.person("encrypted sponsor", 2 * TERMS.reward_per_round)
    own = replace(people, sponsor=sponsor)
    own.job = own.create_job(sponsor, TERMS.encode(published), 2 * TERMS.reward_per_round)
    with ExitStack() as stack:
        yield Stage(own, store, published, RunningAgents(own, tmp_path, stack))


def begin_member(stage: Stage) -> tuple[MemberAccess, Network]:
    """The agent of a committee member, who is no node."""
    key = stage.people.members[0]
    context = stage.agents.begin(Node("member", 0, 0, key, key, key), "coordinator")
    network = Network(context.chain, context.deployment)
    return MemberAccess(network, stage.store, context), network


def reported(
    stage: Stage, network: Network, honest: Node, liar: Node, sealing: Sealing | None = None
) -> dict[Node, bytes]:
    """A final round in which both worked, and both are reported. `sealing`: seals payloads."""
    people = stage.people
    job = JobContext(stage.published.spec, stage.store, lambda: KEY)
    people.open()
    view = observe(network, people.job, network.chain.head())
    plan = Plans(network, Models(network, stage.store, lambda _: KEY)).of(view)
    assert plan is not None
    before = read_model(
        job, stage.store, digest_of(stage.published.checkpoint_cid), stage.published.model
    )
    works = {}
    for node in (honest, liar):
        work = make_work(job, plan, before, node.node_id, job_id=people.job)
        if node is liar:
            false = noise(work.gradient, 1)
            work = make_work(job, plan, before, node.node_id, job_id=people.job, gradient=false)
        if sealing is not None:
            work = replace(work, payload=sealing.seal(work.payload, view))
        work.publish(stage.store)
        salt = keccak(text=f"salt of {node.name}")
        works[node] = CommittedWork.of_reveal(work.reveal(), salt)
        people.commit(node, works[node])
    people.pass_phase(COMMIT)
    for node, committed in works.items():
        people.reveal(node, committed)
    arrays = people.offer({honest: 1, liar: 1})
    reports = {node: people.report(node, INVALID, "vic", "vera") for node in works}
    people.confirm(arrays)
    return reports


def verdict(judge: Judge, view: View, node: Node) -> bool | None:
    """What a member finds. It looks again for what was missing after as long as its last look took,
    which a busy machine may draw out."""
    until = time.monotonic() + 60
    while (found := judge.is_innocent(view, node.node_id)) is None and time.monotonic() < until:
        time.sleep(0.05)
    return found


def appeal(people: People, node: Node, report: bytes) -> None:
    bond = people.chain.call(people.reports, "appeal_bond")
    people.chain.send(node.owner, people.token, "approve", people.reports.address, bond)
    people.chain.send(node.owner, people.reports, "appeal", report, b"\1" * 32)


def seated(
    stage: Stage, ann: Node, eve: Node
) -> tuple[DataAccess, Network, dict[Node, bytes], MemberAccess]:
    """Vic's access to a job of sealed payloads, in which ann and eve are reported, and a member's,
    who has announced a key to read with."""
    (vic, _), (abe, network) = stage.start("vic"), stage.start("abe")
    reports = reported(stage, network, ann, eve, abe.sealing)
    stage.people.chain._nonces.clear()
    access, _ = begin_member(stage)
    access.step(stage.people.job)
    stage.people.chain._nonces.clear()
    return vic, network, reports, access


def tell(stage: Stage, network: Network, vic: DataAccess) -> None:
    """Vic tells members the keys that they need."""
    people = stage.people
    context, node = stage.agents.running["vic"], people.nodes["vic"].node_id
    teller = PayloadKeys(network, context, stage.store, vic.models, vic.sealing)
    assert (eventually(lambda: teller.step(people.job, node)) or "").startswith("disclosed:")


@pytest.mark.parametrize("how", ["shards", "one key"])
def test_a_member_judges_appeals_with_keys_that_it_gets_only_for_them(
    stage: Stage, ann: Node, eve: Node
) -> None:
    people = stage.people
    access, network = begin_member(stage)
    sponsor = people.sponsor
    send = sender_of(people, sponsor)
    place = (network, stage.store, people.job, KEY, sponsor.address)
    server = KeyServer(*place, send, stage.said.append)
    server.holder.announce()
    reports = reported(stage, network, ann, eve)
    view = observe(network, people.job, network.chain.head(), people.round)
    told: list[str] = []
    judge = Judge(network, stage.store, DEVICE, told.append, access)
    member = people.members[0].address

    assert access.step(people.job) == f"published: the key under which {member} is written to"
    assert access.step(people.job) is None
    server.step()
    job = access.models.job(people.job)
    measured = job.data.shards_measured(job.spec.eval_batches) if job.own_keys else frozenset()
    assert given(stage, network).get(member, frozenset()) == measured, "there is no case yet"
    assert judge.is_innocent(view, ann.node_id) is None
    assert "can't be judged yet" in told[-1]

    people.chain._nonces.clear()
    appeal(people, ann, reports[ann])
    server.step()
    assert verdict(judge, view, ann) is True
    if access.models.job(people.job).own_keys:
        needed = NeededShards(network, access.models, plans := Plans(network, access.models))
        own = needed.to_check(people.job, plans.past(people.job, people.round), ann.node_id)
        assert given(stage, network)[member] == own | measured
        assert judge.is_innocent(view, eve.node_id) is None, "its case is not open"
    appeal(people, eve, reports[eve])
    server.step()
    assert verdict(judge, view, eve) is False
    assert verdict(judge, view, ann) is True
    assert server.step() is False


def given(stage: Stage, network: Network) -> dict[str, frozenset[int]]:
    """What the files on record gave to whom."""
    found = stage.files(network).read()
    whole: dict[str, frozenset[int]] = {}
    for one in found:
        for entry in one.release.readers:
            whole[entry.reader] = whole.get(entry.reader, frozenset()) | set(entry.items)
    return whole


@pytest.mark.parametrize("how", ["sealed"])
def test_a_member_judges_sealed_payloads_with_keys_that_verifiers_tell_it(
    stage: Stage, ann: Node, eve: Node
) -> None:
    people = stage.people
    (vic, _), (abe, network) = stage.start("vic"), stage.start("abe")
    reports = reported(stage, network, ann, eve, abe.sealing)
    people.chain._nonces.clear()
    context, node = stage.agents.running["vic"], people.nodes["vic"].node_id
    teller = PayloadKeys(network, context, stage.store, vic.models, vic.sealing)
    access, _ = begin_member(stage)
    view = observe(network, people.job, network.chain.head(), people.round)
    told: list[str] = []
    judge = Judge(network, stage.store, DEVICE, told.append, access)
    assert access.step(people.job) is not None
    assert access.step(people.job) is None
    people.chain._nonces.clear()
    assert teller.step(people.job, node) is None, "there is no case yet"
    assert judge.is_innocent(view, ann.node_id) is None

    appeal(people, ann, reports[ann])
    did = f"disclosed: keys of 1 payloads of round {people.round} to the committee"
    assert eventually(lambda: teller.step(people.job, node)) == did
    assert teller.step(people.job, node) is None, "once"
    assert given(stage, network) == {people.members[0].address: {ann.node_id}}
    assert verdict(judge, view, ann) is True
    assert judge.is_innocent(view, eve.node_id) is None, "its case is not open"
    people.chain._nonces.clear()
    appeal(people, eve, reports[eve])
    assert eventually(lambda: teller.step(people.job, node)) == did
    assert verdict(judge, view, eve) is False


@pytest.mark.parametrize("how", ["sealed"])
def test_wrong_keys_of_sealed_payloads_change_no_verdict(
    stage: Stage, ann: Node, eve: Node
) -> None:
    """A verifier who is the liar's friend tells the members keys that open nothing, before the
    honest one tells the right ones; and a stranger is not a reader by naming a public key."""
    people = stage.people
    (vic, _), (abe, network) = stage.start("vic"), stage.start("abe")
    reports = reported(stage, network, ann, eve, abe.sealing)
    people.chain._nonces.clear()
    access, _ = begin_member(stage)
    access.step(people.job)
    keys = network.deployment["DataKeys"]
    people.chain.send(eve.operator, keys, "set_reader_key", b"\7" * 32)
    people.chain._nonces.clear()
    appeal(people, eve, reports[eve])
    member = people.members[0].address
    public = bytes(network.chain.call(keys, "reader_key_of", member))
    place = stage.files(network).place(people.round, "payloads")
    lie = make_release(place, [Recipient(member, public, {eve.node_id: new_key()})])
    assert lie is not None
    digest = digest_of(stage.store.put_bytes(lie.to_bytes()))
    friend = people.nodes["vera"].operator
    people.chain.send(friend, keys, "disclose_keys", people.job, people.round, digest)
    view = observe(network, people.job, network.chain.head(), people.round)
    judge = Judge(network, stage.store, DEVICE, lambda why: None, access)
    assert judge.is_innocent(view, eve.node_id) is None
    tell(stage, network, vic)
    assert verdict(judge, view, eve) is False
    readers = [e.reader for one in stage.files(network).read() for e in one.release.readers]
    assert set(readers) == {member}


@pytest.mark.parametrize("how", ["sealed"])
def test_strangers_files_are_not_even_looked_for(
    stage: Stage, ann: Node, eve: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever puts digests on record that no store has would keep members waiting for stores."""
    people = stage.people
    vic, network, reports, access = seated(stage, ann, eve)
    keys, looked, honest = network.deployment["DataKeys"], list[bytes](), stage.store.get_digest
    for n in range(5):
        digest = bytes([n + 1]) * 32
        people.chain.send(eve.operator, keys, "disclose_keys", people.job, people.round, digest)
    appeal(people, eve, reports[eve])

    def counted(digest: bytes, most: int) -> bytes:
        looked.append(digest)
        return honest(digest, most)

    monkeypatch.setattr(stage.store, "get_digest", counted)
    view = observe(network, people.job, network.chain.head(), people.round)
    judge = Judge(network, stage.store, DEVICE, lambda why: None, access)
    assert judge.is_innocent(view, eve.node_id) is None
    assert looked and not {bytes([n + 1]) * 32 for n in range(5)} & set(looked)
    tell(stage, network, vic)
    assert verdict(judge, view, eve) is False


@pytest.mark.parametrize("how", ["sealed"])
def test_a_verifier_that_fills_a_members_room_blinds_it_to_no_case(
    stage: Stage, ann: Node, eve: Node
) -> None:
    """The liar's friend tells a member 100,000 keys in each of six files, 19 MiB in all. A member
    kept 16 MiB of keys in a job, whoever told them: from then on it read no key of another
    verifier or of the sponsor there, so no case of the job was judged."""
    people = stage.people
    vic, network, reports, access = seated(stage, ann, eve)
    appeal(people, ann, reports[ann])
    for number in range(6):
        flood(stage, network, people.nodes["vera"].operator, "payloads", bytes([number]))
    received = looked(stage, network, access, ann, 6)
    assert taken(received) == 0
    tell(stage, network, vic)
    judge, view = judging(stage, network, access)
    assert verdict(judge, view, ann) is True


@pytest.mark.parametrize("how", ["sealed"])
def test_a_verifier_that_takes_new_keys_fills_no_more_of_a_members_room(
    stage: Stage, ann: Node, eve: Node
) -> None:
    """The liar's friend tells a member 12.8 MiB of keys, takes another operator key, and tells it
    as much again. A member kept 16 MiB for each such key, for gas alone."""
    people = stage.people
    vic, network, reports, access = seated(stage, ann, eve)
    appeal(people, ann, reports[ann])
    vera = people.nodes["vera"]
    for number in range(2):
        operator = people.person(f"vera's key {number}")
        consent = people.consent(operator, vera.owner)
        change = (vera.node_id, operator.address, consent)
        people.chain.send(vera.owner, people.registry, "set_operator", *change)
        for file in range(4):
            flood(stage, network, operator, "shards", bytes([number, file]))
        received = looked(stage, network, access, ann, 4 * (number + 1))
    assert 0 < taken(received) <= 16 << 20
    tell(stage, network, vic)
    judge, view = judging(stage, network, access)
    assert verdict(judge, view, ann) is True


@pytest.mark.parametrize("how", ["sealed"])
def test_a_member_that_takes_new_keys_keeps_no_verifier_from_its_work(
    stage: Stage, ann: Node, eve: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member names another public key before each of the verifier's steps. Each step ended in
    telling it what it had been told, so the verifier did nothing else; now it is told under two
    keys, and whatever is due is done in the same step."""
    monkeypatch.setattr("agents.verifier._PATIENCE_S", 0.0)
    people = stage.people
    _, _, reports, _ = seated(stage, ann, eve)
    appeal(people, ann, reports[ann])
    node = people.nodes["vic"]
    context = stage.agents.begin(node, "verifier", jitter_s=0.0)
    network = Network(context.chain, context.deployment)
    verifier = VerifierInJob(context, stage.store, network)
    verifier.payload_keys._searches[people.job] = KeySearches(stage.store, wait_s=60.0)
    keys, member, did = network.deployment["DataKeys"], people.members[1], list[str]()
    for number in range(5):
        people.chain._nonces.clear()
        people.chain.send(member, keys, "set_reader_key", bytes([number + 1]) * 32)
        view = observe(network, people.job, network.chain.head())
        did.append(verifier.step(view, node.node_id) or "")
    assert [said.startswith("disclosed: ") for said in did] == [True] * MOST_CHANGES + [False] * 3
    assert "; " in did[0], "something else was due, and done"
    entries = [e for one in stage.files(network).read() for e in one.release.readers]
    assert [e.reader for e in entries].count(member.address) == MOST_CHANGES
    assert given(stage, network)[people.members[0].address] == {ann.node_id}


@pytest.mark.parametrize("how", ["sealed"])
def test_payloads_of_a_case_are_read_once_and_hold_no_verifier(
    stage: Stage, ann: Node, eve: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody serves eve's payload. Each of the verifier's steps waited for it, and read ann's too,
    although the members knew its key."""
    people = stage.people
    vic, network, reports, _ = seated(stage, ann, eve)
    contents = {
        reveal.content: node
        for node, reveal in network.reveals(people.job, people.round, 0).items()
    }
    read, served, honest = list[int](), threading.Event(), stage.store.get_digest

    def slow(digest: bytes, most: int) -> bytes:
        if digest in contents:
            read.append(contents[digest])
            assert contents[digest] == ann.node_id or served.wait(120)
        return honest(digest, most)

    monkeypatch.setattr(stage.store, "get_digest", slow)
    context, node = stage.agents.running["vic"], people.nodes["vic"].node_id
    teller = PayloadKeys(network, context, stage.store, vic.models, vic.sealing)
    appeal(people, ann, reports[ann])
    did = f"disclosed: keys of 1 payloads of round {people.round} to the committee"
    assert eventually(lambda: teller.step(people.job, node)) == did
    assert [teller.step(people.job, node) for _ in range(3)] == [None] * 3
    assert read == [ann.node_id]
    people.chain._nonces.clear()
    appeal(people, eve, reports[eve])
    assert [teller.step(people.job, node) for _ in range(3)] == [None] * 3
    assert read.count(eve.node_id) <= 1, "it is under way"
    served.set()
    assert eventually(lambda: teller.step(people.job, node)) == did
    assert read == [ann.node_id, eve.node_id]


@pytest.mark.parametrize("how", ["sealed"])
def test_who_reads_a_round_is_asked_in_as_many_queries_whatever_their_number(
    stage: Stage, ann: Node, eve: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was two queries for each reader, over all blocks, in each round."""
    people = stage.people
    (_, network), asked = stage.start("vic"), list[str]()
    nodes = sorted(node.node_id for node in people.nodes.values())
    wanted = {n: bytes(people.chain.call(people.registry, "encryption_key_of", n)) for n in nodes}
    honest = network.chain.events

    def counted(contract: Any, name: str, *rest: Any) -> Any:
        asked.append(name)
        return honest(contract, name, *rest)

    monkeypatch.setattr(network.chain, "events", counted)
    block = network.chain.head().number
    assert network.encryption_keys_at(nodes, block) == wanted
    assert any(any(key) for key in wanted.values())
    assert sorted(asked) == ["EncryptionKeyChanged", "NodeRegistered"]
    assert network.encryption_keys_at(nodes, block) == wanted
    assert len(asked) == 2, "no block is searched again"


def eventually(step: Callable[[], str | None]) -> str | None:
    """What a step does once what it searches for has come."""
    until = time.monotonic() + 60
    while (did := step()) is None and time.monotonic() < until:
        time.sleep(0.05)
    return did


def flood(stage: Stage, network: Network, by: LocalAccount, kind: Kind, filled: bytes) -> None:
    """Tell a member 100,000 keys in one file, which open nothing."""
    people, many = stage.people, 100_000
    member, keys = people.members[0].address, network.deployment["DataKeys"]
    public = bytes(network.chain.call(keys, "reader_key_of", member)).hex()
    box = filled.ljust(BOX_BYTES + KEY_BYTES * many, b"\1")
    entry = Entry(reader=member, key=public, items=tuple(range(many)), box=box.hex())
    place = stage.files(network).place(people.round, kind)
    release = KeyRelease(
        chain_id=place.chain_id,
        contract=place.contract,
        job=place.job_id,
        round=place.round_id,
        kind=place.kind,
        readers=(entry,),
    )
    digest = digest_of(stage.store.put_bytes(release.to_bytes()))
    people.chain.send(by, keys, "disclose_keys", people.job, people.round, digest)


def judging(stage: Stage, network: Network, access: MemberAccess) -> tuple[Judge, View]:
    """A member's recomputation of the round, and what it sees of that now."""
    people = stage.people
    judge = Judge(network, stage.store, DEVICE, lambda why: None, access)
    return judge, observe(network, people.job, network.chain.head(), people.round)


def looked(
    stage: Stage, network: Network, access: MemberAccess, node: Node, files: int
) -> Disclosures:
    """What a member has received once it has read so many files; it had no verdict by then."""
    judge, view = judging(stage, network, access)
    received = access._received._disclosures(stage.people.job)
    until = time.monotonic() + 120
    while len(received._read) < files and time.monotonic() < until:
        assert judge.is_innocent(view, node.node_id) is None
        time.sleep(0.05)
    return received


def taken(received: Disclosures) -> int:
    """Bytes of the boxes that a member keeps."""
    kept = [found for found in received._read.values() if isinstance(found, KeyRelease)]
    return sum(len(entry.box) // 2 for release in kept for entry in release.readers)
