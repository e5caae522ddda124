# SPDX-License-Identifier: Apache-2.0
"""A reorganisation right after a commitment: the old transaction is mined again on the new branch.

Rule: `anvil_reorg` drops the blocks back to before the seed's, and mines the commitment's own
signed transaction anew. What was committed to is of another seed then. A commitment that names the
chain it was made on counts for nothing there, and the node commits to its new work, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.coordinator import Coordinator
from agents.gauntlet.record import MAX_RECORD_BYTES, ScoreRecord
from agents.protocol.numbers import ZOO, Violation
from agents.protocol.scores import Consensus
from agents.runtime.context import Context
from agents.runtime.contracts import Contract
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.verifier import Verifier
from agents.verify.rulings import salt_of
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from tests.attacks.conftest import TinyJob
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.people import (
    COMMIT,
    EMPTY,
    STAKES,
    TERMS,
    TRAINERS,
    VERIFIER,
    Node,
    People,
    found,
)
from tests.stage.chain.validators import ValidatedJob

COMMIT_TIME = TERMS.aggregate_s + TERMS.score_commit_s


@dataclass
class Branch:
    """The chain of the test, which can be moved to another branch."""

    people: People
    job: ValidatedJob

    def sent(self, contract: Contract, event: str) -> str:
        """The signed transaction of the newest event of this name, as it was sent."""
        chain = self.people.chain
        topic = "0x" + contract.event(event).topic.hex()
        query = {"address": contract.address, "topics": [topic], "fromBlock": "0x0"}
        tx = chain.rpc("eth_getLogs", query)[-1]["transactionHash"]
        return str(chain.rpc("eth_getRawTransactionByHash", tx))

    def reorganise(self, first: int, again: str) -> dict[str, Any]:
        """Replace the blocks from `first` on; a transaction is mined again. Its new receipt."""
        chain = self.people.chain
        head = int(chain.rpc("eth_blockNumber"), 16)
        before = chain.rpc("eth_getBlockByNumber", hex(first), False)["hash"]
        depth = head - first + 1
        self.replace(depth, [[again, depth - 1]])
        after = chain.rpc("eth_getBlockByNumber", hex(first), False)["hash"]
        assert before != after, "the reorganisation should replace the seed's block"
        block = chain.rpc("eth_getBlockByNumber", "latest", False)
        (tx,) = block["transactions"]
        return chain.receipt(tx)

    def replace(self, depth: int, sent: list[Any]) -> None:
        """Replace so many blocks. Somebody else makes them, or empty ones would be the same."""
        self.people.chain.rpc("anvil_setCoinbase", "0x" + "77" * 20)
        self.people.chain.rpc("anvil_reorg", depth, sent)
        self.people.chain._nonces.clear()

    def stake(self, node: Node) -> int:
        return int(self.people.chain.call(self.people.registry, "node", node.node_id).stake)


@pytest.fixture
def branch(tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Branch]:
    """A chain of its own: no snapshot of another test survives a reorganisation."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with Supervisor(tmp_path / "logs") as supervisor, ExitStack() as stack:
        people = found(start_anvil(supervisor, tmp_path).url, TRAINERS[:2])
        people.person("sponsor")
        job = ValidatedJob(people, tiny, tmp_path, stack, rounds=2)
        yield Branch(people, job)


def commit(branch: Branch, trainer: Trainer, node: Node) -> None:
    said = trainer.commit(branch.job.view(trainer), node.node_id)
    assert said is not None and said.startswith("committed:"), said


def commitment(branch: Branch, node: Node) -> bytes:
    people = branch.people
    return bytes(people.chain.call(people.rounds, "commitment_of", *people.place, node.node_id))


def test_a_trainers_commitment_on_the_other_branch__costs_nothing(branch: Branch) -> None:
    """It is refused there, the node commits to its new task, reveals it, and keeps its stake."""
    people, ann, bob = branch.people, branch.people.nodes["ann"], branch.people.nodes["bob"]
    trainer, other = branch.job.trainer(ann), branch.job.trainer(bob)
    people.open()
    seed_block = int(people.state.seed_block)
    people.chain.mine()
    commit(branch, trainer, ann)
    receipt = branch.reorganise(seed_block, branch.sent(people.rounds, "Committed"))
    assert int(receipt["status"], 16) == 0
    assert people.chain._reason(receipt) == "rounds: another chain"
    assert commitment(branch, ann) == EMPTY
    commit(branch, trainer, ann)
    standing = commitment(branch, ann)
    assert trainer.commit(branch.job.view(trainer), ann.node_id) is None
    assert commitment(branch, ann) == standing
    commit(branch, other, bob)
    assert len(trainer.context.journal.keys("submission-")) == 2
    people.pass_phase(COMMIT)
    for one, node in ((trainer, ann), (other, bob)):
        said = one.reveal(branch.job.view(one), node.node_id)
        assert said is not None and said.startswith("revealed:")
    assert branch.stake(ann) == ann.stake


