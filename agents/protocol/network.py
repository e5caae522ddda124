# SPDX-License-Identifier: Apache-2.0
"""The protocol's contracts as one typed object: what is read, what is sent, no decision.

Rule: state is read from the chain at the moment it is needed. Only facts that can't change any more
are kept, each under the hash of the block that holds it, so a reorg can't leave a stale one behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

from eth_abi import encode
from eth_utils import keccak

from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract, Deployment, Event
from agents.runtime.errors import AgentError, Reverted

ZERO_DIGEST = bytes(32)
_COMMIT_DOMAIN = keccak(text="menagerie.TrainingRounds.commit.v1")
TOO_EARLY = "randomness: too early"
# Somebody captures the seed in the block being made: that of the audit, or that of the round.
NO_SEED_DUE = ("rounds: no seed due", "randomness: not requested")
_RECENT_JOBS = 64
_REORG_BLOCKS = 128  # read again each time: a reorg may have changed them
_BENCHMARK_BLOCKS = 50_000  # older answers are left alone: their node can ask for a new attempt


class Phase(IntEnum):
    """Phases of a round, as TrainingRounds numbers them."""

    NONE = 0
    COMMIT = 1
    REVEAL = 2
    AGGREGATE = 3
    CHALLENGE = 4
    DISPUTED = 5
    FINALIZED = 6
    VOID = 7


class Role(IntFlag):
    """Role bits of NodeRegistry."""

    TRAINER = 1
    VERIFIER = 2
    AGGREGATOR = 4


class Violation(IntEnum):
    """Rows of the slashing table."""

    NO_REVEAL = 1
    INVALID = 2
    COPIED = 3
    REPEATED = 4
    BAD_RESULT = 5
    FALSE_REPORT = 6
    REDUNDANCY_MISMATCH = 7
    ABORT = 8
    COLLUSION = 9


class ReportStatus(IntEnum):
    """States of a violation report."""

    NONE = 0
    OPEN = 1
    CONFIRMED = 2
    APPEALED = 3
    EXECUTED = 4
    DISMISSED = 5
    LAPSED = 6


class JobStatus(IntEnum):
    """States of a job."""

    NONE = 0
    ACTIVE = 1
    COMPLETED = 2
    CANCELLED = 3


class ChainMoved(AgentError):
    """What was read a moment ago is no longer in the chain (a reorg); read again."""


@dataclass(frozen=True)
class Snapshot:
    """Who may take part in a round: fixed, with weights, when it was opened."""

    nodes: tuple[int, ...]
    weights: tuple[int, ...]
    verifiers: dict[int, int]  # node id -> stake
    aggregators: tuple[int, ...]


@dataclass(frozen=True)
class Reveal:
    """What a node revealed."""

    node: int
    operator: str
    input_root: bytes
    content: bytes
    trace_root: bytes
    proof: bytes


@dataclass(frozen=True)
class Proposal:
    """A proposed result as its event carries it."""

    proposer: int
    model: bytes
    update: bytes
    report: bytes
    result_hash: bytes
    nodes: tuple[int, ...]
    contributions: tuple[int, ...]


class Network:
    """Typed reads of all contracts. `deployment` maps their names to addresses and ABIs."""

    def __init__(self, chain: ChainClient, deployment: Deployment) -> None:
        self.chain = chain
        self.deployment = deployment
        self.registry: Contract = deployment["NodeRegistry"]
        self.benchmarks: Contract = deployment["NodeBenchmarks"]
        self.rounds: Contract = deployment["TrainingRounds"]
        self.reports: Contract = deployment["ViolationReports"]
        self.pool: Contract = deployment["RewardPool"]
        self.ledger: Contract = deployment["TrainingLedger"]
        self.scores: Contract = deployment["ScoreConsensus"]
        self.tasks: Contract = deployment["RedundantTasks"]
        self.appeals: Contract = deployment["TaskAppeals"]
        self.coordinator: Contract = deployment["Coordinator"]
        self.token: Contract = deployment["ZooToken"]
        self._snapshots: dict[tuple[int, int, bytes], Snapshot] = {}
        self._job = 0
        self._owned: dict[str, set[int]] = {}
        self._owners_read: dict[str, int] = {}  # first block to read again
        self._stake_events: list[Event] = []  # in blocks that no reorg can change
        self._stakes_read = deployment.block  # first block to read again
        self._benchmarked: set[int] = set()  # nodes whose newest benchmark may be unsettled
        self._benchmarks_read = deployment.block  # likewise

    # -- jobs and rounds -----------------------------------------------------------------------

    def job_count(self) -> int:
        """Number of jobs; ids run from 1 to this."""
        return int(self.chain.call(self.rounds, "job_count"))

    def job(self, job_id: int) -> Any:
        """The Job struct."""
        return self.chain.call(self.rounds, "job", job_id)

    def round(self, job_id: int, round_id: int) -> Any:
        """The Round struct."""
        return self.chain.call(self.rounds, "round", job_id, round_id)

    def current_job(self) -> int:
        """The job to work on when none is configured; 0 if there is none at all.

        The oldest of the recent jobs that has a round running or can pay for one, and that job
        until it is done: a stranger who creates another job must not lure nodes away from a round
        they have committed in. With nothing to do, the job last worked on: its duties get done.
        """
        if self._job and self._is_live(self._job):
            return self._job
        count = self.job_count()
        recent = range(max(1, count - _RECENT_JOBS + 1), count + 1)
        self._job = next(filter(self._is_live, recent), min(self._job, count) or count)
        return self._job

    def _is_live(self, job_id: int) -> bool:
        """Whether a job has a round running, or is active and can pay for the next."""
        job = self.job(job_id)
        if job.rounds_opened:
            round_ = self.round(job_id, job.rounds_opened)
            over = round_.phase == Phase.VOID or (
                round_.phase == Phase.FINALIZED and round_.settled
            )
            if round_.phase and not over:
                return True
        escrow = int(self.chain.call(self.pool, "escrow", job_id))
        return bool(job.status == JobStatus.ACTIVE and escrow >= job.terms.reward_per_round)

    def snapshot(self, job_id: int, round_id: int, opened_block: int) -> Snapshot:
        """The round's snapshot, from its RoundOpened event. Raises ChainMoved if it is gone."""
        block_hash = self.chain.block_hash(opened_block)
        key = (job_id, round_id, block_hash or b"")
        if key not in self._snapshots:
            args = self._event("RoundOpened", job_id, round_id, opened_block, opened_block)
            self._snapshots[key] = Snapshot(
                nodes=tuple(args["nodes"]),
                weights=tuple(args["weights"]),
                verifiers=dict(zip(args["verifiers"], args["stakes"], strict=True)),
                aggregators=tuple(args["aggregators"]),
            )
        return self._snapshots[key]

    def seed(self, job_id: int, round_: Any, audit: bool = False) -> bytes | None:
        """The round's seed (or audit seed), None while its block has not been mined.

        A seed that nobody has captured yet is asked of the contract by a call without a
        transaction: it is the value that the capture will store, unless it expires before.
        """
        stored = bytes(round_.audit_seed if audit else round_.seed)
        if stored != ZERO_DIGEST:
            return stored
        return self.early(self.rounds, "capture_seed", job_id)

    def reveals(self, job_id: int, round_id: int, opened_block: int) -> dict[int, Reveal]:
        """Everything revealed in a round, by ascending node id."""
        events = self._events("Revealed", job_id, round_id, opened_block)
        found = {}
        for event in sorted(events, key=lambda e: int(e.args["node_id"])):
            node = int(event.args["node_id"])
            found[node] = Reveal(
                node=node,
                operator=self.operator_of(node),
                input_root=bytes(event.args["input_root"]),
                content=bytes(event.args["content"]),
                trace_root=bytes(event.args["trace_root"]),
                proof=bytes(event.args["proof"]),
            )
        return found

    def proposal(self, job_id: int, round_id: int, round_: Any) -> Proposal:
        """The result that stands in the round. Raises ChainMoved if its event is gone."""
        wanted = bytes(round_.result_hash)
        for event in self._events("ResultProposed", job_id, round_id, round_.opened_block):
            args = event.args
            if bytes(args["result_hash"]) == wanted:
                return Proposal(
                    proposer=int(args["proposer"]),
                    model=bytes(args["model"]),
                    update=bytes(args["update"]),
                    report=bytes(args["report"]),
                    result_hash=wanted,
                    nodes=tuple(args["nodes"]),
                    contributions=tuple(args["contributions"]),
                )
        raise ChainMoved(f"The result proposed in job {job_id} round {round_id} is gone.")

    def attesters(self, job_id: int, round_id: int, round_: Any) -> set[int]:
        """Verifiers that attested the result that stands."""
        wanted = bytes(round_.result_hash)
        events = self._events("Attested", job_id, round_id, round_.opened_block)
        return {
            int(event.args["verifier_id"])
            for event in events
            if bytes(event.args["result_hash"]) == wanted
        }

    def on_duty(self, job_id: int, round_id: int) -> int:
        """The aggregator drawn for a round; 0 in the fallback window and before the seed is."""
        return int(self.chain.call(self.rounds, "aggregator_on_duty", job_id, round_id))

    def in_round(self, question: str, job_id: int, round_id: int, nodes: Sequence[int]) -> set[int]:
        """Those `nodes` for which a view such as "is_invalid" or "is_flagged" holds."""
        answers = self.chain.call_many(
            [(self.rounds, question, (job_id, round_id, node)) for node in nodes]
        )
        return {node for node, answer in zip(nodes, answers, strict=True) if answer}

    def committed(self, job_id: int, round_id: int, nodes: Sequence[int]) -> set[int]:
        """Those `nodes` that committed in the round."""
        answers = self.chain.call_many(
            [(self.rounds, "commitment_of", (job_id, round_id, node)) for node in nodes]
        )
        return {n for n, a in zip(nodes, answers, strict=True) if bytes(a) != ZERO_DIGEST}

    def slashed_for_silence(self, job_id: int, round_id: int, opened_block: int) -> set[int]:
        """Nodes of a round that have been slashed for not revealing."""
        events = self._events("UnrevealedSlashed", job_id, round_id, opened_block)
        return {int(event.args["node_id"]) for event in events}

    # -- ledger --------------------------------------------------------------------------------

    def ledger_length(self, job_id: int) -> int:
        """Number of finalized rounds in the ledger."""
        return int(self.chain.call(self.ledger, "length", job_id))

    def ledger_entry(self, job_id: int, index: int) -> Any:
        """The Entry struct at `index` (0 is the first finalized round)."""
        return self.chain.call(self.ledger, "entry", job_id, index)

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Any:
        """The Node struct."""
        return self.chain.call(self.registry, "node", node_id)

    def node_of(self, operator: str) -> int:
        """The node that an operator key serves, 0 if none."""
        return int(self.chain.call(self.registry, "node_of", operator))

    def operator_of(self, node_id: int) -> str:
        """The operator key of a node."""
        return str(self.chain.call(self.registry, "operator_of", node_id))

    def stakes_at(self, nodes: Sequence[int], block: int) -> dict[int, int]:
        """Stake of each of `nodes` after `block`, in 1e-18 ZOO, without what is unbonding.

        Folded from events, so that it can be had for any block without an archive node.
        """
        settled = min(block, self.chain.head().number - _REORG_BLOCKS)
        if settled >= self._stakes_read:
            self._stake_events += self._stake_changes(self._stakes_read, settled)
            self._stakes_read = settled + 1
        recent = self._stake_changes(self._stakes_read, block)
        stakes = dict.fromkeys(nodes, 0)
        for event in (*self._stake_events, *recent):
            node = int(event.args["node_id"])
            if node not in stakes or event.block > block:
                continue
            if "stake" in event.args:
                stakes[node] = int(event.args["stake"])
            elif "unlock_at" in event.args:
                stakes[node] = 0
            else:
                stakes[node] = max(0, stakes[node] - int(event.args["amount"]))
        return stakes

    def encryption_keys_at(self, nodes: Sequence[int], block: int) -> dict[int, bytes]:
        """Encryption key of each of `nodes` after `block`, zero where there is none."""
        keys = dict.fromkeys(nodes, ZERO_DIGEST)
        for name, field in (
            ("NodeRegistered", "encryption_key"),
            ("EncryptionKeyChanged", "new_key"),
        ):
            for node in nodes:
                where = {"node_id": node}
                events = self.chain.events(self.registry, name, self.deployment.block, block, where)
                if events:
                    keys[node] = bytes(events[-1].args[field])
        return keys

    def _stake_changes(self, first: int, last: int) -> list[Event]:
        names = ("NodeRegistered", "StakeAdded", "ExitBegun", "NodeSlashed")
        found = [e for name in names for e in self.chain.events(self.registry, name, first, last)]
        return sorted(found, key=lambda e: (e.block, e.log_index))

    def nodes_of(self, owners: Sequence[str]) -> list[int]:
        """Ids of all nodes that these owners registered, approved or not."""
        head = self.chain.head().number
        for owner in owners:
            first = self._owners_read.get(owner, self.deployment.block)
            events = self.chain.events(
                self.registry, "NodeRegistered", first, head, {"owner": owner}
            )
            self._owned.setdefault(owner, set()).update(int(e.args["node_id"]) for e in events)
            self._owners_read[owner] = max(first, head - _REORG_BLOCKS)
        count = int(self.chain.call(self.registry, "node_count"))
        found = {node for owner in owners for node in self._owned[owner] if node <= count}
        return sorted(found)

    def open_benchmarks(self) -> dict[int, Any]:
        """The Benchmark structs that wait for verdicts, by ascending node id.

        Such nodes may be in no list yet, so they are found by their BenchmarkSubmitted events.
        """
        head = self.chain.head().number
        first = max(self._benchmarks_read, head - _BENCHMARK_BLOCKS)
        events = self.chain.events(self.benchmarks, "BenchmarkSubmitted", first, head)
        nodes = sorted(self._benchmarked.union(int(event.args["node_id"]) for event in events))
        attempts = self.chain.call_many([(self.benchmarks, "benchmark", (node,)) for node in nodes])
        waiting = {
            node: attempt
            for node, attempt in zip(nodes, attempts, strict=True)
            if attempt.submitted_at and not attempt.settled
        }
        self._benchmarked = set(waiting)
        self._benchmarks_read = max(first, head - _REORG_BLOCKS)
        return waiting

    def benchmark(self, node_id: int) -> Any:
        """The Benchmark struct of a node's newest attempt."""
        return self.chain.call(self.benchmarks, "benchmark", node_id)

    def early(self, contract: Contract, function: str, *args: Any) -> bytes | None:
        """What a capture function would return in the next block, None while it is too early or
        the next block captures it anyway."""
        try:
            value = bytes(self.chain.call(contract, function, *args, block="pending"))
        except Reverted as refused:
            if refused.reason in (TOO_EARLY, *NO_SEED_DUE):
                return None
            raise
        return None if value == ZERO_DIGEST else value

    # -- violation reports ---------------------------------------------------------------------

    def report_id(self, job_id: int, round_id: int, node: int, violation: Violation) -> bytes:
        """Id of a violation report."""
        return bytes(
            self.chain.call(self.reports, "report_id_of", job_id, round_id, node, violation)
        )

    def report(self, report_id: bytes) -> Any:
        """The Report struct."""
        return self.chain.call(self.reports, "report_of", report_id)

    def reported(self, job_id: int, first: int, last: int) -> list[bytes]:
        """Ids of the reports raised about a job in a range of blocks, in order, each once."""
        events = self.chain.events(self.reports, "ViolationReported", first, last)
        ids = [bytes(e.args["report_id"]) for e in events if int(e.args["job_id"]) == job_id]
        return list(dict.fromkeys(ids))

    # -- events --------------------------------------------------------------------------------

    def _events(self, name: str, job_id: int, round_id: int, first: int) -> list[Any]:
        last = self.chain.head().number
        where = {"job_id": job_id, "round_id": round_id}
        return self.chain.events(self.rounds, name, first, last, where)

    def _event(
        self, name: str, job_id: int, round_id: int, first: int, last: int
    ) -> dict[str, Any]:
        where = {"job_id": job_id, "round_id": round_id}
        events = self.chain.events(self.rounds, name, first, last, where)
        if not events:
            raise ChainMoved(f"{name} of job {job_id} round {round_id} is not in block {first}.")
        return dict(events[-1].args)


def contributions_hash(nodes: Sequence[int], contributions: Sequence[int]) -> bytes:
    """keccak256(abi_encode(nodes, contributions)), as TrainingRounds stores it."""
    return bytes(keccak(encode(["uint256[]", "uint256[]"], [list(nodes), list(contributions)])))


def commitment_digest(
    chain_id: int,
    contract: str,
    place: tuple[int, int, int],
    operator: str,
    parts: tuple[bytes, bytes, bytes, bytes],
) -> bytes:
    """TrainingRounds.commitment_digest.

    `place`: job, round and node. `parts`: input root, content, trace root and salt.
    """
    kinds = ["bytes32", "uint256", "address", "uint256", "uint256", "uint256", "address"]
    values = [_COMMIT_DOMAIN, chain_id, contract, *place, operator, *parts]
    return bytes(keccak(encode([*kinds, *["bytes32"] * 4], values)))
