# SPDX-License-Identifier: Apache-2.0
"""What happened to redundant tasks on the chain: for the live view, the verdict and the report."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from agents.protocol.network import Network
from agents.protocol.numbers import Violation
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.spec import MAX_SPEC_BYTES, parse_spec
from scripts._report.amounts import zoo
from scripts._report.history import History


@dataclass
class TaskStory:
    """One task. Times are chain time in seconds, 0 for what has not happened.

    Attributes:
        state: where it stands, in words.
        drawn: nodes by lane.
        settled_at: when two agreed, or it was clear that nobody would.
        contested: a third executor decided.
        undecided: no two results were equal.
        unavailable: two agreed that the inputs can't be had.
        result: what two agreed on.
        appellants: who appealed; at most one.
        verdict: what verifiers found, if they were asked and answered.
        slashed: (node, violation, amount in 1e-18 ZOO).
        transactions: hashes of all that were about the task.
        gas: what those used, once `TaskHistory.count_gas` has run.
    """

    task_id: int
    kind: str
    creator: str
    fee: int
    created_at: int
    state: str = "drawing"
    drawn: list[int] = field(default_factory=list)
    settled_at: int = 0
    contested: bool = False
    undecided: bool = False
    unavailable: bool = False
    result: bytes | None = None
    appellants: list[str] = field(default_factory=list)
    verdict: bytes | None = None
    overturned: bool = False
    slashed: list[tuple[int, Violation, int]] = field(default_factory=list)
    transactions: set[bytes] = field(default_factory=set)
    gas: int = 0

    @property
    def latency(self) -> int:
        """Seconds from the creation until `settled_at`; 0 until then."""
        return self.settled_at - self.created_at if self.settled_at else 0

    @property
    def stands(self) -> bytes | None:
        """The result that counts: the verifiers' if they gave one."""
        return self.verdict or self.result


