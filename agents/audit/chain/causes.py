# SPDX-License-Identifier: Apache-2.0
"""Why a node may be slashed: every event that must come with a slash, and what it then looks like.

Rule: the cause of a slash is derived from the history, not read off the slash: who failed to reveal
what it had committed, whose report was confirmed, which executor missed a deadline or was alone
with its result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from eth_utils.address import to_checksum_address

from agents.audit.chain.deposits import DEPOSITS, Deposits
from agents.audit.sources.record import Record
from agents.protocol.formulas import announcement_key, report_id
from agents.protocol.numbers import NOBODY, Violation
from agents.runtime.contracts import Event


@dataclass(frozen=True)
class Cause:
    """Why a node is slashed. `reporter` None: whoever sent the transaction.

    `offence`: when it happened, in seconds. A cause outside of jobs has job and round 0.
    """

    event: Event
    job_id: int
    round_id: int
    node: int
    violation: int
    reporter: str | None
    amount: int | None
    offence: int


class Payouts(Protocol):
    """What causes need of the replayed registry. `odd` collects what can't be followed."""

    odd: list[str]

    def payout(self, node: int, at: Event) -> str:
        """Where a node was paid when an event happened."""
        ...


def causes(record: Record, registry: Payouts) -> Iterator[Cause]:
    """Every event that must come with a slash."""
    yield from _of_silence(record, registry)
    yield from _of_challenges(record, registry)
    yield from _of_reports(record, registry)
    yield from _of_tasks(record, registry)
    yield from _of_benchmarks(record)
    yield from _of_scores(record, registry)


def _opened_at(record: Record, job_id: int, round_id: int, event: Event) -> int:
    for opened in record.all("RoundOpened"):
        if (opened.args["job_id"], opened.args["round_id"]) == (job_id, round_id):
            return record.time(opened)
    return record.time(event)


def _of_silence(record: Record, registry: Payouts) -> Iterator[Cause]:
    committed, revealed = (
        {(e.args["job_id"], e.args["round_id"], e.args["node_id"]) for e in record.all(name)}
        for name in ("Committed", "Revealed")
    )
    for event in record.all("UnrevealedSlashed"):
        args = event.args
        place_ = (args["job_id"], args["round_id"], args["node_id"])
        if place_ not in committed or place_ in revealed:
            registry.odd.append(
                f"UnrevealedSlashed is of node {place_[2]} in job {place_[0]} round {place_[1]}, "
                "where it did not fail to reveal what it had committed."
            )
        offence = _opened_at(record, *place_[:2], event)
        yield Cause(event, *place_, int(Violation.NO_REVEAL), None, args["amount"], offence)


FINDING = ("Announced", "AnnouncementOpened")


class Finders:
    """Who found what first, by the events of one contract with announcements."""

    def __init__(self, registry: Payouts, contract: str) -> None:
        self._registry, self._contract = registry, contract
        self._blocks: dict[bytes, set[int]] = defaultdict(set)  # by scope
        self._found: dict[bytes, tuple[int, int]] = {}  # by subject: block and finder

    def take(self, event: Event) -> int:
        """Follow an event of `FINDING`: how much its scope's announcements change by; 0 when the
        other contract logged it."""
        args = event.args
        if event.address != self._contract:
            return 0
        if event.name == "Announced":
            self._blocks[args["scope"]].add(event.block)
            return 1
        block, subject = args["announced_in"], args["subject"]
        if block not in self._blocks[args["scope"]] or block >= event.block:
            self._registry.odd.append(
                f"AnnouncementOpened in block {event.block}: nobody announced it in block {block}."
            )
        if subject not in self._found or block < self._found[subject][0]:
            self._found[subject] = block, args["finder"]
        return -1

    def publish(self, subject: bytes, event: Event) -> None:
        """Somebody said in public what was found."""
        self._found.setdefault(subject, (event.block, 0))

    def of(self, subject: bytes) -> int:
        """The finder; 0 for nobody."""
        return self._found.get(subject, (0, 0))[1]

    def since(self, subject: bytes) -> int:
        """The block in which the finder announced it; 0 for nobody."""
        return self._found.get(subject, (0, 0))[0]


