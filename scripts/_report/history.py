# SPDX-License-Identifier: Apache-2.0
"""What happened on the chain, block by block: the one source of the live view and of the report.

It reads events only, each once and in order. It asks the agents nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.gauntlet.record import MAX_RECORD_BYTES, RecordError, ScoreRecord
from agents.protocol.network import Network
from agents.protocol.numbers import BPS, SCALE, UNCLAIMED, Phase, Violation
from agents.rounds.report import MAX_REPORT_BYTES, ReportError, RoundReport
from agents.runtime.contracts import Event, EventType
from agents.runtime.printable import printable
from agents.storage.canonical import loads
from agents.storage.cid import cid_from_digest
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError
from scripts._report.amounts import zoo
from scripts._report.story import (
    Accusation,
    Credit,
    Duplicate,
    Forfeit,
    Happening,
    NodeStory,
    RoundStory,
    Slash,
    Story,
    Voice,
)

_MAX_EVIDENCE_BYTES = 1 << 20
_MAX_REASON = 400
_ENDS = {"dismissed": "is dismissed", "lapsed": "has lapsed"}


class History(Story):
    """Follows one job. `names` are the nodes' names by operator address."""

    def __init__(
        self, network: Network, store: ContentStore, job_id: int, names: dict[str, str]
    ) -> None:
        super().__init__(job_id)
        self._network = network
        self._store = store
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
        self._offences: dict[tuple[bytes, int], int] = {}  # by transaction and node: the round

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
            handler = None if kind is None else getattr(self, f"_on_{kind.abi['name']}", None)
            if kind is not None and handler is not None:
                event = kind.decode(log)
                if event.args.get("job_id", self.job_id) == self.job_id:
                    self._event = event
                    handler(event.args, self._time(event))
        self._next_block = head.number + 1

    def _time(self, event: Event) -> int:
        if event.block not in self._times:
            self._times[event.block] = self._network.chain.timestamp(event.block)
        return self._times[event.block]

    def _tx(self) -> str:
        return "0x" + self._event.tx_hash.hex()

    def _say(self, time: int, text: str, tone: str = "plain") -> None:
        """A line of the log, in which some words are a stranger's."""
        self.happenings.append(Happening(time, printable(text), tone))

    # -- registry ------------------------------------------------------------------------------

    def _on_NodeRegistered(self, args: dict[str, Any], time: int) -> None:
        node = NodeStory(
            node_id=args["node_id"],
            name=self._names.get(args["operator"], f"node {args['node_id']}"),
            payout=args["payout"],
            operator=args["operator"],
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
        slash = Slash(
            node.node_id,
            violation,
            args["amount"],
            before,
            time,
            args["banned"],
            round_id=self._offences.get((self._event.tx_hash, node.node_id), 0),
            reporter=args["reporter"],
            reporter_share=args["reporter_share"],
            treasury_share=args["treasury_share"],
            suspended_until=args["suspended_until"],
            tx=self._tx(),
            block=self._event.block,
        )
        self.slashes.append(slash)
        self._say(time, f"{node.name} slashed {zoo(args['amount'])} ZOO: {violation.name}", "bad")

    def _offence(self, node_id: int, round_id: int) -> None:
        """The slash in this transaction, logged already or yet to come, is for that round."""
        self._offences[self._event.tx_hash, node_id] = round_id
        for place, slash in enumerate(self.slashes):
            if slash.node_id == node_id and slash.tx == self._tx():
                self.slashes[place] = replace(slash, round_id=round_id)

    def _on_UnrevealedSlashed(self, args: dict[str, Any], time: int) -> None:
        self._offence(args["node_id"], args["round_id"])

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
        found = Duplicate(args["round_id"], args["first_node"], args["second_node"])
        self.duplicates.append(found)
        first, second = self.label(found.first), self.label(found.second)
        self._say(time, f"{first} and {second} revealed identical content: both audited", "bad")

    def _on_ResultProposed(self, args: dict[str, Any], time: int) -> None:
        round_ = self.rounds[args["round_id"]]
        round_.proposers.append(args["proposer"])
        round_.report = None  # what stood there was of a result that a challenge threw out
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
        self.rounds[args["round_id"]].attested.add(args["verifier_id"])
        self._say(time, f"{self.label(args['verifier_id'])} attested round {args['round_id']}")

    def _on_Challenged(self, args: dict[str, Any], time: int) -> None:
        self._say(time, f"round {args['round_id']} challenged by {args['challenger']}", "bad")

    def _on_ChallengeResolved(self, args: dict[str, Any], time: int) -> None:
        round_ = self.rounds[args["round_id"]]
        if not args["upheld"]:
            self._say(time, f"round {round_.round_id}: the challenge failed, the result stands")
            return
        round_.report = None
        round_.attested.clear()
        self._say(time, f"round {round_.round_id}: the challenge holds, the result is out", "bad")

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
        violation = Violation(args["violation"])
        accusation = self.accusations.setdefault(
            args["report_id"].hex(), Accusation(args["node_id"], args["round_id"], violation)
        )
        accusation.voices.append(
            Voice(
                args["verifier_id"],
                cid_from_digest(args["evidence"]),
                self._reason(args["evidence"]),
                self._tx(),
                self._event.block,
            )
        )
        self.nodes[args["node_id"]].verdict = f"reported {violation.name}"
        by, of = self.label(args["verifier_id"]), self.label(args["node_id"])
        self._say(time, f"{by} reports {of}: {violation.name}", "bad")

    def _reason(self, evidence: bytes) -> str:
        """What a verifier's evidence says; empty if the store has none that can be read."""
        try:
            fields = loads(self._store.get_digest(evidence, _MAX_EVIDENCE_BYTES))
        except (StoreError, ValueError, RecursionError):
            return ""
        reason = fields.get("reason") if isinstance(fields, dict) else None
        return reason[:_MAX_REASON] if isinstance(reason, str) else ""

    def _accusation(self, args: dict[str, Any]) -> Accusation | None:
        """The report that an event is about; None if it belongs to another job."""
        return self.accusations.get(args["report_id"].hex())

    def _on_ReportConfirmed(self, args: dict[str, Any], time: int) -> None:
        if accusation := self._accusation(args):
            accusation.confirmed_block = self._event.block

    def _on_ModelAttested(self, args: dict[str, Any], time: int) -> None:
        if args["attester"] == self._network.coordinator.address:
            self._say(time, f"the committee attests the model {args['model'].hex()[:8]}…", "good")

    def _on_ReportAppealed(self, args: dict[str, Any], time: int) -> None:
        if accusation := self._accusation(args):
            accusation.appealed = True
            self._say(time, f"{self.label(accusation.node_id)} appeals")

    def _on_ReportExecuted(self, args: dict[str, Any], time: int) -> None:
        if accusation := self._accusation(args):
            accusation.outcome = "executed"
            self._offence(accusation.node_id, accusation.round_id)

    def _on_FinderPaid(self, args: dict[str, Any], time: int) -> None:
        """ViolationReports, to which the registry gave the bounty, shares it out."""
        finder = self.nodes[args["verifier_id"]].payout
        for place, slash in enumerate(self.slashes):
            if slash.tx == self._tx() and slash.reporter_share:
                self.slashes[place] = replace(
                    slash,
                    reporter=finder,
                    reporter_share=args["amount"],
                    treasury_share=slash.treasury_share + args["rest"],
                )

    def _on_ReportDismissed(self, args: dict[str, Any], time: int) -> None:
        if accusation := self._accusation(args):
            self._clear(accusation, "dismissed", time)

    def _on_ReportLapsed(self, args: dict[str, Any], time: int) -> None:
        if accusation := self._accusation(args):
            self._clear(accusation, "lapsed", time)

    def _clear(self, accusation: Accusation, outcome: str, time: int) -> None:
        """A report has ended without a slash: what stood on the node before it stands again."""
        accusation.outcome = outcome
        node = self.nodes[accusation.node_id]
        if node.verdict == f"reported {accusation.violation.name}":
            slashes = [slash for slash in self.slashes if slash.node_id == node.node_id]
            node.verdict = slashes[-1].violation.name if slashes else ""
        self._say(time, f"the report on {node.name} {_ENDS[outcome]}: it is not slashed for it")

    def _on_JobFunded(self, args: dict[str, Any], time: int) -> None:
        self.funded += args["amount"]

    def _on_EscrowRefunded(self, args: dict[str, Any], time: int) -> None:
        self.refunded += args["amount"]
        self._say(time, f"{zoo(args['amount'])} ZOO of the escrow went back to the sponsor")

    def _on_RewardsDistributed(self, args: dict[str, Any], time: int) -> None:
        for node_id, amount in zip(args["nodes"], args["amounts"], strict=True):
            if node_id == UNCLAIMED:
                self.unclaimed += amount
            else:
                self._pay(node_id, args["round_id"], amount, time)

    def _on_CutCredited(self, args: dict[str, Any], time: int) -> None:
        self._credit(args["node_id"], args["amount"], time, args["round_id"], "cut")

    def _on_PayReleased(self, args: dict[str, Any], time: int) -> None:
        self._credit(args["node_id"], args["amount"], time)

    def _on_RetainedReleased(self, args: dict[str, Any], time: int) -> None:
        self._credit(args["node_id"], args["amount"], time)

    def _on_RetainedForfeited(self, args: dict[str, Any], time: int) -> None:
        self.unclaimed += args["amount"]
        lost = f"{zoo(args['amount'])} ZOO of retained pay"
        self._say(time, f"{self.label(args['node_id'])} loses {lost} to the treasury", "bad")

    def _on_CarriedForfeited(self, args: dict[str, Any], time: int) -> None:
        self.unclaimed += args["amount"]
        self._say(time, f"{zoo(args['amount'])} ZOO that no round pays go to the treasury")

    def _on_ShareSettled(self, args: dict[str, Any], time: int) -> None:
        node_id, round_id, amount = args["node_id"], args["round_id"], args["amount"]
        if args["guilty"]:
            self.forfeits.append(Forfeit(node_id, round_id, amount))
        else:
            self._pay(node_id, round_id, amount, time)

    def _pay(self, node_id: int, round_id: int, amount: int, time: int) -> None:
        """Credit a trainer's share of a round."""
        self._credit(node_id, amount, time, round_id)
        paid = self.rounds[round_id].paid
        paid[node_id] = paid.get(node_id, 0) + amount

    def _credit(
        self, node_id: int, amount: int, time: int, round_id: int = 0, what: str = "work"
    ) -> None:
        node = self.nodes[node_id]
        node.earned += amount
        node.payouts.append((time, node.earned))
        self.credits.append(Credit(node_id, round_id, amount, what))

    def _on_RewardClaimed(self, args: dict[str, Any], time: int) -> None:
        account = args["account"]
        self.claimed[account] = self.claimed.get(account, 0) + args["amount"]
        self._say(time, f"{self.who(account)} claimed {zoo(args['amount'])} ZOO", "good")
