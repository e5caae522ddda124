# SPDX-License-Identifier: Apache-2.0
"""The people of a job on a real chain; every step is a transaction signed by its own key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ape
from ape.types import MessageSignature
from eth_account import Account
from eth_utils import keccak

ZOO = 10**18
TRAINER, VERIFIER, AGGREGATOR = 1, 2, 4
REWARD = 1_000 * ZOO
TERMS = {
    "spec": keccak(text="spec"),
    "genesis_model": keccak(text="genesis"),
    "genesis_checkpoint": keccak(text="checkpoint"),
    "rounds": 3,
    "reward_per_round": REWARD,
    "verifier_bps": 1_000,
    "aggregator_bps": 500,
    "max_nodes": 16,
    "commit_s": 600,
    "reveal_s": 600,
    "aggregate_s": 600,
    "challenge_s": 600,
    "appeal_s": 600,
    "dispute_s": 600,
    "challenge_bond": 10 * ZOO,
    "retain_rounds": 0,
}


@dataclass(frozen=True)
class Node:
    """A registered node; `owner` is cold, `operator` hot."""

    node_id: int
    owner: Any
    operator: Any


def digest(label: str) -> bytes:
    return keccak(text=label)


class People:
    """Everybody, and short forms of what they do."""

    def __init__(self, system: dict[str, Any], accounts: Any) -> None:
        self.token = system["ZooToken"]
        self.coordinator = system["Coordinator"]
        self.registry = system["NodeRegistry"]
        self.benchmarks = system["NodeBenchmarks"]
        self.pool = system["RewardPool"]
        self.ledger = system["TrainingLedger"]
        self.jobs = system["TrainingJobs"]
        self.rounds = system["TrainingRounds"]
        self.results = system["TrainingResults"]
        self.reports = system["ViolationReports"]
        self.members = accounts[1:6]
        self.holder = accounts[9]
        self._accounts = accounts
        self._used = 10
        self.sponsor = self.person(10 * REWARD)

    def person(self, amount: int = 0) -> Any:
        """Return an account nobody has used, with ZOO."""
        account = self._accounts[self._used]
        self._used += 1
        if amount:
            self.token.transfer(account, amount, sender=self.holder)
        return account

    def committee(self, target: Any, data: bytes, salt: bytes = bytes(32)) -> Any:
        """Pass an operation: one member proposes, two sign off chain, anyone executes later."""
        members = sorted(self.members, key=lambda account: int(account.address, 16))
        self.coordinator.propose(target, data, salt, sender=members[0])
        op_id = self.coordinator.operation_id(target, data, salt)
        message = self.coordinator.approval_digest(op_id)
        signatures = [raw_signature(member, message) for member in members[1:3]]
        self.coordinator.approve_by_sig(op_id, signatures, sender=self.sponsor)
        ape.chain.pending_timestamp = self.coordinator.operation(op_id).eta
        return self.coordinator.execute(op_id, sender=self.sponsor)

    def join(self, role: int) -> Node:
        """Register a node with the least stake of its role; the committee approves it."""
        parameters = self.registry.parameters()
        name = {TRAINER: "trainer", VERIFIER: "verifier", AGGREGATOR: "aggregator"}[role]
        stake = getattr(parameters, f"{name}_stake")
        owner, operator = self.person(stake), self.person()
        self.token.approve(self.registry, stake, sender=owner)
        digest = self.registry.consent_digest(operator, owner)
        consent = raw_signature(operator, digest)
        self.registry.register_node(operator, owner, role, stake, bytes(32), consent, sender=owner)
        node = Node(self.registry.node_of(operator), owner, operator)
        if role != TRAINER:
            self.committee(
                self.registry, self.registry.approve_role.encode_input(node.node_id, role, True)
            )
            # Its stake has a voice once it is old.
            ape.chain.pending_timestamp += self.registry.maturity() + 1
            ape.chain.mine()
        return node

    def benchmark(self, node: Node, verifiers: list[Node]) -> None:
        """Request and submit a benchmark and have the verifiers' signed verdicts relayed."""
        self.benchmarks.request_benchmark(node.node_id, sender=node.operator)
        ape.chain.mine(2)  # the block that seeds it, and one behind it
        seed = self.benchmarks.capture_benchmark_seed.call(node.node_id)
        answer = (node.node_id, seed, 100, digest("root"), digest("artefact"))
        self.benchmarks.submit_benchmark(*answer, sender=node.operator)
        ape.chain.mine()
        self.benchmarks.capture_check_seed(node.node_id, sender=node.operator)
        message = self.benchmarks.verdict_digest(node.node_id, True)
        self.benchmarks.submit_verdicts(
            node.node_id,
            True,
            [verifier.node_id for verifier in verifiers],
            [raw_signature(verifier.operator, message) for verifier in verifiers],
            sender=node.operator,
        )

    def create_job(self, funded_rounds: int, **changes: Any) -> int:
        terms = tuple({**TERMS, **changes}.values())
        self.jobs.create_job(terms, sender=self.sponsor)
        job_id = self.jobs.job_count()
        amount = funded_rounds * REWARD
        self.token.approve(self.pool, amount, sender=self.sponsor)
        self.pool.fund(job_id, self.sponsor, terms[0], amount, sender=self.sponsor)
        return job_id

    def commit(self, job_id: int, round_id: int, node: Node) -> Any:
        """Commit what `reveal` opens."""
        commitment = self.rounds.commitment_digest(
            job_id, round_id, node.node_id, node.operator, *_secret(round_id, node)
        )
        return self.rounds.commit(job_id, round_id, node.node_id, commitment, sender=node.operator)

    def reveal(self, job_id: int, round_id: int, node: Node) -> Any:
        """Open the commitment of `commit`."""
        return self.rounds.reveal(
            job_id,
            round_id,
            node.node_id,
            *_secret(round_id, node),
            digest("proof"),
            sender=node.operator,
        )

    def to_deadline(self, job_id: int, round_id: int) -> None:
        """Let the chain's clock pass the phase's deadline, and end the phase."""
        ape.chain.pending_timestamp = self.rounds.round(job_id, round_id).deadline + 1
        self.rounds.advance(job_id, round_id, sender=self.sponsor)


def _secret(round_id: int, node: Node) -> list[bytes]:
    parts = ("input", "content", "trace", "salt")
    return [digest(f"{part} {round_id} {node.node_id}") for part in parts]


def raw_signature(account: Any, message: bytes) -> bytes:
    """Return r || s || v of an account over a 32-byte digest."""
    signed = Account.unsafe_sign_hash(message, account.private_key)
    return MessageSignature(v=signed.v, r=_word(signed.r), s=_word(signed.s)).encode_rsv()


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")