class TaskHistory(History):
    """Follows all redundant tasks and the nodes that run them."""

    def __init__(self, network: Network, store: ContentStore, names: dict[str, str]) -> None:
        super().__init__(network, store, 0, names)
        self.tasks: dict[int, TaskStory] = {}
        self.began = 0  # chain time of the first task
        # By contract: what was paid in as bonds and fees, and by account what was credited.
        self.taken: dict[str, int] = defaultdict(int)
        self.seized = 0
        self.credited: dict[str, dict[str, int]] = {
            network.tasks.address.lower(): defaultdict(int),
            network.appeals.address.lower(): defaultdict(int),
        }
        self.withdrawn: dict[str, dict[str, int]] = {
            address: defaultdict(int) for address in self.credited
        }

    @property
    def fee_credits(self) -> dict[str, int]:
        """What RedundantTasks credited of the fees, by account."""
        return self.credited[self._network.tasks.address.lower()]

    def count_gas(self) -> None:
        """Read what the transactions about every task used."""
        used: dict[bytes, int] = {}
        for story in self.tasks.values():
            for tx in story.transactions - used.keys():
                found = self._network.chain.request("eth_getTransactionReceipt", "0x" + tx.hex())
                used[tx] = int(found["gasUsed"], 16)
            story.gas = sum(used[tx] for tx in story.transactions)

    def _story(self, args: dict[str, Any]) -> TaskStory:
        story = self.tasks[args["task_id"]]
        story.transactions.add(self._event.tx_hash)
        return story

    def _title(self, story: TaskStory) -> str:
        return f"task {story.task_id} ({story.kind})"

    # -- executors -----------------------------------------------------------------------------

    def _on_ExecutorJoined(self, args: dict[str, Any], time: int) -> None:
        self.nodes[args["node_id"]].state = "seated"
        self._say(time, f"{self.label(args['node_id'])} took a seat")

    def _on_ExecutorLeft(self, args: dict[str, Any], time: int) -> None:
        node = self.nodes[args["node_id"]]
        if node.state == "seated":
            node.state = "left"
        self._say(time, f"{node.name} lost its seat")

    # -- the course of a task ------------------------------------------------------------------

    def _on_TaskCreated(self, args: dict[str, Any], time: int) -> None:
        try:
            raw = self._store.get_digest(args["spec"], MAX_SPEC_BYTES)
            kind = parse_spec(raw).kind
        except (StoreError, TaskError):
            kind = "unreadable"
        number = args["task_id"]
        self.tasks[number] = TaskStory(number, kind, args["creator"], args["fee"], time)
        self.began = self.began or time
        self._story(args)

    def _on_DrawRequested(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.state = "drawing again"
        self._say(time, f"{self._title(story)}: another executor is drawn")

    def _on_ExecutorDrawn(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.drawn.append(args["node_id"])
        story.state = "running"

    def _on_ResultCommitted(self, args: dict[str, Any], time: int) -> None:
        self._story(args)

    def _on_RevealOpened(self, args: dict[str, Any], time: int) -> None:
        self._story(args).state = "revealing"

    def _on_ResultRevealed(self, args: dict[str, Any], time: int) -> None:
        self._story(args)

    def _on_ExecutorAborted(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.slashed.append((args["node_id"], Violation.ABORT, args["slashed"]))

    def _on_TaskAgreed(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.result, story.contested = args["result"], args["contested"]
        story.settled_at = time
        one, two = (self.label(story.drawn[lane]) for lane in args["lanes"])
        story.state = "decided" if story.contested else "agreed"
        text = f"{self._title(story)}: {one} and {two} agree after {story.latency} s"
        if story.contested:
            text = f"{text}; another result is outvoted"
        self._say(time, text, "plain" if story.contested else "good")

    def _on_TaskUndecided(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.undecided, story.settled_at, story.state = True, time, "undecided"
        self._say(time, f"{self._title(story)}: no two agree, the fee goes back", "bad")

    def _on_TaskUnavailable(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.unavailable, story.settled_at, story.state = True, time, "no inputs"
        self._say(time, f"{self._title(story)}: its inputs can't be had", "bad")

    def _on_ExecutorSlashed(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        violation = Violation(args["violation"])
        story.slashed.append((args["node_id"], violation, args["amount"]))

    def _on_TaskClosed(self, args: dict[str, Any], time: int) -> None:
        self._story(args).state = "closed"

    # -- appeals and money ---------------------------------------------------------------------

    def _on_AppealBegun(self, args: dict[str, Any], time: int) -> None:
        self._story(args).state = "appealed"

    def _on_TaskAppealed(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.appellants.append(args["appellant"])
        by = self._names.get(args["appellant"], args["appellant"])
        self._say(time, f"{self._title(story)}: {by} appeals", "bad")

    def _on_ResultAttested(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        by = self.label(args["verifier_id"])
        self._say(time, f"{self._title(story)}: {by} ran it again")

    def _on_VerdictContested(self, args: dict[str, Any], time: int) -> None:
        by = self._names.get(args["objector"], args["objector"])
        self._say(time, f"{self._title(self._story(args))}: {by} objects to the verdict", "bad")

    def _on_TaskJudged(self, args: dict[str, Any], time: int) -> None:
        story = self._story(args)
        story.verdict, story.overturned = args["result"], args["overturned"]
        self.seized += args["seized"]
        outcome = "overturned by verifiers" if story.overturned else "confirmed by verifiers"
        self._say(time, f"{self._title(story)}: {outcome}", "good")

    def _on_AppealLapsed(self, args: dict[str, Any], time: int) -> None:
        self._say(time, f"{self._title(self._story(args))}: no verdict in time", "bad")

    def _on_BondTaken(self, args: dict[str, Any], time: int) -> None:
        self.taken[self._event.address.lower()] += args["amount"]

    def _on_BondCredited(self, args: dict[str, Any], time: int) -> None:
        credited = self.credited.get(self._event.address.lower())
        if credited is None:
            return
        credited[args["account"]] += args["amount"]
        for node in self.nodes.values():
            if node.payout == args["account"]:
                self._credit(node.node_id, args["amount"], time)
                break

    def _on_BondWithdrawn(self, args: dict[str, Any], time: int) -> None:
        withdrawn = self.withdrawn.get(self._event.address.lower())
        if withdrawn is not None:
            withdrawn[args["account"]] += args["amount"]
            by = self._names.get(args["account"], args["account"])
            self._say(time, f"{by} withdrew {zoo(args['amount'])} ZOO", "good")