def test_a_commitment_that_names_no_chain__costs_a_twentieth(branch: Branch) -> None:
    """What an agent did before, and what a cheat would have to do to be bound to two branches: the
    commitment stands, its task is another one, and silence is slashed."""
    people, ann, bob = branch.people, branch.people.nodes["ann"], branch.people.nodes["bob"]
    trainer, other = branch.job.trainer(ann), branch.job.trainer(bob)
    people.open()
    seed_block = int(people.state.seed_block)
    people.chain.mine()
    commit(branch, trainer, ann)
    digest = commitment(branch, ann)
    branch.replace(int(people.chain.rpc("eth_blockNumber"), 16) - seed_block + 1, [])
    people.chain.mine(2)
    people.chain.send(ann.operator, people.rounds, "commit", *people.place, ann.node_id, digest)
    assert trainer.commit(branch.job.view(trainer), ann.node_id) is None
    commit(branch, other, bob)
    people.pass_phase(COMMIT)
    assert trainer.reveal(branch.job.view(trainer), ann.node_id) is None
    assert other.reveal(branch.job.view(other), bob.node_id) is not None
    people.pass_phase(2)
    call = (people.rounds, "slash_unrevealed", *people.place, ann.node_id)
    people.chain.send(people.faucet, *call)
    assert ann.stake - branch.stake(ann) == 5 * ZOO
    row = people.chain.call(people.registry, "penalty", int(Violation.NO_REVEAL))
    assert row.bps == 500


def test_a_validators_commitment_on_the_other_branch__is_made_again(branch: Branch) -> None:
    """Its record follows from the audit seed that the round has in the end; nothing is lost."""
    people, vic = branch.people, branch.people.nodes["vic"]
    parties = [(branch.job.trainer(people.nodes[n]), people.nodes[n]) for n in TRAINERS[:2]]
    branch.job.reveal(*parties)
    for trainer, node in parties:
        assert branch.job.show(trainer, node) is not None
    verifier = Verifier(
        branch.job.begin(vic, "verifier"), EmbeddedStore(branch.job.folder / "store")
    )
    duty = verifier.jobs.in_job(people.job).validator

    def step() -> str | None:
        return duty.step(branch.job.view(verifier), vic.node_id)

    assert step() == "scored: round 1, committed"
    old = branch.job.view(verifier).round.audit_block
    seeds = {seed(verifier, branch)}
    receipt = branch.reorganise(old, branch.sent(people.scores, "ScoresCommitted"))
    assert int(receipt["status"], 16) == 0
    assert people.chain._reason(receipt) == "scores: another chain"
    place = (*people.place, vic.node_id)
    assert bytes(people.chain.call(people.scores, "score_commitment_of", *place)) == EMPTY
    for trainer, node in parties:
        trainer._shown_in = (0, 0)
        branch.job.show(trainer, node)
    people.chain.mine()
    assert step() == "scored: round 1, committed"
    seeds.add(seed(verifier, branch))
    assert len(seeds) == 2 and len(verifier.context.journal.keys("scores-")) == 2
    people.chain.warp(COMMIT_TIME + 1)
    assert step() == "scored: round 1, revealed"
    digest = Consensus(verifier.network).record(*place)
    record = ScoreRecord.from_bytes(branch.job.store.get_digest(digest, MAX_RECORD_BYTES))
    assert bytes.fromhex(record.audit_seed) == seed(verifier, branch)
    assert branch.stake(vic) == vic.stake


def test_a_sample_that_the_other_branch_has_not__is_not_scored(branch: Branch) -> None:
    """One block is replaced, and bob posts junk in its place. The audit seed is the same. Vic had
    scored what bob posted first, and committed to it: a member would call that false."""
    people, vic, bob = branch.people, branch.people.nodes["vic"], branch.people.nodes["bob"]
    parties = [(branch.job.trainer(people.nodes[n]), people.nodes[n]) for n in TRAINERS[:2]]
    branch.job.reveal(*parties)
    for trainer, node in parties:
        assert branch.job.show(trainer, node) is not None
    verifier = Verifier(
        branch.job.begin(vic, "verifier"), EmbeddedStore(branch.job.folder / "store")
    )
    duty = verifier.jobs.in_job(people.job).validator

    def step() -> str | None:
        return duty.step(branch.job.view(verifier), vic.node_id)

    assert step() == "scored: round 1, committed"
    old = seed(verifier, branch)
    topic = "0x" + people.scores.event("SamplesPosted").topic.hex()
    query = {"address": people.scores.address, "topics": [topic], "fromBlock": "0x0"}
    posted = int(people.chain.rpc("eth_getLogs", query)[-1]["blockNumber"], 16)
    receipt = branch.reorganise(posted, branch.sent(people.scores, "ScoresCommitted"))
    assert int(receipt["status"], 16) == 0, "it should not count beside another sample"
    assert people.chain._reason(receipt) == "scores: another chain"
    assert seed(verifier, branch) == old
    junk = digest_of(branch.job.store.put_bytes(b"no sample"))
    place = (*people.place, bob.node_id)
    people.chain.send(bob.operator, people.scores, "post_samples", *place, junk)
    people.chain.mine()
    assert step() == "scored: round 1, committed"
    assert len(verifier.context.journal.keys("scores-")) == 2
    people.chain.warp(COMMIT_TIME + 1)
    assert step() == "scored: round 1, revealed"
    digest = Consensus(verifier.network).record(*people.place, vic.node_id)
    record = ScoreRecord.from_bytes(branch.job.store.get_digest(digest, MAX_RECORD_BYTES))
    (line,) = (line for line in record.scores if line.node == bob.node_id)
    assert line.failure.startswith("bad sync sample")


