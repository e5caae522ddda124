# SPDX-License-Identifier: Apache-2.0
"""The deployed system and the people in it: short forms of what they do, and what they own.

Rule: every deed is a transaction of the key that may do it. `gain` is the whole truth about who
won: wallets, stake, pending rewards, bounties, bond credits and job escrow, gas aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eth_abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from web3 import HTTPProvider, Web3

from agents.jobs.publish import ZOO, Terms
from agents.protocol import formulas
from agents.protocol.structs import Reveal
from agents.runtime.contracts import Contract
from scripts._net.anvil import CHAIN_ID, MNEMONIC
from scripts._net.deployment import DeploymentSettings, TaskTerms, write_deployment
from scripts._net.local_keys import sender_of
from scripts._net.plan import deploy
from tests.stage.chain.chain import Chain, key_of

TRAINER, VERIFIER, AGGREGATOR = 1, 2, 4
NO_REVEAL, INVALID, COPIED, REPEATED, BAD_RESULT, FALSE_REPORT = range(1, 7)
COMMIT, REVEAL, AGGREGATE, CHALLENGE, DISPUTED, FINALIZED, VOID = range(1, 8)
STAKES = {TRAINER: 100 * ZOO, VERIFIER: 1_000 * ZOO, AGGREGATOR: 1_000 * ZOO}
TERMS = Terms()
TRAINERS = ("ann", "bob", "cat", "eve")
VERIFIERS = ("vic", "vera", "vito")
AGGREGATORS = ("abe", "ada")
FUNDED_ROUNDS = 8
_SPARE = 500 * ZOO  # of each key, for bonds
# Of an announced report: the most that the finder of a trainer can earn, half of its stake.
FINDERS_DEPOSIT = STAKES[TRAINER] // 2
EMPTY = bytes(32)
UNITS, SECONDS = 6_000, 60
ROOT, ARTEFACT = b"\xaa" * 32, b"\xbb" * 32
EVIDENCE = keccak(text="what a re-execution found")
COMMIT_DOMAIN = keccak(text="menagerie.TrainingRounds.commit.v1")
VERDICT = {
    "BenchmarkVerdict": [
        {"name": "node_id", "type": "uint256"},
        {"name": "attempt", "type": "uint256"},
        {"name": "root", "type": "bytes32"},
        {"name": "units", "type": "uint256"},
        {"name": "check_seed", "type": "bytes32"},
        {"name": "passed", "type": "bool"},
    ]
}
CONSENT = {
    "OperatorConsent": [
        {"name": "operator", "type": "address"},
        {"name": "owner", "type": "address"},
        {"name": "nonce", "type": "uint256"},
    ]
}

Call = tuple[Contract, str, tuple[Any, ...]]


@dataclass(frozen=True)
class Node:
    """A registered node: its id, its stake at first, and its three keys."""

    name: str
    node_id: int
    stake: int
    owner: LocalAccount = field(repr=False)
    operator: LocalAccount = field(repr=False)
    payout: LocalAccount = field(repr=False)

    @property
    def addresses(self) -> list[str]:
        """Every address whose money is this node's."""
        return [a.address for a in (self.owner, self.operator, self.payout)]


Party = Node | LocalAccount


@dataclass(frozen=True)
class CommittedWork:
    """What a commitment binds."""

    input_root: bytes
    content: bytes
    trace_root: bytes
    salt: bytes
    proof: bytes = EMPTY  # published with it, not bound by it

    @staticmethod
    def of(label: str, content: bytes | None = None) -> CommittedWork:
        """Work that is different for each label; `content` replaces the payload's digest."""
        root, trace, salt = (keccak(text=f"{part} of {label}") for part in ("in", "trace", "salt"))
        return CommittedWork(root, content or keccak(text=f"content of {label}"), trace, salt)

    @staticmethod
    def of_reveal(reveal: Reveal, salt: bytes) -> CommittedWork:
        """The commitment that this reveal opens."""
        bound = (reveal.input_root, reveal.content, reveal.trace_root)
        return CommittedWork(*bound, salt, reveal.proof)

    def parts(self) -> tuple[bytes, ...]:
        """In the order of the contract's arguments."""
        return (self.input_root, self.content, self.trace_root, self.salt)