def _of_challenges(record: Record, registry: Payouts) -> Iterator[Cause]:
    proposer: dict[tuple[int, int], int] = {}
    result: dict[tuple[int, int], bytes] = {}
    finders = Finders(registry, record.network.results.address)
    for event in record.all(*FINDING, "ResultProposed", "Challenged", "ChallengeResolved"):
        args = event.args
        if event.name in FINDING:
            finders.take(event)
            continue
        key = (args["job_id"], args["round_id"])
        if event.name == "ResultProposed":
            proposer[key], result[key] = args["proposer"], args["result_hash"]
        elif event.name == "Challenged":
            finders.publish(result.get(key, b""), event)
        elif args["upheld"]:
            found = finders.of(result.get(key, b""))
            who = to_checksum_address(found.to_bytes(20, "big")) if found else NOBODY
            node = proposer.get(key, 0)
            offence = _opened_at(record, *key, event)
            yield Cause(event, *key, node, int(Violation.BAD_RESULT), who, None, offence)


def _of_reports(record: Record, registry: Payouts) -> Iterator[Cause]:
    about: dict[bytes, dict[str, Any]] = {}
    reporters: dict[bytes, list[int]] = defaultdict(list)
    waiting: set[bytes] = set()
    unconfirmed: dict[bytes, int] = defaultdict(int)  # by round and verifier
    contract = record.network.reports.address
    finders, deposits = Finders(registry, contract), Deposits(registry.odd)

    def vindicate(key: bytes) -> None:
        waiting.discard(key)
        place_ = about[key]["job_id"], about[key]["round_id"]
        for verifier in reporters[key]:
            unconfirmed[announcement_key(*place_, verifier)] -= 1

    names = ("ViolationReported", "ReportConfirmed", "ReportLapsed", "ReportExecuted")
    for event in record.all(*FINDING, *DEPOSITS, *names, "FalseReportSlashed"):
        args = event.args
        if event.name in FINDING:
            unconfirmed[args["scope"]] += finders.take(event)
            continue
        if event.name == "ReportAnnounced":
            deposits.announced(event)
            continue
        if event.name == "DepositSettled":
            deposits.settled(event)
            continue
        key = args["report_id"]
        if event.name == "ViolationReported":
            if key not in about:
                about[key] = args
                waiting.add(key)
            reporters[key].append(args["verifier_id"])
            place_ = args["job_id"], args["round_id"]
            unconfirmed[announcement_key(*place_, args["verifier_id"])] += 1
            finders.publish(announcement_key(*place_, args["node_id"]), event)
            continue
        if key not in about:
            continue
        first = about[key]
        job_id, round_id = first["job_id"], first["round_id"]
        if event.name == "ReportExecuted" and args["node_id"] != first["node_id"]:
            registry.odd.append(
                f"ReportExecuted is of node {args['node_id']}, its report is of node "
                f"{first['node_id']}."
            )
        if event.name == "ReportConfirmed":
            vindicate(key)
            kind = int(Violation.INVALID) + int(Violation.COPIED) - first["violation"]
            other = report_id(job_id, round_id, first["node_id"], kind)
            if other in waiting:
                vindicate(other)
        elif event.name == "ReportLapsed":
            waiting.discard(key)
        elif event.name == "FinderPaid":
            subject = announcement_key(job_id, round_id, first["node_id"])
            scope = announcement_key(job_id, round_id, args["verifier_id"])
            deposits.check_pay(event, scope, finders.since(subject))
        elif event.name == "ReportExecuted":
            lead = finders.of(announcement_key(job_id, round_id, first["node_id"]))
            right = lead and unconfirmed[announcement_key(job_id, round_id, lead)] == 0
            who = contract if right else NOBODY
            node, kind = first["node_id"], first["violation"]
            offence = _opened_at(record, job_id, round_id, event)
            yield Cause(event, job_id, round_id, node, kind, who, args["amount"], offence)
        else:
            who = registry.payout(first["node_id"], event)
            kind = int(Violation.FALSE_REPORT)
            node = args["verifier_id"]
            offence = _opened_at(record, job_id, round_id, event)
            yield Cause(event, job_id, round_id, node, kind, who, args["amount"], offence)