def seed(verifier: Verifier, branch: Branch) -> bytes:
    view = branch.job.view(verifier)
    found_ = verifier.network.seed(view.job_id, view.round_id, view.round, audit=True)
    assert found_ is not None
    return found_


def members(branch: Branch, trusted: Node) -> list[tuple[Coordinator, Context]]:
    """The agents of three committee members that approve what this node's owner asks for."""
    made = []
    for number, key in enumerate(branch.people.members[:3]):
        node = Node(f"member {number}", 0, 0, key, key, key)
        asked = {"trusted_owners": [trusted.owner.address]}
        context = branch.job.begin(node, "coordinator", jitter_s=0.0, coordinator=asked)
        made.append((Coordinator(context, EmbeddedStore(branch.job.folder / "store")), context))
    return made


def act(committee: list[tuple[Coordinator, Context]]) -> None:
    """Each takes a few steps: the first sees a case, and the next ones act in it."""
    for _ in range(4):
        for member, context in committee:
            member.step(context.chain.head())


def swap_registrations(branch: Branch, one: Node, other: Node, first: int) -> None:
    """All since block `first` happens again on another branch, with these two nodes' registrations
    in each other's place."""
    people, chain = branch.people, branch.people.chain
    head = int(chain.rpc("eth_blockNumber"), 16)
    blocks = [chain.rpc("eth_getBlockByNumber", hex(n), False) for n in range(first, head + 1)]
    sent = [tx for block in blocks for tx in block["transactions"]]
    logs = people.contracts["NodeRegistry"].event("NodeRegistered")
    query = {
        "address": people.registry.address,
        "topics": ["0x" + logs.topic.hex()],
        "fromBlock": hex(first),
    }
    mine, theirs = (log["transactionHash"] for log in chain.rpc("eth_getLogs", query))
    here, there = sent.index(mine), sent.index(theirs)
    sent[here], sent[there] = theirs, mine
    raw = [str(chain.rpc("eth_getRawTransactionByHash", tx)) for tx in sent]
    branch.replace(head - first + 1, [[tx, place] for place, tx in enumerate(raw)])
    for node, number in ((one, other.node_id), (other, one.node_id)):
        assert chain.call(people.registry, "node_of", node.operator.address) == number


def test_a_role_that_was_asked_for_on_the_other_branch__is_nobodys(branch: Branch) -> None:
    """Grace, whom the committee trusts, registers a verifier, and mallory one after her. On the
    other branch mallory's is the earlier one, so that her node has the number that the members have
    approved, by transactions that are mined again. She had the role a day later, with 1,000 ZOO of
    stake and without anybody's word. Grace's node has it in the end."""
    people, chain = branch.people, branch.people.chain
    names = ("grace", "mallory")
    owners = [people.person(f"{name} owner", STAKES[VERIFIER]) for name in names]
    first = int(chain.rpc("eth_blockNumber"), 16) + 1
    pairs = zip(names, owners, strict=True)
    grace, mallory = (people.enlist(name, VERIFIER, owner=owner) for name, owner in pairs)
    committee = members(branch, grace)
    act(committee)
    swap_registrations(branch, grace, mallory, first)
    ids = {"mallory": grace.node_id, "grace": mallory.node_id}
    for _ in range(3):
        act(committee)
        chain.warp(people.settings.routine_delay + 1)
        chain.mine()
    data = people.registry.function("approve_role", 3).encode((ids["mallory"], VERIFIER, True))
    salt = salt_of("role", ids["mallory"], VERIFIER)
    place = (people.registry.address, data, salt)
    op_id = chain.call(people.coordinator, "operation_id", *place)
    if chain.call(people.coordinator, "state", op_id):
        chain.send(people.faucet, people.coordinator, "execute", op_id)
    roles = {
        name: int(chain.call(people.registry, "node", number).approved_roles)
        for name, number in ids.items()
    }
    assert roles == {"grace": VERIFIER, "mallory": 0}