def trainer_pool(terms: Terms = TERMS) -> int:
    """What a round leaves for trainers after the cuts."""
    reward = terms.reward_per_round
    return reward - reward * terms.verifier_bps // 10_000 - reward * terms.aggregator_bps // 10_000


def share(contribution: int, total: int, terms: Terms = TERMS) -> int:
    """A trainer's exact pay in a round."""
    return trainer_pool(terms) * contribution // total


def verifier_cut(attesters: int, terms: Terms = TERMS) -> int:
    """An attester's exact pay when all have the same stake."""
    return terms.reward_per_round * terms.verifier_bps // 10_000 // attesters


@dataclass
class People:
    """One job on one chain. `nodes` by name; `start`: what each name owned at first."""

    chain: Chain
    contracts: Mapping[str, Contract]
    settings: DeploymentSettings
    faucet: LocalAccount
    members: Sequence[LocalAccount]
    sponsor: LocalAccount
    nodes: dict[str, Node] = field(default_factory=dict)
    start: dict[str, int] = field(default_factory=dict)
    sponsored: dict[str, list[int]] = field(default_factory=dict)
    job: int = 0
    round: int = 0
    donated: int = 0  # sent to each contract unasked

    def __getattr__(self, name: str) -> Contract:
        known = {
            "token": "ZooToken",
            "coordinator": "Coordinator",
            "registry": "NodeRegistry",
            "pool": "RewardPool",
            "jobs": "TrainingJobs",
            "rounds": "TrainingRounds",
            "results": "TrainingResults",
            "reports": "ViolationReports",
            "keys": "DataKeys",
            "scores": "ScoreConsensus",
            "tasks": "RedundantTasks",
            "appeals": "TaskAppeals",
            "benchmarks": "NodeBenchmarks",
        }
        if name not in known:
            raise AttributeError(name)
        return self.contracts[known[name]]

    # People

    def person(self, name: str, zoo: int = 0) -> LocalAccount:
        """A key with ether, `zoo` units of ZOO, and allowances for every contract."""
        account = key_of(name)
        self.chain.transact(self.faucet, account.address, value=3 * 10**18)
        if zoo:
            self.give(account, zoo)
        spenders = (self.registry, self.pool, self.results, self.reports, self.tasks, self.appeals)
        for spender in spenders:
            self.chain.send(account, self.token, "approve", spender.address, 2**255)
        self.start[account.address] = self.wealth(account)
        return account

    def give(self, account: LocalAccount, zoo: int) -> None:
        self.chain.send(self.faucet, self.token, "transfer", account.address, zoo)

    def enlist(
        self,
        name: str,
        roles: int = TRAINER,
        stake: int = 0,
        spare: int = 0,
        owner: LocalAccount | None = None,
        payout: LocalAccount | None = None,
    ) -> Node:
        """Register a node; its owner and operator have `spare` ZOO each for bonds."""
        stake = stake or STAKES[roles & -roles]
        if owner is None:
            owner = self.person(f"{name} owner", stake + spare)
        else:
            self.give(owner, stake)
        operator = self.person(f"{name} operator", spare)
        if payout is None:
            payout = self.person(f"{name} payout")
        args = (operator.address, payout.address, roles, stake, EMPTY)
        consent = self.consent(operator, owner)
        self.chain.send(owner, self.registry, "register_node", *args, consent)
        node_id = int(self.chain.call(self.registry, "node_of", operator.address))
        node = Node(name, node_id, stake, owner, operator, payout)
        self.nodes[name] = node
        self.start[name] = self.wealth(node)
        return node

    def consent(self, operator: LocalAccount, owner: LocalAccount, nonce: int = -1) -> bytes:
        """The operator's EIP-712 signature that it serves a node of the owner."""
        if nonce < 0:
            nonce = int(self.chain.call(self.registry, "consents_used", operator.address))
        domain = {
            "name": "Menagerie NodeRegistry",
            "version": "1",
            "chainId": 31_337,
            "verifyingContract": self.registry.address,
        }
        message = {"operator": operator.address, "owner": owner.address, "nonce": nonce}
        return bytes(operator.sign_message(encode_typed_data(domain, CONSENT, message)).signature)

    def benchmark(self, node: Node, units: int = UNITS) -> None:
        """Take a new attempt of the node to a passed score, judged by the first two verifiers."""
        self.request_benchmark(node)
        self.submit_benchmark(node, units)
        judges = [self.nodes["vic"], self.nodes["vera"]]
        signatures = [self.verdict(judge, node, True) for judge in judges]
        ids = [judge.node_id for judge in judges]
        self.chain.send(
            self.faucet, self.benchmarks, "submit_verdicts", node.node_id, True, ids, signatures
        )

    def request_benchmark(self, node: Node) -> None:
        """The node's owner asks for an attempt."""
        self.chain.send(node.owner, self.benchmarks, "request_benchmark", node.node_id)

    def submit_benchmark(self, node: Node, units: int = UNITS) -> None:
        """Answer the pending attempt, and capture the seed of its check."""
        self.chain.warp(SECONDS)
        self.chain.mine()  # the seed is of a block that has been
        seed = self.chain.call(self.benchmarks, "capture_benchmark_seed", node.node_id)
        answer = (node.node_id, seed, units, ROOT, ARTEFACT)
        self.chain.send(node.operator, self.benchmarks, "submit_benchmark", *answer)
        self.chain.mine()
        self.chain.send(self.faucet, self.benchmarks, "capture_check_seed", node.node_id)

    def verdict(self, judge: Node, node: Node, passed: bool, **changes: Any) -> bytes:
        """A verifier's EIP-712 signature; `changes` replaces fields of the message."""
        attempt = self.chain.call(self.benchmarks, "benchmark", node.node_id)
        domain = {
            "name": "Menagerie NodeRegistry",
            "version": "1",
            "chainId": changes.pop("chainId", 31_337),
            "verifyingContract": self.benchmarks.address,
        }
        message = {
            "node_id": node.node_id,
            "attempt": attempt.attempt,
            "root": attempt.root,
            "units": attempt.units,
            "check_seed": attempt.check_seed,
            "passed": passed,
            **changes,
        }
        signable = encode_typed_data(domain, VERDICT, message)
        return bytes(judge.operator.sign_message(signable).signature)

    # The committee

    def propose(self, call: Call, salt: bytes = EMPTY, member: int = 0) -> bytes:
        """A member proposes an operation; its id."""
        contract, name, args = call
        data = contract.function(name, len(args)).encode(args)
        self.chain.send(
            self.members[member], self.coordinator, "propose", contract.address, data, salt
        )
        return bytes(
            self.chain.call(self.coordinator, "operation_id", contract.address, data, salt)
        )

    def approval(self, member: int, op_id: bytes) -> bytes:
        """A member's EIP-712 approval."""
        domain = {
            "name": "Menagerie Coordinator",
            "version": "1",
            "chainId": 31_337,
            "verifyingContract": self.coordinator.address,
        }
        types = {"Approval": [{"name": "op_id", "type": "bytes32"}]}
        signable = encode_typed_data(domain, types, {"op_id": op_id})
        return bytes(self.members[member].sign_message(signable).signature)

    def decide(self, *calls: Call, salt: bytes = EMPTY, governance: bool = False) -> None:
        """Three of five members make calls, after their delay."""
        ids = [self.propose(call, salt) for call in calls]
        for op_id in ids:
            for member in (1, 2):
                self.chain.send(self.members[member], self.coordinator, "approve", op_id)
        delays = (self.settings.routine_delay, self.settings.governance_delay)
        self.chain.warp(delays[governance])
        for op_id in ids:
            self.chain.send(self.faucet, self.coordinator, "execute", op_id)

    # A round

    @property
    def place(self) -> tuple[int, int]:
        """The job and the round that arguments begin with."""
        return self.job, self.round

    def create_job(self, sponsor: LocalAccount, terms: tuple[Any, ...], funds: int) -> int:
        self.chain.send(sponsor, self.jobs, "create_job", terms)
        job = int(self.chain.call(self.jobs, "job_count"))
        self.sponsored.setdefault(sponsor.address, []).append(job)
        if funds:
            self.fund(sponsor, job, funds)
        return job

    def fund(self, funder: LocalAccount, job: int, amount: int) -> None:
        """Pay into a job's escrow, as one who has read whose it is and for what."""
        sponsor, spec = self.chain.call(self.jobs, "origin_of", job)
        self.chain.send(funder, self.pool, "fund", job, sponsor, spec, amount)

    def open(self) -> dict[str, Any]:
        """Open the next round, with its seed known; the fields of RoundOpened."""
        receipt = self.chain.send(self.faucet, self.rounds, "open_round", self.job)
        opened = self.chain.event(receipt, self.rounds, "RoundOpened")
        self.round = int(opened["round_id"])
        self.chain.mine()
        return opened

    def commitment(self, node: Node, work: CommittedWork, /, **changes: Any) -> bytes:
        """The digest of work, from its definition; `changes` replaces what it is bound to."""
        bound = {
            "chain": 31_337,
            "rounds": self.rounds.address,
            "job": self.job,
            "round": self.round,
            "node": node.node_id,
            "operator": node.operator.address,
            **changes,
        }
        types = ["bytes32", "uint256", "address", "uint256", "uint256", "uint256", "address"]
        values = [COMMIT_DOMAIN, *bound.values(), *work.parts()]
        return keccak(encode([*types, *["bytes32"] * 4], values))

    def commit(
        self, node: Node, work: CommittedWork | None = None, digest: bytes | None = None
    ) -> None:
        """Commit to work (to the node's own by default)."""
        digest = digest or self.commitment(node, work or CommittedWork.of(node.name))
        self.chain.send(node.operator, self.rounds, "commit", *self.place, node.node_id, digest)

    def opening(self, node: Node, work: CommittedWork | None = None) -> tuple[Any, ...]:
        work = work or CommittedWork.of(node.name)
        return (*self.place, node.node_id, *work.parts(), work.proof)

    def reveal(self, node: Node, work: CommittedWork | None = None) -> dict[str, Any]:
        """Open the commitment; the receipt."""
        return self.chain.send(node.operator, self.rounds, "reveal", *self.opening(node, work))

    def train(
        self,
        *nodes: Node,
        works: Mapping[str, CommittedWork] | None = None,
        silent: Sequence[Node] = (),
    ) -> None:
        """Open a round in which these nodes, and no other, commit and reveal; the `silent` ones
        only commit."""
        works = works or {}
        self.open()
        for node in (*nodes, *silent):
            self.commit(node, works.get(node.name))
        self.pass_phase(COMMIT)
        for node in nodes:
            self.reveal(node, works.get(node.name))
        if silent:
            self.pass_phase(REVEAL)
        assert self.phase == AGGREGATE

    def pass_phase(self, phase: int) -> None:
        """Wait for the deadline and move on, if the round is still in this phase."""
        if self.phase == phase:
            self.wait_until(int(self.state.deadline))
            has_it = self.rounds if phase in (COMMIT, REVEAL) else self.results
            self.chain.send(self.faucet, has_it, "advance", *self.place)

    def wait_until(self, deadline: int) -> None:
        """Let a deadline pass, if it has not."""
        if self.chain.now <= deadline:
            self.chain.warp(deadline - self.chain.now + 1)

    def offer(
        self, pay: Mapping[Node, int], by: Node | None = None, label: str = "right"
    ) -> tuple[list[int], list[int]]:
        """Propose a result (the aggregator on duty does); its arrays."""
        by = by or self.on_duty
        line = sorted((node.node_id, amount) for node, amount in pay.items())
        arrays = [node for node, _ in line], [amount for _, amount in line]
        digests = [keccak(text=f"{part} of {label}") for part in ("model", "update", "report")]
        self.chain.send(
            by.operator,
            self.results,
            "propose_result",
            self.job,
            self.round,
            by.node_id,
            *digests,
            *arrays,
        )
        return arrays

    @property
    def on_duty(self) -> Node:
        duty = self.chain.call(self.results, "aggregator_on_duty", *self.place)
        return next(node for node in self.nodes.values() if node.node_id == duty)

    def attest(self, *verifiers: str) -> None:
        result = bytes(self.state.result_hash)
        for name in verifiers:
            node = self.nodes[name]
            self.chain.send(
                node.operator, self.results, "attest", *self.place, node.node_id, result
            )

    def report(self, node: Node, violation: int, *verifiers: str) -> bytes:
        """Verifiers announce and report a node, the first of them found it; the report's id."""
        for name in verifiers:
            judge = self.nodes[name]
            digest = self.announcement(self.reports, node.node_id, judge.node_id, EVIDENCE)
            args = (*self.place, judge.node_id, digest, FINDERS_DEPOSIT)
            self.chain.send(judge.operator, self.reports, "announce_report", *args)
            self.chain.send(
                judge.operator,
                self.reports,
                "report",
                self.job,
                self.round,
                judge.node_id,
                node.node_id,
                violation,
                EVIDENCE,
            )
        return bytes(
            self.chain.call(self.reports, "report_id_of", *self.place, node.node_id, violation)
        )

    def execute(self, report: bytes) -> None:
        """Anyone carries a confirmed report out when nobody appealed."""
        self.wait_until(int(self.chain.call(self.reports, "report_of", report).deadline))
        self.chain.send(self.faucet, self.reports, "execute", report)

    def finalize(self, arrays: tuple[list[int], list[int]]) -> None:
        """Make the result final; pays."""
        if not self.chain.call(self.results, "can_finalize", *self.place):  # not all attested
            self.wait_until(int(self.state.deadline) - TERMS.challenge_s // 2)
        self.chain.send(self.faucet, self.results, "finalize", *self.place, *arrays)

    def challenge(self, account: LocalAccount, evidence: bytes = EVIDENCE) -> bytes:
        """Somebody disputes the proposed result; its hash."""
        result = bytes(self.state.result_hash)
        self.chain.send(account, self.results, "challenge", *self.place, result, evidence)
        return result

    def announce_challenge(self, account: LocalAccount, evidence: bytes = EVIDENCE) -> None:
        """Somebody announces that the proposed result is wrong."""
        what, finder = int.from_bytes(self.state.result_hash, "big"), int(account.address, 16)
        digest = self.announcement(self.results, what, finder, evidence)
        self.chain.send(account, self.results, "announce_challenge", digest)

    def announcement(self, contract: Contract, what: int, finder: int, evidence: bytes) -> bytes:
        """What a finder announces in the newest round."""
        address = contract.address
        return formulas.announcement(CHAIN_ID, address, self.place, what, finder, evidence)

    def resolve(self, result: bytes, upheld: bool, salt: bytes = EMPTY) -> None:
        """The committee rules on a challenge."""
        self.decide((self.results, "resolve_challenge", (*self.place, result, upheld)), salt=salt)

    def other_aggregator(self, node: Node) -> Node:
        """The one of the two that is not this one."""
        return next(self.nodes[name] for name in AGGREGATORS if self.nodes[name] != node)

    def confirm(self, arrays: tuple[list[int], list[int]], *verifiers: str) -> None:
        """Verifiers (two by default) attest the proposed result, and it is made final."""
        self.attest(*(verifiers or ("vic", "vera")))
        self.finalize(arrays)

    def finish(self, pay: Mapping[Node, int], *verifiers: str) -> None:
        """Propose, attest (two verifiers by default) and finalize."""
        self.confirm(self.offer(pay), *verifiers)

    def convict(self, node: Node, *others: Node) -> bytes:
        """A finalized round in which two verifiers have the node's work declared invalid, and pay
        the others; the report, not executed yet."""
        self.train(node, *others)
        arrays = self.offer(dict.fromkeys((node, *others), 1))
        report = self.report(node, INVALID, "vic", "vera")
        self.confirm(arrays)
        return report

    @property
    def state(self) -> Any:
        return self.chain.call(self.rounds, "round", *self.place)

    @property
    def phase(self) -> int:
        return int(self.state.phase)

    # Money

    def wealth(self, *parties: Party) -> int:
        """Everything the parties own or may draw, in units of ZOO."""
        return sum(int(amount) for amount in self.chain.calls(list(self.assets(parties))))

    def assets(self, parties: Sequence[Party]) -> Iterator[Call]:
        """Where to read everything the parties own, each thing once."""
        for node_id in {p.node_id for p in parties if isinstance(p, Node)}:
            yield self.registry, "bonded", (node_id,)
        accounts = {
            a for p in parties for a in (p.addresses if isinstance(p, Node) else [p.address])
        }
        for account in accounts:
            yield self.token, "balanceOf", (account,)
            yield self.pool, "pending", (account,)
            yield self.registry, "bounty", (account,)
            yield self.results, "bond_credit", (account,)
            yield self.reports, "bond_credit", (account,)
            yield self.tasks, "bond_credit", (account,)
            yield self.appeals, "bond_credit", (account,)
            for job in self.sponsored.get(account, []):
                yield self.pool, "escrow", (job,)

    def gain(self, *parties: Party) -> int:
        """What the parties have won since the test began; negative for a loss."""
        names = [p.name if isinstance(p, Node) else p.address for p in parties]
        return self.wealth(*parties) - sum(self.start[name] for name in names)

    def bonded(self, node: Node) -> int:
        """What of a node can be slashed."""
        return int(self.chain.call(self.registry, "bonded", node.node_id))

    def assert_whole(self, pay: Mapping[Node, int]) -> None:
        """Nobody's stake was touched, and each was paid exactly this."""
        for node, amount in pay.items():
            assert self.bonded(node) == node.stake, f"{node.name} lost stake"
            assert self.gain(node) == amount, f"{node.name} got {self.gain(node)}, not {amount}"

    def assert_books_balance(self) -> None:
        """Every token of every contract is owed to somebody, and the stakes add up."""
        nodes = int(self.chain.call(self.registry, "node_count"))
        held = [
            self.chain.call(self.token, "balanceOf", contract.address)
            for contract in (self.registry, self.pool, self.results, self.reports)
        ]
        for contract in (self.tasks, self.appeals):
            balance = self.chain.call(self.token, "balanceOf", contract.address)
            bonds = self.chain.call(contract, "bonds_held")
            assert balance == bonds, f"{contract.name} should hold its bonds and no more"
        read = self.chain.calls(
            [
                (self.registry, "total_stake", ()),
                (self.registry, "total_bounties", ()),
                (self.pool, "total_escrow", ()),
                (self.pool, "total_reserved", ()),
                (self.pool, "total_pending", ()),
                (self.pool, "total_held", ()),
                (self.results, "bonds_held", ()),
                (self.reports, "bonds_held", ()),
            ]
        )
        stake, bounties, escrow, reserved, pending, kept, bonds, appeals = map(int, read)
        owed = [stake + bounties, escrow + reserved + pending + kept, bonds, appeals]
        owed = [amount + self.donated for amount in owed]
        assert held == owed, "registry, pool, rounds and reports should hold what they owe"
        bonded = [(self.registry, "bonded", (node,)) for node in range(1, nodes + 1)]
        total = sum(map(int, self.chain.calls(bonded)))
        assert stake == total, "the registry's total stake should be the sum of its nodes' bonds"


def found(
    url: str,
    trainers: Sequence[str],
    write_to: Path | None = None,
    tasks: TaskTerms | None = None,
    measured: Callable[[People, Node], None] | None = None,
) -> People:
    """Deploy the whole system on an empty chain and enlist its people.

    They are three verifiers (vic, vera, vito), two aggregators (abe, ada), a committee of five, and
    these trainers, each with a passed benchmark. `write_to`: where the deployment is written down;
    `tasks`: other terms of redundant tasks than the default; `measured`: how the trainers come by
    their scores, if there is to be work behind them.
    """
    chain = Chain(url, CHAIN_ID)
    Account.enable_unaudited_hdwallet_features()
    deployer, faucet = (
        Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{i}") for i in (0, 1)
    )
    members = sorted((key_of(f"member {i}") for i in range(5)), key=lambda m: int(m.address, 16))
    settings = DeploymentSettings(
        members=tuple(m.address for m in members), holder=faucet.address, tasks=tasks or TaskTerms()
    )
    w3 = Web3(HTTPProvider(url))
    deployed = deploy(w3, deployer.address, sender_of(w3, deployer), settings)
    if write_to is not None:
        write_deployment(write_to, deployed)
    contracts = {
        name: Contract(name, address, deployed.artefacts[name].abi)
        for name, address in deployed.addresses.items()
    }
    people = People(chain, contracts, settings, faucet, members, key_of("sponsor"))
    for member in members:
        chain.transact(faucet, member.address, value=10**18)
    gated = [people.enlist(name, VERIFIER, spare=_SPARE) for name in VERIFIERS]
    gated += [people.enlist(name, AGGREGATOR, spare=_SPARE) for name in AGGREGATORS]
    roles = [VERIFIER] * len(VERIFIERS) + [AGGREGATOR] * len(AGGREGATORS)
    people.decide(
        *(
            (people.registry, "approve_role", (node.node_id, role, True))
            for node, role in zip(gated, roles, strict=True)
        )
    )
    for name in trainers:
        node = people.enlist(name, spare=_SPARE)
        if measured is None:
            people.benchmark(node)
        else:
            measured(people, node)
    return people
