# SPDX-License-Identifier: Apache-2.0
"""What happened on the chain, block by block: the one source of the live view and of the report.

It reads events only, each once and in order. It asks the agents nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from agents.gauntlet.record import MAX_RECORD_BYTES, RecordError, ScoreRecord
from agents.protocol.network import Network
from agents.protocol.numbers import BPS, SCALE, ZOO, Phase, Violation
from agents.rounds.report import MAX_REPORT_BYTES, ReportError, RoundReport
from agents.runtime.contracts import Event, EventType
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError


@dataclass
class NodeStory:
    """One node's life. Amounts in 1e-18 ZOO. `stakes` and `payouts` are (chain time, amount).

    `standing`: what the newest consensus of validators says of it, empty where there is none.
    """

    node_id: int
    name: str = ""
    payout: str = ""
    roles: int = 0
    stake: int = 0
    state: str = "registered"
    verdict: str = ""
    standing: str = ""
    earned: int = 0
    stakes: list[tuple[int, int]] = field(default_factory=list)
    payouts: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class RoundStory:
    """One round. Times are chain time in seconds.

    `paid`: 1e-18 ZOO credited to trainers, by node. Of a job that validators score: `records` by
    verifier, of those who revealed, `consensus` by node, out of 65,535, empty until it is closed,
    and `trusts` by verifier, from 0 to 1.
    """

    round_id: int
    opened_at: int
    phase: Phase = Phase.COMMIT
    deadline: int = 0
    nodes: tuple[int, ...] = ()
    committed: set[int] = field(default_factory=set)
    revealed: set[int] = field(default_factory=set)
    ended_at: int = 0
    report: RoundReport | None = None
    paid: dict[int, int] = field(default_factory=dict)
    records: dict[int, ScoreRecord] = field(default_factory=dict)
    consensus: dict[int, int] = field(default_factory=dict)
    trusts: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Slash:
    """One slash as NodeRegistry logged it, with the stake before it."""

    node_id: int
    violation: Violation
    amount: int
    stake_before: int
    time: int
    banned: bool


@dataclass(frozen=True)
class Happening:
    """One line of the log. `tone`: plain, good or bad."""

    time: int
    text: str
    tone: str = "plain"


class History:
    """Follows one job. `names` are the nodes' names by operator address."""

    def __init__(
        self, network: Network, store: ContentStore, job_id: int, names: dict[str, str]
    ) -> None:
        self._network = network
        self._store = store
        self._job_id = job_id
        self._names = names
        self._next_block = network.deployment.block
        self._times: dict[int, int] = {}
        self._types: dict[tuple[str, str], EventType] = {}
        self._event: Event  # the one that is being handled
        for contract in network.deployment.contracts.values():
            for item in contract.abi:
                if item["type"] == "event":
                    kind = contract.event(item["name"])
                    self._types[contract.address.lower(), "0x" + kind.topic.hex()] = kind
        self.nodes: dict[int, NodeStory] = {}
        self.rounds: dict[int, RoundStory] = {}
        self.slashes: list[Slash] = []
        self.happenings: list[Happening] = []
        self.claimed: dict[str, int] = defaultdict(int)
        self.funded = 0
        self.job_ended = False
        self.now = 0

    def update(self) -> None:
        """Read the blocks since the last call."""
        head = self._network.chain.head()
        self.now = head.timestamp
        if head.number < self._next_block:
            return
        logs = self._network.chain.request(
            "eth_getLogs",
            {
                "address": [c.address for c in self._network.deployment.contracts.values()],
                "fromBlock": hex(self._next_block),
                "toBlock": hex(head.number),
            },
        )
        for log in logs:
            kind = self._types.get((log["address"].lower(), log["topics"][0]))
            handler = kind and getattr(self, f"_on_{kind.abi['name']}", None)
            if kind is not None and handler is not None:
                event = kind.decode(log)
                if event.args.get("job_id", self._job_id) == self._job_id:
                    self._event = event
                    handler(event.args, self._time(event))
        self._next_block = head.number + 1

    def label(self, node_id: int) -> str:
        """How a node is shown."""
        return self.nodes[node_id].name if node_id in self.nodes else f"node {node_id}"

    def _time(self, event: Event) -> int:
        if event.block not in self._times:
            self._times[event.block] = self._network.chain.timestamp(event.block)
        return self._times[event.block]

    def _say(self, time: int, text: str, tone: str = "plain") -> None:
        self.happenings.append(Happening(time, text, tone))

    # -- registry ------------------------------------------------------------------------------

    def _on_NodeRegistered(self, args: dict[str, Any], time: int) -> None:
        node = NodeStory(
            node_id=args["node_id"],
            name=self._names.get(args["operator"], f"node {args['node_id']}"),
            payout=args["payout"],
            roles=args["roles"],
            stake=args["stake"],
            stakes=[(time, args["stake"])],
        )
        self.nodes[node.node_id] = node

    def _on_StakeAdded(self, args: dict[str, Any], time: int) -> None:
        node = self.nodes[args["node_id"]]
        node.stake = args["stake"]
        node.stakes.append((time, node.stake))

    def _on_BenchmarkSettled(self, args: dict[str, Any], time: int) -> None:
        node = self.nodes[args["node_id"]]
        node.state = "ready" if args["passed"] else "benchmark failed"
        tone = "good" if args["passed"] else "bad"
        self._say(time, f"{node.name}: benchmark verified, score {args['score']:,}", tone)

    def _on_NodeSlashed(self, args: dict[str, Any], time: int) -> None:
        node = self.nodes[args["node_id"]]
        violation = Violation(args["violation"])
        before = node.stake
        node.stake -= args["amount"]
        node.stakes.append((time, node.stake))
        node.verdict = violation.name
        if args["banned"]:
            node.state = "banned"
        elif args["suspended_until"] > time:
            node.state = "suspended"
        elif violation == Violation.NO_REVEAL:
            node.state = "slashed"
        self.slashes.append(
            Slash(node.node_id, violation, args["amount"], before, time, args["banned"])
        )
        text = f"{node.name} slashed {args['amount'] / ZOO:,.4f} ZOO: {violation.name}"
        self._say(time, text, "bad")

    # -- rounds --------------------------------------------------------------------------------

    def _on_RoundOpened(self, args: dict[str, Any], time: int) -> None:
        number = args["round_id"]
        self.rounds[number] = RoundStory(number, time, nodes=tuple(args["nodes"]))
        for node in args["nodes"]:
            self.nodes[node].state = "training"
        self._say(time, f"round {number} opened for {len(args['nodes'])} trainers")

    def _on_RoundSeated(self, args: dict[str, Any], time: int) -> None:
        number, seated = args["round_id"], set(args["nodes"])
        for node in set(self.rounds[number].nodes) - seated:
            self.nodes[node].state = "ready"
        self.rounds[number].nodes = tuple(args["nodes"])
        self._say(time, f"{len(seated)} trainers drawn for round {number}")

    def _on_PhaseChanged(self, args: dict[str, Any], time: int) -> None:
        round_ = self.rounds[args["round_id"]]
        round_.phase, round_.deadline = Phase(args["phase"]), args["deadline"]

    def _on_Committed(self, args: dict[str, Any], time: int) -> None:
        self.rounds[args["round_id"]].committed.add(args["node_id"])
        self.nodes[args["node_id"]].state = "committed"

    def _on_Revealed(self, args: dict[str, Any], time: int) -> None:
        self.rounds[args["round_id"]].revealed.add(args["node_id"])
        self.nodes[args["node_id"]].state = "revealed"

    def _on_DuplicateContent(self, args: dict[str, Any], time: int) -> None:
        first, second = self.label(args["first_node"]), self.label(args["second_node"])
        self._say(time, f"{first} and {second} revealed identical content: both audited", "bad")

    def _on_ResultProposed(self, args: dict[str, Any], time: int) -> None:
        round_ = self.rounds[args["round_id"]]
        try:
            raw = self._store.get_digest(args["report"], MAX_REPORT_BYTES)
            round_.report = RoundReport.from_bytes(raw)
        except (StoreError, ReportError) as error:
            self._say(time, f"the report of round {round_.round_id} is unreadable: {error}", "bad")
            return
        loss = round_.report.val_loss
        by = self.label(args["proposer"])
        self._say(time, f"round {round_.round_id}: {by} proposed a model, loss {loss:.4f}")

    def _on_Attested(self, args: dict[str, Any], time: int) -> None:
        self._say(time, f"{self.label(args['verifier_id'])} attested round {args['round_id']}")

    def _on_Challenged(self, args: dict[str, Any], time: int) -> None:
        self._say(time, f"round {args['round_id']} challenged by {args['challenger']}", "bad")

    def _on_RoundFinalized(self, args: dict[str, Any], time: int) -> None:
        self._end(args["round_id"], Phase.FINALIZED, time)
        self._say(time, f"round {args['round_id']} final", "good")

    def _on_RoundVoided(self, args: dict[str, Any], time: int) -> None:
        self._end(args["round_id"], Phase.VOID, time)
        self._say(time, f"round {args['round_id']} void: {args['reason']}", "bad")

    def _end(self, round_id: int, phase: Phase, time: int) -> None:
        self.rounds[round_id].phase = phase
        self.rounds[round_id].ended_at = time

    def _on_JobEnded(self, args: dict[str, Any], time: int) -> None:
        self.job_ended = True
        self._say(time, "the job is complete", "good")

    # -- scores --------------------------------------------------------------------------------

    def _on_ScoresRevealed(self, args: dict[str, Any], time: int) -> None:
        round_, verifier = self.rounds[args["round_id"]], args["verifier_id"]
        try:
            raw = self._store.get_digest(args["record"], MAX_RECORD_BYTES)
            round_.records[verifier] = ScoreRecord.from_bytes(raw)
        except (StoreError, RecordError) as error:
            by = self.label(verifier)
            self._say(time, f"{by}'s record of round {round_.round_id} is unreadable: {error}")

    def _on_ScoringClosed(self, args: dict[str, Any], time: int) -> None:
        round_ = self.rounds[args["round_id"]]
        round_.consensus = dict(zip(args["nodes"], args["consensus"], strict=True))
        trusts = zip(args["verifiers"], args["trusts"], strict=True)
        round_.trusts = {verifier: trust / BPS for verifier, trust in trusts}
        for node, score in round_.consensus.items():
            self.nodes[node].standing = f"{score / SCALE:.1%}"
        for verifier, trust in round_.trusts.items():
            self.nodes[verifier].standing = f"trust {trust:.1%}"
        best = max(round_.consensus, key=lambda node: round_.consensus[node], default=0)
        if not args["scored"]:
            text = "nobody has scored yet"
        else:
            text = f"{self.label(best)} leads with {self.nodes[best].standing}"
        self._say(time, f"round {round_.round_id}: the validators' scores are closed, {text}")

    # -- reports and rewards -------------------------------------------------------------------

    def _on_ViolationReported(self, args: dict[str, Any], time: int) -> None:
        violation = Violation(args["violation"]).name
        self.nodes[args["node_id"]].verdict = f"reported {violation}"
        by, of = self.label(args["verifier_id"]), self.label(args["node_id"])
        self._say(time, f"{by} reports {of}: {violation}", "bad")

    def _on_JobFunded(self, args: dict[str, Any], time: int) -> None:
        self.funded += args["amount"]

    def _on_RewardsDistributed(self, args: dict[str, Any], time: int) -> None:
        for node_id, amount in zip(args["nodes"], args["amounts"], strict=True):
            self._credit(node_id, amount, time)
            paid = self.rounds[args["round_id"]].paid
            paid[node_id] = paid.get(node_id, 0) + amount

    def _on_CutCredited(self, args: dict[str, Any], time: int) -> None:
        self._credit(args["node_id"], args["amount"], time)

    def _on_PayReleased(self, args: dict[str, Any], time: int) -> None:
        self._credit(args["node_id"], args["amount"], time)

    def _on_ShareSettled(self, args: dict[str, Any], time: int) -> None:
        if not args["guilty"]:
            self._credit(args["node_id"], args["amount"], time)

    def _credit(self, node_id: int, amount: int, time: int) -> None:
        node = self.nodes[node_id]
        node.earned += amount
        node.payouts.append((time, node.earned))

    def _on_RewardClaimed(self, args: dict[str, Any], time: int) -> None:
        self.claimed[args["account"]] += args["amount"]
        self._say(time, f"{args['account']} claimed {args['amount'] / ZOO:,.4f} ZOO", "good")
