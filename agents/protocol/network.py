# SPDX-License-Identifier: Apache-2.0
"""The protocol's contracts as one typed object: what is read, what is sent, no decision.

Rule: state is read from the chain at the moment it is needed, and turned into its struct there.
What is kept is a snapshot under the hash of the block that holds it, and events behind a cursor,
which takes back those of blocks that a reorg removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from agents.protocol.draw import draw_seed
from agents.protocol.ended import Ended
from agents.protocol.formulas import snapshot_hash
from agents.protocol.ledgers import Ledgers
from agents.protocol.marks import CHANGES, Marks, marks_at, nodes_found
from agents.protocol.numbers import ZERO_DIGEST, Phase, ReportStatus, Violation
from agents.protocol.slashing import Row
from agents.protocol.structs import (
    Benchmark,
    Bounds,
    Job,
    LedgerEntry,
    Node,
    Proposal,
    Report,
    Reveal,
    Round,
    Snapshot,
    read,
)
from agents.protocol.views import OF_THE_BLOCK
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract, Deployment, Event
from agents.runtime.errors import AgentError, Reverted
from agents.runtime.event_cursor import EventCursor, EventLog

TOO_EARLY = "randomness: too early"
# Somebody captures the seed in the block being made: that of the audit, or that of the round.
NO_SEED_DUE = ("rounds: no seed due", "results: no seed due", "randomness: not requested")
_COUNTED = 64  # rounds of which is kept who worked in how many others meanwhile
_SEEN_BLOCKS = 128  # contracts know the hashes of 256 blocks
_ENDED = (ReportStatus.EXECUTED, ReportStatus.DISMISSED, ReportStatus.LAPSED)
_STAKE_EVENTS = ("NodeRegistered", "StakeAdded", "ExitBegun", "NodeSlashed")
_POOLS = ("PoolReserved", "PoolClosed")  # a round is opened, and is over
_RETENTIONS = ("PayRetained", "RetainedReleased", "RetainedForfeited")
_OPERATOR_EVENTS = ("NodeRegistered", "OperatorChanged")
_ENCRYPTION_EVENTS = ("NodeRegistered", "EncryptionKeyChanged")


def operators_after(events: Iterable[Event], nodes: Collection[int], block: int) -> dict[int, str]:
    """See `Network.operators_at`. `events`: of registrations and changed keys, in chain order."""
    return _newest(events, nodes, block, "operator", "new_operator")


def encryption_keys_after(
    events: Iterable[Event], nodes: Collection[int], block: int
) -> dict[int, bytes]:
    """See `Network.encryption_keys_at`. `events`: of registrations and changed keys, in chain
    order."""
    none = dict.fromkeys(nodes, ZERO_DIGEST)
    return none | _newest(events, nodes, block, "encryption_key", "new_key")


def _newest(
    events: Iterable[Event], nodes: Collection[int], block: int, registered: str, changed: str
) -> dict[int, Any]:
    """By node, what its newest event up to a block says in a field: `registered` of a
    registration, `changed` of a change."""
    found = {}
    for event in events:
        node = event.args["node_id"]
        if node in nodes and event.block <= block:
            found[node] = event.args[registered if event.name == "NodeRegistered" else changed]
    return found


class ChainMoved(AgentError):
    """What was read a moment ago is no longer in the chain (a reorg); read again."""


class Network:
    """Typed reads of all contracts. `deployment` maps their names to addresses and ABIs."""

    def __init__(self, chain: ChainClient, deployment: Deployment) -> None:
        chain.watch(deployment, OF_THE_BLOCK)
        self.chain = chain
        self.deployment = deployment
        self.registry: Contract = deployment["NodeRegistry"]
        self.benchmarks: Contract = deployment["NodeBenchmarks"]
        self.jobs: Contract = deployment["TrainingJobs"]
        self.rounds: Contract = deployment["TrainingRounds"]
        self.results: Contract = deployment["TrainingResults"]
        self.reports: Contract = deployment["ViolationReports"]
        self.pool: Contract = deployment["RewardPool"]
        self.ledger: Contract = deployment["TrainingLedger"]
        self.scores: Contract = deployment["ScoreConsensus"]
        self.tasks: Contract = deployment["RedundantTasks"]
        self.appeals: Contract = deployment["TaskAppeals"]
        self.coordinator: Contract = deployment["Coordinator"]
        self.token: Contract = deployment["ZooToken"]
        self._snapshots: dict[tuple[int, int, bytes, bytes], Snapshot] = {}
        self._owned: dict[str, EventLog] = {}  # registrations by owner
        self._marks: dict[int, EventLog] = {}  # of invalid work, by job
        self._stakes = EventLog(self._registry_events(_STAKE_EVENTS, deployment.block))
        self._rows = EventLog(self._registry_events(("PenaltyChanged",), deployment.block))
        self._keys = EventLog(self._registry_events(_OPERATOR_EVENTS, deployment.block))
        self._publics = EventLog(self._registry_events(_ENCRYPTION_EVENTS, deployment.block))
        block = deployment.block
        self._pools = EventLog(EventCursor(chain, self.pool, _POOLS, block))
        self._retained = EventLog(EventCursor(chain, self.pool, _RETENTIONS, block))
        self._holding = EventLog(EventCursor(chain, self.pool, ("PayHeld",), block))
        self._at_once: dict[tuple[int, int, bytes], Counter[int]] = {}
        self._reported = EventLog(EventCursor(chain, self.reports, ("ViolationReported",), block))
        self._ledgers = Ledgers(EventCursor(chain, self.ledger, ("RoundRecorded",), block))
        self._ended: Ended[bytes] = Ended()  # reports
        self._resolved: Ended[tuple[int, int, int]] = Ended()  # disputes: job, round, block
        self._challenged = EventLog(EventCursor(chain, self.results, ("Challenged",), block))
        self._adopted = EventLog(EventCursor(chain, self.scores, ("JobAdopted",), block))
        self._answers = EventCursor(chain, self.benchmarks, ("BenchmarkSubmitted",), block)
        self._submitted: set[int] = set()  # nodes that submitted a benchmark
        self._judged: set[int] = set()  # those of them whose newest one was settled when last seen

    # -- jobs and rounds -----------------------------------------------------------------------

    def job_count(self) -> int:
        """Number of jobs; ids run from 1 to this."""
        return read(int, self.chain.call(self.jobs, "job_count"))

    def job(self, job_id: int) -> Job:
        """A job; its status is NONE if there is no such job."""
        return read(Job, self.chain.call(self.jobs, "job", job_id))

    def bounds(self) -> Bounds:
        """What the terms of a new job may hold today."""
        return read(Bounds, self.chain.call(self.jobs, "bounds"))

    def round(self, job_id: int, round_id: int) -> Round:
        """A round, whichever contract has it now; its phase is NONE if there is no such round."""
        return read(Round, self.chain.call(self.rounds, "round", job_id, round_id))

    def snapshot(self, job_id: int, round_id: int, round_: Round) -> Snapshot:
        """The round's snapshot, from its RoundOpened event, or its trainers from RoundSeated where
        there were more than seats; without trainers until these are drawn. Raises ChainMoved if an
        event is gone."""
        block_hash = self.chain.block_hash(round_.opened_block)
        key = (job_id, round_id, block_hash or b"", round_.snapshot_hash)
        if key not in self._snapshots:
            args = self._opening(job_id, round_id, round_).args
            lists = self._seated(job_id, round_id, round_, args)
            self._snapshots[key] = Snapshot(
                nodes=tuple(lists["nodes"]),
                weights=tuple(lists["weights"]),
                verifiers=dict(zip(args["verifiers"], args["stakes"], strict=True)),
                aggregators=tuple(args["aggregators"]),
            )
        return self._snapshots[key]

    def candidates(
        self, job_id: int, round_id: int, round_: Round
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Node ids and scores that a round's seats are drawn from. Raises ChainMoved."""
        args = self._opening(job_id, round_id, round_).args
        return tuple(args["nodes"]), tuple(args["weights"])

    def marks_at(self, job_id: int, round_id: int, round_: Round) -> Marks:
        """(round, node) of the job's earlier work that was invalid when a round opened.

        Folded from events, so that everybody has the same at any time, without an archive node:
        `is_invalid` says what holds now. Raises ChainMoved.
        """
        changes = self._changes_of_marks(job_id)
        if not changes:
            return frozenset()
        return marks_at(changes, job_id, self._opening(job_id, round_id, round_))

    def found_invalid(self, job_id: int, round_id: int) -> set[int]:
        """Nodes whose work in a round was found invalid, also those that were cleared since: nobody
        is judged twice in a round."""
        return nodes_found(self._changes_of_marks(job_id), job_id, round_id)

    def _changes_of_marks(self, job_id: int) -> list[Event]:
        """What has become of the job's marks so far. One call says that a job never had any, and of
        another one its own blocks alone are searched."""
        if not read(int, self.chain.call(self.results, "last_invalid", job_id)):
            return []
        if job_id not in self._marks:
            first, where = self.round(job_id, 1).opened_block, {"job_id": job_id}
            cursor = EventCursor(self.chain, self.results, CHANGES, first, where)
            self._marks[job_id] = EventLog(cursor)
        return self._marks[job_id].read()

    def _opening(self, job_id: int, round_id: int, round_: Round) -> Event:
        block = round_.opened_block
        return self._event("RoundOpened", job_id, round_id, block, block)

    def _seated(
        self, job_id: int, round_id: int, round_: Round, opened: dict[str, Any]
    ) -> dict[str, Any]:
        """The event that names the round's trainers and their weights."""
        if round_.n_eligible == 0:
            return {"nodes": (), "weights": ()}
        if round_.n_eligible == len(opened["nodes"]):
            return opened
        for event in self._events("RoundSeated", job_id, round_id, round_.opened_block):
            args = event.args
            if snapshot_hash(args["nodes"], args["weights"]) == round_.snapshot_hash:
                return args
        raise ChainMoved(f"RoundSeated of job {job_id} round {round_id} is gone.")

    def seed(self, job_id: int, round_id: int, round_: Round, audit: bool = False) -> bytes | None:
        """The round's seed (or audit seed), None while its block has not been mined.

        A seed that nobody has captured yet is asked of the contract by a call without a
        transaction: it is the value that the capture will store, unless it expires before.
        """
        stored = round_.audit_seed if audit else round_.seed
        if stored != ZERO_DIGEST:
            return stored
        if audit:
            return self.early(self.results, "capture_audit_seed", job_id, round_id)
        return self.early(self.rounds, "capture_seed", job_id, round_id)

    def draw_seed(self, job_id: int, round_id: int, round_: Round) -> bytes | None:
        """What draws whose work is looked at: of the block after the one that proposed the result
        that stands (`agents.protocol.draw`). None before, and in the middle of a reorg.
        """
        proposed = self._proposed(job_id, round_id, round_)
        if proposed is None:
            return None
        known = self.chain.block_hash(proposed.block + 1)
        return None if known is None else draw_seed(known, job_id, round_id)

    def scored_jobs(self) -> bool:
        """Whether any job is paid by its validators' scores."""
        return bool(self._adopted.read())

    def is_scored(self, job_id: int) -> bool:
        """Whether a job adopted ScoreConsensus. It can't once its first round has opened."""
        return any(event.args["job_id"] == job_id for event in self._adopted.read())

    def seen(self, block: int, head: int) -> tuple[int, bytes] | None:
        """What a commitment names so that it counts on this chain only: a block, from `block` on,
        that contracts still know for long, and its hash. None if the chain does not have it.

        `block`: the one that the seed of the work is taken from. `head`: the newest one.
        """
        number = max(block, head - _SEEN_BLOCKS)
        known = self.chain.block_hash(number)
        return None if known is None else (number, known)

    def reveals(self, job_id: int, round_id: int, opened_block: int) -> dict[int, Reveal]:
        """Everything revealed in a round, by ascending node id."""
        events = self._events("Revealed", job_id, round_id, opened_block)
        found = {}
        for args in sorted((event.args for event in events), key=lambda args: args["node_id"]):
            node = args["node_id"]
            found[node] = Reveal(
                node=node,
                input_root=args["input_root"],
                content=args["content"],
                trace_root=args["trace_root"],
                proof=args["proof"],
            )
        return found

    def proposal(self, job_id: int, round_id: int, round_: Round) -> Proposal:
        """The result that stands in the round. Raises ChainMoved if its event is gone."""
        args = self._result(job_id, round_id, round_).args
        return Proposal(
            proposer=args["proposer"],
            model=args["model"],
            update=args["update"],
            report=args["report"],
            result_hash=args["result_hash"],
            nodes=tuple(args["nodes"]),
            contributions=tuple(args["contributions"]),
        )

    def _result(self, job_id: int, round_id: int, round_: Round) -> Event:
        proposed = self._proposed(job_id, round_id, round_)
        if proposed is None:
            raise ChainMoved(f"The result proposed in job {job_id} round {round_id} is gone.")
        return proposed

    def _proposed(self, job_id: int, round_id: int, round_: Round) -> Event | None:
        """The event of the result that stands, the first where it was proposed twice."""
        if round_.result_hash == ZERO_DIGEST:
            return None
        events = self._events("ResultProposed", job_id, round_id, round_.opened_block)
        return next((e for e in events if e.args["result_hash"] == round_.result_hash), None)

    def attesters(self, job_id: int, round_id: int, round_: Round) -> set[int]:
        """Verifiers that attested the result that stands."""
        events = self._events("Attested", job_id, round_id, round_.opened_block)
        return {
            event.args["verifier_id"]
            for event in events
            if event.args["result_hash"] == round_.result_hash
        }

    def on_duty(self, job_id: int, round_id: int) -> int:
        """The aggregator drawn for a round; 0 in the fallback window and before AGGREGATE."""
        return read(int, self.chain.call(self.results, "aggregator_on_duty", job_id, round_id))

    def is_challenged(self, job_id: int, round_id: int) -> bool:
        """Whether the newest result of a round was challenged, which it can be once."""
        return read(bool, self.chain.call(self.results, "is_challenged", job_id, round_id))

    def in_round(self, question: str, job_id: int, round_id: int, nodes: Sequence[int]) -> set[int]:
        """Those `nodes` for which a view such as "is_invalid" or "is_flagged" holds."""
        answers = self.chain.call_many(
            [(self.declares(question), question, (job_id, round_id, node)) for node in nodes]
        )
        return {node for node, answer in zip(nodes, answers, strict=True) if answer}

    def declares(self, name: str) -> Contract:
        """Which of a round's two contracts has the view or event `name`; the first, if both."""
        in_rounds = any(item.get("name") == name for item in self.rounds.abi)
        return self.rounds if in_rounds else self.results

    def committed(self, job_id: int, round_id: int, nodes: Sequence[int]) -> set[int]:
        """Those `nodes` that committed in the round."""
        answers = self.chain.call_many(
            [(self.rounds, "commitment_of", (job_id, round_id, node)) for node in nodes]
        )
        return {n for n, a in zip(nodes, answers, strict=True) if a != ZERO_DIGEST}

    def committed_in(self, job_id: int, rounds: Sequence[int], node: int) -> list[int]:
        """Those of a job's `rounds` that a node committed in, in their order."""
        answers = self.chain.call_many(
            [(self.rounds, "commitment_of", (job_id, number, node)) for number in rounds]
        )
        return [n for n, a in zip(rounds, answers, strict=True) if a != ZERO_DIGEST]

    def rounds_at_once(self, job_id: int, round_id: int, round_: Round) -> Counter[int]:
        """In how many rounds of all jobs each node had its work while this one ran: it had
        committed when the result that stands was proposed, in a round that was not over when this
        one, which counts, was opened.

        By events up to the proposal, so that all who look at any time find the same, and a round is
        counted for once. Raises ChainMoved.
        """
        proposed = self._result(job_id, round_id, round_).block
        known = self.chain.block_hash(proposed)
        if known is None:
            raise ChainMoved(f"Block {proposed} is gone.")
        place = job_id, round_id, known
        if place not in self._at_once:
            self._at_once[place] = self._committed_at_once(round_.opened_block, proposed)
            while len(self._at_once) > _COUNTED:
                del self._at_once[next(iter(self._at_once))]
        return Counter(self._at_once[place])

    def _committed_at_once(self, first: int, proposed: int) -> Counter[int]:
        """The same, of the rounds that were not over at block `first`."""
        opened, over = dict[tuple[int, int], int](), dict[tuple[int, int], int]()
        for event in self._pools.read():
            known = opened if event.name == "PoolReserved" else over
            known[event.args["job_id"], event.args["round_id"]] = event.block
        places = [
            place
            for place, block in opened.items()
            if block <= proposed and over.get(place, proposed) >= first
        ]
        rounds = self.chain.call_many([(self.rounds, "round", place) for place in places])
        found = Counter[int]()
        for (job, number), state in zip(places, rounds, strict=True):
            if read(Round, state).n_committed:
                where = {"job_id": job, "round_id": number}
                span = opened[job, number], proposed
                events = self.chain.events(self.rounds, "Committed", *span, where)
                found.update(event.args["node_id"] for event in events)
        return found

    def slashed_for_silence(self, job_id: int, round_id: int, opened_block: int) -> set[int]:
        """Nodes of a round that have been slashed for not revealing."""
        events = self._events("UnrevealedSlashed", job_id, round_id, opened_block)
        return {event.args["node_id"] for event in events}

    # -- ledger --------------------------------------------------------------------------------

    def ledger_length(self, job_id: int) -> int:
        """Number of finalized rounds in the ledger."""
        return read(int, self.chain.call(self.ledger, "length", job_id))

    def ledger_heads(self) -> Mapping[int, Sequence[bytes]]:
        """The ledger's head at each entry, of every job that has any."""
        return self._ledgers.heads()

    def ledger_entry(self, job_id: int, index: int) -> LedgerEntry:
        """The entry at `index` (0 is the first finalized round)."""
        return read(LedgerEntry, self.chain.call(self.ledger, "entry", job_id, index))

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """A node; all zero if there is no such node."""
        return read(Node, self.chain.call(self.registry, "node", node_id))

    def node_of(self, operator: str) -> int:
        """The node that an operator key serves, 0 if none."""
        return read(int, self.chain.call(self.registry, "node_of", operator))

    def operator_of(self, node_id: int) -> str:
        """The operator key of a node."""
        return read(str, self.chain.call(self.registry, "operator_of", node_id))

    def stakes_at(self, nodes: Sequence[int], block: int) -> dict[int, int]:
        """Stake of each of `nodes` after `block`, in 1e-18 ZOO, without what is unbonding.

        Folded from events, so that it can be had for any block without an archive node.
        """
        stakes = dict.fromkeys(nodes, 0)
        for event in self._stakes.read():
            node = event.args["node_id"]
            if node not in stakes or event.block > block:
                continue
            if "stake" in event.args:
                stakes[node] = event.args["stake"]
            elif event.name == "ExitBegun":
                stakes[node] = 0
            else:
                stakes[node] = max(0, stakes[node] - event.args["amount"])
        return stakes

    def pool_amount(self, job_id: int, round_id: int) -> tuple[int, int]:
        """What a round pays, in 1e-18 ZOO: the job's reward, and what its earlier rounds did not
        pay; and the part of it that is for trainers without cuts. 0 for a round that was never
        opened."""
        pool = self.chain.call(self.pool, "pool", job_id, round_id)
        return read(int, pool.amount), read(int, pool.for_trainers)

    def retained_at(self, block: int) -> dict[tuple[int, int], int]:
        """What the pool had retained of trainers' pay after `block`, in 1e-18 ZOO, by job and node;
        those without any are left out."""
        found: dict[tuple[int, int], int] = {}
        for event in self._retained.read():
            if event.block <= block:
                place = event.args["job_id"], event.args["node_id"]
                if event.name == "PayRetained":
                    found[place] = found.get(place, 0) + event.args["amount"]
                else:
                    del found[place]
        return found

    def held(self) -> dict[int, int]:
        """What the pool holds of pay that nodes earned while they had a lock, in 1e-18 ZOO, by
        node; those without any are left out."""
        nodes = sorted({event.args["node_id"] for event in self._holding.read()})
        amounts = self.chain.call_many([(self.pool, "held", (node,)) for node in nodes])
        return {node: amount for node, amount in zip(nodes, amounts, strict=True) if amount}

    def operators_at(self, nodes: Collection[int], block: int) -> dict[int, str]:
        """The operator key of each of `nodes` after `block`. A key that is changed later, or given
        up by an exit, stays the one that signed then."""
        return operators_after(self._keys.read(), nodes, block)

    def acting_operator(self, node_id: int) -> str:
        """The operator key of a node that may vote; the zero address of a convict."""
        return read(str, self.chain.call(self.registry, "acting_operator", node_id))

    def encryption_keys_at(self, nodes: Collection[int], block: int) -> dict[int, bytes]:
        """Encryption key of each of `nodes` after `block`, zero where there is none."""
        return encryption_keys_after(self._publics.read(), nodes, block)

    def nodes_of(self, owners: Sequence[str]) -> list[int]:
        """Ids of all nodes that these owners registered, approved or not."""
        found: set[int] = set()
        for owner in owners:
            if owner not in self._owned:
                where = {"owner": owner}
                cursor = self._registry_events(("NodeRegistered",), self.deployment.block, where)
                self._owned[owner] = EventLog(cursor)
            found.update(event.args["node_id"] for event in self._owned[owner].read())
        return sorted(found)

    def unbonding_s(self) -> int:
        """For how long the stake of a node that leaves still answers for what it did, in seconds,
        as the registry has it now."""
        return read(int, self.chain.call(self.registry, "parameters").unbonding_period)

    def routine_delay_s(self) -> int:
        """How long a routine call of the committee waits for its execution, in seconds."""
        routine, _ = self.chain.call(self.coordinator, "delays")
        return read(int, routine)

    def penalty(self, violation: Violation) -> Row:
        """The row of the slashing table for a violation, as the registry has it now."""
        return read(Row, self.chain.call(self.registry, "penalty", violation))

    def penalties(self) -> dict[int, Row]:
        """The whole slashing table, as the registry has it now."""
        calls = [(self.registry, "penalty", (violation,)) for violation in Violation]
        rows = zip(Violation, self.chain.call_many(calls), strict=True)
        return {violation: read(Row, row) for violation, row in rows}

    def penalties_at(self, block: int) -> dict[int, Row]:
        """The slashing table after `block`, from events; a row that was never set is left out."""
        return {
            event.args["violation"]: Row(*event.args["new_penalty"])
            for event in self._rows.read()
            if event.block <= block
        }

    def open_benchmarks(self) -> dict[int, Benchmark]:
        """The attempts that wait for verdicts, by ascending node id, however old they are: the
        contract takes verdicts until the node asks for its next attempt.

        Such nodes may be in no list yet, so they are found by their BenchmarkSubmitted events.
        """
        new = self._answers.poll()
        if new.rewound_to is not None:
            self._judged.clear()  # a reorg may have taken a verdict back
        nodes = {event.args["node_id"] for event in new.events}
        self._submitted |= nodes
        self._judged -= nodes
        asked = sorted(self._submitted - self._judged)
        calls = [(self.benchmarks, "benchmark", (node,)) for node in asked]
        found = zip(asked, self.chain.call_many(calls), strict=True)
        attempts = {node: read(Benchmark, attempt) for node, attempt in found}
        waiting = {n: a for n, a in attempts.items() if a.submitted_at and not a.settled}
        self._judged.update(attempts.keys() - waiting.keys())
        return waiting

    def voters(self, created_at: int) -> list[int]:
        """The verifiers who vote on a work that exists since `created_at`, chain seconds."""
        maturity = read(int, self.chain.call(self.registry, "maturity"))
        ids, _ = self.chain.call(self.registry, "voters", max(0, created_at - maturity))
        return list(ids)

    def benchmark(self, node_id: int) -> Benchmark:
        """A node's newest attempt; all zero if it asked for none."""
        return read(Benchmark, self.chain.call(self.benchmarks, "benchmark", node_id))

    def early(self, contract: Contract, function: str, *args: Any) -> bytes | None:
        """What a capture function would return in the next block, None while it is too early or
        the next block captures it anyway."""
        try:
            value = read(bytes, self.chain.call(contract, function, *args, block="pending"))
        except Reverted as refused:
            if refused.reason in (TOO_EARLY, *NO_SEED_DUE):
                return None
            raise
        return None if value == ZERO_DIGEST else value

    # -- violation reports ---------------------------------------------------------------------

    def report(self, report_id: bytes) -> Report:
        """A report; its status is NONE if there is no such report."""
        found = read(Report, self.chain.call(self.reports, "report_of", report_id))
        if found.status in _ENDED:
            self._ended.add(report_id, self.chain.head().number)
        else:
            self._ended.discard(report_id)
        return found

    def open_reports(self, job_id: int | None = None, node: int | None = None) -> list[bytes]:
        """Ids of the reports, of all or of a job or a node, that are not known to have ended, in
        order, however old they are."""
        found = (
            event.args["report_id"]
            for event in self._reported.read()
            if job_id in (None, event.args["job_id"]) and node in (None, event.args["node_id"])
        )
        return self._ended.left(found, self.chain.head().number)

    def reported(self, job_id: int | None, first: int, last: int) -> list[bytes]:
        """Ids of the reports raised in a range of blocks, in order, each once.

        `job_id`: of which job; None: of all jobs.
        """
        found = (
            event.args["report_id"]
            for event in self._reported.read()
            if first <= event.block <= last and job_id in (None, event.args["job_id"])
        )
        return list(dict.fromkeys(found))

    def reported_on(self, node: int, first: int, last: int) -> list[bytes]:
        """Ids of the reports on a node that were raised in a range of blocks, each once."""
        found = (
            event.args["report_id"]
            for event in self._reported.read()
            if first <= event.block <= last and event.args["node_id"] == node
        )
        return list(dict.fromkeys(found))

    def disputed(self) -> list[tuple[int, int]]:
        """(job, round) of every round whose result waits for the committee, of all jobs."""
        head = self.chain.head().number
        # With the block: a round may be disputed again, for its next result.
        every = [(e.args["job_id"], e.args["round_id"], e.block) for e in self._challenged.read()]
        cases = self._resolved.left(every, head)
        phases = self.chain.call_many([(self.rounds, "phase", case[:2]) for case in cases])
        found: dict[tuple[int, int], None] = {}
        for case, phase in zip(cases, phases, strict=True):
            if phase == Phase.DISPUTED:
                self._resolved.discard(case)
                found[case[:2]] = None
            else:
                self._resolved.add(case, head)
        return list(found)

    # -- events --------------------------------------------------------------------------------

    def _registry_events(
        self, names: Sequence[str], first: int, where: dict[str, Any] | None = None
    ) -> EventCursor:
        return EventCursor(self.chain, self.registry, names, first, where)

    def _events(self, name: str, job_id: int, round_id: int, first: int) -> list[Event]:
        last = self.chain.head().number
        where = {"job_id": job_id, "round_id": round_id}
        return self.chain.events(self.declares(name), name, first, last, where)

    def _event(self, name: str, job_id: int, round_id: int, first: int, last: int) -> Event:
        where = {"job_id": job_id, "round_id": round_id}
        events = self.chain.events(self.declares(name), name, first, last, where)
        if not events:
            raise ChainMoved(f"{name} of job {job_id} round {round_id} is not in block {first}.")
        return events[-1]