def _of_tasks(record: Record, registry: Payouts) -> Iterator[Cause]:
    """Executors who missed a deadline, or revealed a result that was found to be wrong."""
    appeals = record.network.appeals.address
    drawn: dict[int, dict[int, int]] = defaultdict(dict)  # by task: node -> what it must do next
    deadline: dict[int, int] = defaultdict(int)
    tags: dict[int, dict[int, bytes]] = defaultdict(dict)
    agreed: dict[int, set[int]] = defaultdict(set)
    decided: dict[int, int] = defaultdict(int)
    paid = {event.tx_hash for event in record.all("TaskJudged") if event.args["overturned"]}
    paid |= {event.tx_hash for event in record.all("ObjectionResolved") if event.args["upheld"]}
    names = ("ExecutorDrawn", "ResultCommitted", "RevealOpened", "ResultRevealed", "TaskAgreed")
    ends = ("TaskUndecided", "ExecutorAborted", "ExecutorSlashed", "FalseVerdictSlashed")
    for event in record.all(*names, *ends):
        args = event.args
        task, node = args["task_id"], args.get("node_id", 0)
        if event.name == "ExecutorDrawn":
            drawn[task][node] = args["lane"]
            deadline[task] = args["deadline"]
        elif event.name == "RevealOpened":
            deadline[task] = args["deadline"]
        elif event.name == "ResultRevealed":
            tags[task][node] = args["tag"]
        elif event.name == "TaskAgreed":
            lanes = {lane: who for who, lane in drawn[task].items()}
            agreed[task] = {lanes.get(lane, 0) for lane in args["lanes"]}
            decided[task] = record.time(event)
            shown = {tags[task].get(who) for who in agreed[task]}
            if len(agreed[task]) != 2 or len(shown) != 1 or None in shown:
                registry.odd.append(f"Task {task} is agreed on by lanes whose tags differ.")
        elif event.name == "TaskUndecided":
            decided[task] = record.time(event)
            if len(set(tags[task].values())) != len(tags[task]):
                registry.odd.append(f"Task {task} is undecided although two tags are equal.")
        elif event.name == "ExecutorAborted":
            late = node in drawn[task] and node not in tags[task]
            if not late or record.time(event) <= deadline[task]:
                registry.odd.append(f"ExecutorAborted: node {node} missed nothing in task {task}.")
            kind = int(Violation.ABORT)
            yield Cause(event, 0, 0, node, kind, NOBODY, args["slashed"], deadline[task])
        elif event.name == "ExecutorSlashed":
            who = appeals if event.address == appeals and event.tx_hash in paid else NOBODY
            if node not in tags[task]:
                registry.odd.append(
                    f"ExecutorSlashed: node {node} revealed nothing in task {task}."
                )
            framed = node in agreed[task]
            kind = int(Violation.COLLUSION if framed else Violation.REDUNDANCY_MISMATCH)
            yield Cause(event, 0, 0, node, kind, who, args["amount"], decided[task])
        elif event.name == "FalseVerdictSlashed":
            who = appeals if event.tx_hash in paid else NOBODY
            kind, liar = int(Violation.FALSE_REPORT), args["verifier_id"]
            yield Cause(event, 0, 0, liar, kind, who, args["amount"], decided[task])


def _of_benchmarks(record: Record) -> Iterator[Cause]:
    """Verifiers whose verdict on a benchmark the committee found false, and nodes whose answer."""
    given: dict[tuple[int, int, int], int] = {}
    answered: dict[tuple[int, int], int] = {}
    kind = int(Violation.FALSE_REPORT)
    for event in record.all(
        "BenchmarkSubmitted",
        "BenchmarkVerdictGiven",
        "BenchmarkVerdictSlashed",
        "FalseBenchmarkSlashed",
    ):
        args = event.args
        place_ = args["node_id"], args["attempt"]
        if event.name == "BenchmarkSubmitted":
            answered[place_] = record.time(event)
            continue
        if event.name == "FalseBenchmarkSlashed":
            offence = answered.get(place_, record.time(event))
            yield Cause(event, 0, 0, place_[0], kind, NOBODY, args["amount"], offence)
            continue
        vote = (*place_, args["verifier_id"])
        if event.name == "BenchmarkVerdictGiven":
            given[vote] = record.time(event)
            continue
        offence = given.get(vote, record.time(event))
        yield Cause(event, 0, 0, vote[2], kind, NOBODY, args["amount"], offence)


def _of_scores(record: Record, registry: Payouts) -> Iterator[Cause]:
    """Validators whose revealed scores the committee found false."""
    until: dict[tuple[int, int], int] = {}
    open_: set[tuple[int, int, int]] = set()
    for event in record.all("ScoringOpened", "ScoresRevealed", "ScoresOverruled"):
        args = event.args
        place_ = args["job_id"], args["round_id"]
        if event.name == "ScoringOpened":
            until[place_] = args["commit_deadline"]
            continue
        vote = (*place_, args["verifier_id"])
        if event.name == "ScoresRevealed":
            open_.add(vote)
            continue
        if vote not in open_:
            registry.odd.append(
                f"ScoresOverruled is of verifier {vote[2]} in job {vote[0]} round {vote[1]}, "
                "where it had revealed nothing, or was overruled before."
            )
        open_.discard(vote)
        time = record.time(event)
        offence, kind = min(until.get(place_, time), time), int(Violation.FALSE_REPORT)
        yield Cause(event, *vote, kind, NOBODY, args["amount"], offence)
