# SPDX-License-Identifier: Apache-2.0
"""A second, plain statement of the rules of TrainingJobs, TrainingRounds, TrainingResults and
ViolationReports for one job, which has one state whoever stores it: each method changes the model,
or raises `Refused` with the reason why the call must revert.

The machine works on a copy, so that a refused call changes nothing here either. No history of it
lasts so long that a round can't be settled within the unbonding period any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agents.protocol.formulas import seated
from tests.contracts.stateful.machine import need
from tests.stage.contracts.system import (
    ACTIVE,
    AGGREGATE,
    APPEAL_BOND,
    BOND,
    CANCELLED,
    CHALLENGE,
    COMMIT,
    COMPLETED,
    COPIED,
    DISPUTED,
    FINALIZED,
    NONE,
    REVEAL,
    REWARD,
    TERMS,
    UNBONDING,
    VOID,
    Work,
)

OPEN, CONFIRMED, APPEALED, EXECUTED, DISMISSED, LAPSED = range(1, 7)
SEED_LIFETIME = 256

# The phases in which each contract has the round.
ROUNDS = (COMMIT, REVEAL)
RESULTS = (AGGREGATE, CHALLENGE, DISPUTED)


@dataclass
class Report:
    node: int
    violation: int
    round_id: int
    status: int = OPEN
    reporters: list[int] = field(default_factory=list)
    deposits: dict[int, int] = field(default_factory=dict)  # by verifier, not settled yet
    deadline: int = 0
    appellant: str = ""


@dataclass
class Announced:
    """That a verifier has found a node."""

    block: int
    time: int
    deposit: int


@dataclass
class Round:
    phase: int = NONE
    deadline: int = 0
    trainers: list[int] = field(default_factory=list)
    candidates: list[int] = field(default_factory=list)  # until the seats are drawn
    weights: dict[int, int] = field(default_factory=dict)
    aggregators: list[int] = field(default_factory=list)
    seed_block: int = 0
    seeded: bool = False
    audit_block: int = 0
    audited: bool = False
    committed: dict[int, Work | None] = field(default_factory=dict)  # None: copied from another
    revealed: list[int] = field(default_factory=list)
    flagged: set[int] = field(default_factory=set)
    invalid: set[int] = field(default_factory=set)
    convicted: set[int] = field(default_factory=set)  # also those that were cleared again
    penalized: set[int] = field(default_factory=set)
    barred: set[int] = field(default_factory=set)
    open_reports: int = 0
    fallback: bool = False
    proposer: int = 0
    nodes: list[int] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)
    model: bytes = b""
    attesters: list[int] = field(default_factory=list)
    challenger: str = ""
    challenged: bool = False
    attempt: int = 0
    # Announcements that are not opened, by verifier and node; who announced and lost its deposit;
    # what was found, with the block, the verifier and the deposit of the oldest announcement (0:
    # reported before any).
    announced: dict[tuple[int, int], Announced] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)
    found: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    left: int = 0  # of the challenge window when the result was challenged
    pool: int = 0
    for_trainers: int = 0  # of the pool

    @property
    def confirmed(self) -> bool:
        return len(self.attesters) >= 2 and 3 * self.attested >= 2 * self.verifier_stake

    @property
    def attested(self) -> int:
        return sum(self.weights[v] for v in self.attesters)

    @property
    def verifier_stake(self) -> int:
        return sum(self.weights.values())

    def payable(self, node: int) -> bool:
        return node in self.revealed and node not in self.invalid


@dataclass
class Model:
    """One job. `now` and `block` are set before each call."""

    escrow: int
    owner: str
    limit: int
    seats: int
    operators: dict[int, str]  # of verifiers
    carried: int = 0  # what spoiled rounds did not pay
    for_trainers: int = 0  # of it
    now: int = 0
    block: int = 0
    status: int = ACTIVE
    cancel_requested: bool = False
    done: int = 0
    model: bytes = TERMS["genesis_model"]
    rounds: list[Round] = field(default_factory=list)
    reports: dict[tuple[int, int, int], Report] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)
    rejoined: dict[int, int] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)  # by node
    held: dict[int, int] = field(default_factory=dict)  # by node, until it has no lock
    aside: dict[tuple[int, int], int] = field(default_factory=dict)  # by round and node
    round_bonds: dict[str, int] = field(default_factory=dict)
    report_bonds: dict[str, int] = field(default_factory=dict)
    # Blocks of announcements that are not opened, and finders, by (account,) round and attempt.
    deposits: dict[tuple[str, int, int], int] = field(default_factory=dict)
    finders: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)

    @property
    def last(self) -> Round:
        return self.rounds[-1] if self.rounds else Round()

    def round(self, round_id: int) -> Round:
        return self.rounds[round_id - 1] if 0 < round_id <= len(self.rounds) else Round()

    # Phases

    def _enter(self, phase: int, window: str) -> None:
        self.last.phase = phase
        self.last.deadline = self.now + TERMS[window]

    def _void(self) -> None:
        self.last.phase, self.last.deadline = VOID, 0
        self._close(self.last.pool, bool(self.last.attempt))
        self.for_trainers += self.last.for_trainers
        self._end_if_due()

    def _close(self, unpaid: int, spoiled: bool) -> int:
        kept = unpaid if spoiled else min(unpaid, self.last.pool - REWARD)
        self.carried += kept
        self.escrow += unpaid - kept
        return kept

    def _end_if_due(self) -> None:
        if self.done == self.limit:
            self.status = COMPLETED
        elif self.cancel_requested:
            self.status = CANCELLED

    def tick(self, mine: tuple[int, ...]) -> bool:
        """Whether an overdue phase of the contract that asks, one of `mine`, moved on."""
        r = self.last
        if self.now <= r.deadline or r.phase not in mine or r.phase == CHALLENGE:
            return False
        if r.phase == COMMIT:
            self._leave_commit()
        elif r.phase == REVEAL:
            self._leave_reveal()
        elif r.phase == AGGREGATE and not r.fallback:
            r.fallback = True
            self._enter(AGGREGATE, "aggregate_s")
        else:
            if r.phase == DISPUTED:
                self._credit(self.round_bonds, self.owner, BOND)
                r.challenger = ""
                if r.confirmed:
                    self._resume(r.deadline)
                    return True
            self._void()
        return True

    def _resume(self, since: int) -> None:
        """The challenge failed: what was left of the window, half of one at least."""
        self.last.phase = CHALLENGE
        self.last.deadline = since + max(self.last.left, TERMS["challenge_s"] // 2)

    def _leave_commit(self) -> None:
        if self.last.committed:
            self._enter(REVEAL, "reveal_s")
        else:
            self._void()

    def _leave_reveal(self) -> None:
        if self.last.revealed:
            self.last.audit_block = self.block + 1
            self._enter(AGGREGATE, "aggregate_s")
        else:
            self._void()

    @staticmethod
    def _credit(book: dict[str, int], account: str, amount: int) -> None:
        book[account] = book.get(account, 0) + amount

    def _is_over(self) -> bool:
        return self.last.phase in (NONE, FINALIZED, VOID)

    # Calls on TrainingJobs, TrainingRounds and TrainingResults

    def advance_rounds(self) -> None:
        need(self.tick(ROUNDS), "rounds: nothing to advance")

    def advance_results(self) -> None:
        need(self.tick(RESULTS), "results: nothing to advance")

    def cancel(self) -> None:
        need(self.status == ACTIVE, "jobs: job not active")
        need(not self.cancel_requested, "jobs: cancel requested")
        self.cancel_requested = True
        if self._is_over():
            self._end_if_due()

    def open_round(
        self, trainers: list[int], weights: dict[int, int], aggregators: list[int]
    ) -> None:
        need(self._is_over(), "jobs: round open")
        need(self.status == ACTIVE, "jobs: job not active")
        present = [t for t in trainers if t not in self.absent]
        need(bool(present and weights and aggregators), "rounds: too few nodes")
        need(self.escrow >= REWARD, "pool: escrow too low")
        drawn = len(present) > self.seats
        self.rounds.append(
            Round(
                trainers=[] if drawn else present,
                candidates=present if drawn else [],
                weights=weights,
                aggregators=aggregators,
                seed_block=self.block + 1,
                pool=REWARD + self.carried,
                for_trainers=self.for_trainers,
            )
        )
        self._enter(COMMIT, "commit_s")
        self.escrow -= REWARD
        self.carried = self.for_trainers = 0

    def seat(self, seed_of: Callable[[int], bytes]) -> None:
        """`seed_of`: the seed that a block gives."""
        r = self.last
        need(bool(r.candidates) and r.phase == COMMIT, "rounds: no seats to draw")
        need(self.now <= r.deadline, "rounds: too late")
        self._need_seed()
        r.trainers = list(seated(seed_of(r.seed_block), r.candidates, r.candidates, self.seats)[0])
        r.candidates = []

    def _need_seed(self) -> None:
        r = self.last
        if not r.seeded:
            need(self.block > r.seed_block, "randomness: too early")
            need(self.block - r.seed_block <= SEED_LIFETIME, "rounds: seed expired")
            r.seeded = True

    def capture(self) -> None:
        r = self.last
        need(not r.seeded, "rounds: no seed due")
        r.seeded, r.seed_block = self._captured(r.seed_block)

    def capture_audit(self) -> None:
        r = self.last
        need(not r.audited, "results: no seed due")
        r.audited, r.audit_block = self._captured(r.audit_block)

    def _captured(self, target: int) -> tuple[bool, int]:
        """Whether the seed of a block is known, and the block: the next one if it is forgotten."""
        need(target != 0, "randomness: not requested")
        need(self.block > target, "randomness: too early")
        known = self.block - target <= SEED_LIFETIME
        return known, target if known else self.block + 1

    def commit(self, node: int, work: Work | None) -> None:
        r = self.last
        need(r.phase == COMMIT, "rounds: not in commit")
        need(self.now <= r.deadline, "rounds: too late")
        need(node in r.trainers, "rounds: not expected")
        need(node not in r.committed, "rounds: already committed")
        self._need_seed()
        r.committed[node] = work
        if len(r.committed) == len(r.trainers):
            self._leave_commit()

    def reveal(self, node: int, work: Work) -> None:
        self.tick(ROUNDS)
        r = self.last
        need(r.phase == REVEAL, "rounds: not in reveal")
        need(node not in r.revealed and r.committed.get(node) == work, "rounds: bad opening")
        for other in r.revealed:
            opened = r.committed[other]
            if opened is not None and opened.content == work.content:
                r.flagged |= {other, node}
        r.revealed.append(node)
        if len(r.revealed) == len(r.committed):
            self._leave_reveal()

    def slash_unrevealed(self, round_id: int, node: int) -> None:
        if round_id == len(self.rounds):
            self.tick(ROUNDS)
        r = self.round(round_id)
        need(r.phase > REVEAL, "rounds: reveal not over")
        need(node in r.committed, "rounds: not committed")
        need(node not in r.revealed, "rounds: revealed")
        need(node not in r.penalized, "rounds: already slashed")
        r.penalized.add(node)

    def propose(
        self, node: int, acts: bool, duty: int, nodes: list[int], shares: list[int], model: bytes
    ) -> None:
        self.tick(RESULTS)
        r = self.last
        need(r.phase == AGGREGATE, "results: not in aggregate")
        if r.fallback:
            # Trainers as long as nothing was proposed.
            snapshot = {*r.weights, *r.aggregators, *(r.trainers if not r.attempt else ())}
            need(node in snapshot, "results: not in snapshot")
            need(node not in r.barred, "results: barred")
        else:
            need(node == duty, "results: not on duty")
        need(acts, "results: not operator")
        need(all(n in r.revealed for n in nodes if n), "results: node not payable")
        r.proposer, r.nodes, r.shares, r.model = node, nodes, shares, model
        r.attesters, r.challenged = [], False
        r.attempt += 1
        self._enter(CHALLENGE, "challenge_s")

    def _in_challenge(self) -> None:
        need(self.last.phase in (CHALLENGE, DISPUTED), "results: not in challenge")
        need(self.now <= self.last.deadline, "results: too late")

    def attest(self, verifier: int, acts: bool) -> None:
        self._in_challenge()
        need(acts, "results: not operator")
        need(verifier in self.last.weights, "results: not a verifier")
        need(verifier not in self.last.attesters, "results: already attested")
        self.last.attesters.append(verifier)

    def announce_challenge(self, account: str) -> None:
        """Of the newest result, before or after it was judged."""
        key = (account, len(self.rounds), self.last.attempt)
        need(key not in self.deposits, "announcements: already announced")
        self.deposits[key] = self.block

    def challenge(self, account: str) -> None:
        self._in_challenge()
        key = (account, len(self.rounds), self.last.attempt)
        opened = self.deposits.get(key, self.block) < self.block
        if opened:
            block = self.deposits.pop(key)
            self._credit(self.round_bonds, account, BOND)
            if block < self.finders.get(key[1:], (self.block, ""))[0]:
                self.finders[key[1:]] = block, account
        if self.last.challenged:
            need(opened, "results: already challenged")
            return
        self.finders.setdefault(key[1:], (self.block, ""))
        self.last.challenger, self.last.challenged = account, True
        self.last.left = self.last.deadline - self.now
        self._enter(DISPUTED, "dispute_s")

    def resolve(self, upheld: bool) -> None:
        r = self.last
        need(r.phase == DISPUTED, "results: not disputed")
        need(self.now <= r.deadline, "results: too late")
        self._credit(self.round_bonds, r.challenger if upheld else self.owner, BOND)
        r.challenger = ""
        if upheld:
            r.barred.add(r.proposer)
            r.proposer, r.attesters, r.fallback = 0, [], True
            self._enter(AGGREGATE, "aggregate_s")
        else:
            self._resume(self.now)

    def can_finalize(self) -> bool:
        r = self.last
        if r.phase != CHALLENGE:
            return False
        early = self.now + TERMS["challenge_s"] // 2 < r.deadline
        enough = r.confirmed and (not early or r.attested == sum(r.weights.values()))
        return (r.open_reports == 0 and enough) or self.now > r.deadline

    def _locked(self, node: int) -> bool:
        return any(
            x.node == node and x.status in (CONFIRMED, APPEALED) for x in self.reports.values()
        )

    def _settle_share(self, report: Report, guilty: bool) -> None:
        """A report on a node has ended."""
        node, round_ = report.node, self.round(report.round_id)
        amount = self.aside.pop((report.round_id, node), 0)
        if guilty:
            self.carried += amount
            self.for_trainers += amount
        else:
            round_.invalid.discard(node)
            self.pending[node] = self.pending.get(node, 0) + amount
        if not self._locked(node):
            self.pending[node] = self.pending.get(node, 0) + self.held.pop(node, 0)

    def finalize(self, right: bool) -> None:
        need(self.can_finalize(), "results: not finalizable")
        need(right, "results: wrong contributions")
        r = self.last
        paid = dict.fromkeys([*r.nodes, *r.attesters, r.proposer], 0)
        cuts = 0
        for verifier in r.attesters:
            cut = (
                (r.pool - r.for_trainers)
                * TERMS["verifier_bps"]
                // 10_000
                * r.weights[verifier]
                // r.attested
            )
            paid[verifier] += cut
            cuts += cut
        fee = (r.pool - r.for_trainers) * TERMS["aggregator_bps"] // 10_000
        paid[r.proposer] += fee
        pot = r.pool - cuts - fee
        total, round_id = sum(r.shares), len(self.rounds)
        spent = 0
        for node, share in zip(r.nodes, r.shares, strict=True):
            amount = pot * share // total if total else 0
            if node not in r.invalid:
                paid[node] += amount
            elif any(self.reports[k].status in (CONFIRMED, APPEALED) for k in self._of(node)):
                self.aside[round_id, node] = amount
                spent += amount
        for node, amount in paid.items():
            book = self.held if self._locked(node) else self.pending
            book[node] = book.get(node, 0) + amount
        self.for_trainers += self._close(r.pool - sum(paid.values()) - spent, bool(r.invalid))
        r.phase, r.deadline = FINALIZED, 0
        self.model = r.model
        self.done += 1
        self._end_if_due()

    def _of(self, node: int) -> list[tuple[int, int, int]]:
        """The reports on a node in the newest round."""
        return [k for k in self.reports if k[:2] == (len(self.rounds), node)]

    def mark_absent(self, node: int) -> None:
        need(node not in self.absent, "rounds: already absent")
        recent = range(len(self.rounds), self.rejoined.get(node, 0), -1)
        finalized = [self.round(i) for i in recent if self.round(i).phase == FINALIZED]
        chances = [r for r in finalized if node in r.trainers][:3]
        idle = not any(node in r.committed for r in chances)
        need(len(chances) >= 3 and idle, "rounds: not absent")
        self.absent.add(node)

    def rejoin(self, node: int) -> None:
        need(node in self.absent, "rounds: not absent")
        self.absent.remove(node)
        self.rejoined[node] = len(self.rounds)

    # Calls on ViolationReports

    def announce(self, verifier: int, node: int, deposit: int, acts: bool) -> None:
        r = self.last
        need(deposit > 0, "reports: bad deposit")
        need(acts, "reports: not operator")
        need(verifier in r.weights, "reports: not a verifier")
        need((verifier, node) not in r.announced, "announcements: already announced")
        r.announced[verifier, node] = Announced(self.block, self.now, deposit)
        account = self.operators[verifier]
        used = min(self.report_bonds.get(account, 0), deposit)
        self._credit(self.report_bonds, account, -used)

    def _open(self, verifier: int, node: int) -> int:
        """The deposit of the announcement that was opened; 0 if there was none."""
        r = self.last
        made = r.announced.get((verifier, node))
        if made is None or made.block == self.block:
            return 0
        del r.announced[verifier, node]
        if made.block < r.found.get(node, (self.block, 0, 0))[0]:
            r.found[node] = made.block, verifier, made.deposit
        return made.deposit

    def open_announcement(self, verifier: int, node: int) -> None:
        states = {self.reports[key].status for key in self._of(node)}
        need(bool(states & {CONFIRMED, APPEALED, EXECUTED}), "reports: not confirmed")
        deposit = self._open(verifier, node)
        need(deposit > 0, "reports: not announced")
        self._credit(self.report_bonds, self.operators[verifier], deposit)

    def expire(self, round_id: int, verifier: int, node: int, own: bool) -> None:
        """`own`: by the verifier's operator."""
        r = self.round(round_id)
        need((verifier, node) in r.announced, "announcements: not announced")
        made, returned = r.announced[verifier, node], self._is_unjudged(r)
        need(
            self.now > made.time + (0 if returned and own else UNBONDING),
            "announcements: too early",
        )
        del r.announced[verifier, node]
        r.expired.add(verifier)
        to = self.operators[verifier] if returned else self.owner
        self._credit(self.report_bonds, to, made.deposit)

    @staticmethod
    def _is_unjudged(r: Round) -> bool:
        """Whether a round is over without two thirds behind its result."""
        judged = 3 * r.attested >= 2 * r.verifier_stake
        return r.phase == VOID or (r.phase == FINALIZED and not judged)

    def _settle_reporters(self, report: Report, returned: bool) -> None:
        for verifier, deposit in report.deposits.items():
            to = self.operators[verifier] if returned else self.owner
            self._credit(self.report_bonds, to, deposit)
        report.deposits.clear()

    def pay_finder(self, report: Report, bounty: int, payout: str) -> None:
        """Of the half of a slash that is its finder's."""
        share = min(bounty, self.round(report.round_id).found[report.node][2])
        self._credit(self.report_bonds, payout, share)
        self._credit(self.report_bonds, self.owner, bounty - share)

    def report(self, verifier: int, node: int, violation: int, acts: bool) -> None:
        r, round_id = self.last, len(self.rounds)
        running = r.phase in (CHALLENGE, DISPUTED) and self.now <= r.deadline
        need(running, "reports: not in challenge")
        need(node in r.revealed, "reports: not revealed")
        need(violation != COPIED or node in r.flagged, "reports: not a duplicate")
        need(acts, "reports: not operator")
        need(verifier in r.weights, "reports: not a verifier")
        decided = any(self.reports[k].status > OPEN for k in self._of(node))
        need(not decided, "reports: already confirmed")
        key = (round_id, node, violation)
        report = self.reports.get(key) or Report(node, violation, round_id)
        need(verifier not in report.reporters, "reports: already reported")
        self.reports[key] = report
        report.deposits[verifier] = self._open(verifier, node)
        r.found.setdefault(node, (self.block, 0, 0))
        before = self._has_a_third(report)
        report.reporters.append(verifier)
        r.open_reports += self._has_a_third(report) and not before
        weight = sum(r.weights[v] for v in report.reporters)
        if 3 * weight >= 2 * r.verifier_stake and len(report.reporters) >= 2:
            report.status, report.deadline = CONFIRMED, self.now + TERMS["appeal_s"]
            self._settle_reporters(report, True)
            r.open_reports -= 1
            r.invalid.add(node)
            r.convicted.add(node)
            other = self.reports.get((round_id, node, 5 - violation))
            if other and other.status == OPEN:
                self._settle_reporters(other, True)
                other.status = LAPSED
                r.open_reports -= self._has_a_third(other)

    def _has_a_third(self, report: Report) -> bool:
        r = self.round(report.round_id)
        return 3 * sum(r.weights[v] for v in report.reporters) >= r.verifier_stake

    def earns_bounty(self, report: Report) -> bool:
        """Whether the finder is paid: all nodes it reported in the round are guilty, and no
        announcement of its is left."""
        round_ = self.round(report.round_id)
        _, finder, _ = round_.found[report.node]
        claims = [r for r in self.reports.values() if r.round_id == report.round_id]
        return (
            finder != 0
            and finder not in round_.expired
            and all(verifier != finder for verifier, _ in round_.announced)
            and all(r.node in round_.convicted for r in claims if finder in r.reporters)
        )

    def lapse(self, report: Report) -> None:
        need(report.status == OPEN, "reports: not open")
        need(self.round(report.round_id).phase >= FINALIZED, "reports: round not over")
        self._settle_reporters(report, self._is_unjudged(self.round(report.round_id)))
        report.status = LAPSED

    def appeal(self, report: Report, account: str) -> None:
        need(report.status == CONFIRMED, "reports: not confirmed")
        need(self.now <= report.deadline, "reports: too late")
        report.status, report.appellant = APPEALED, account
        report.deadline = self.now + TERMS["dispute_s"]

    def resolve_appeal(self, report: Report, upheld: bool) -> None:
        need(report.status == APPEALED, "reports: not appealed")
        need(self.now <= report.deadline, "reports: too late")
        winner = report.appellant if upheld else self.owner
        self._credit(self.report_bonds, winner, APPEAL_BOND)
        report.status = DISMISSED if upheld else EXECUTED
        self._settle_share(report, guilty=not upheld)

    def execute(self, report: Report) -> None:
        need(report.status == CONFIRMED, "reports: not confirmed")
        need(self.now > report.deadline, "reports: appeal window open")
        report.status = EXECUTED
        self._settle_share(report, guilty=True)

    def dismiss(self, report: Report) -> None:
        need(report.status == APPEALED, "reports: not appealed")
        need(self.now > report.deadline, "reports: appeal pending")
        self._credit(self.report_bonds, report.appellant, APPEAL_BOND)
        report.status = DISMISSED
        self._settle_share(report, guilty=False)
