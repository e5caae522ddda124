# SPDX-License-Identifier: Apache-2.0
"""A second, plain statement of the rules of ScoreConsensus, and of what the reward pool makes of
them, for one job whose rounds start in AGGREGATE: each method changes the model, or raises
`Refused` with the reason why the call must revert.

Scores are kept as they were revealed, by verifier; nothing is packed, and medians are searched."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.contracts.stateful.machine import need
from tests.stage.contracts.scores import (
    BPS,
    COMMIT_S,
    NO_SCORES,
    REVEAL_S,
    SCALE,
    SCORE_CLOSED,
    SCORE_COMMIT,
    SCORE_REVEAL,
    median,
)
from tests.stage.contracts.system import AGGREGATE, CHALLENGE, FINALIZED, NONE, REWARD, TERMS, VOID

OPEN_BIT = 2
Row = tuple[int, ...]


@dataclass
class Book:
    """What all jobs share: what was credited or held, by node id, whether opening is paused, and
    whose stake is locked by a confirmed report. What such a node earns elsewhere is held."""

    pending: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    paused: bool = False
    convicted: set[int] = field(default_factory=set)

    def credit(self, node: int, amount: int) -> None:
        account = self.held if node in self.convicted else self.pending
        account[node] = account.get(node, 0) + amount


@dataclass
class Scoring:
    commit_deadline: int = 0
    reveal_deadline: int = 0
    commitments: dict[int, Row] = field(default_factory=dict)  # by verifier, in order
    rows: dict[int, Row] = field(default_factory=dict)
    closed: bool = False
    consensus: list[int] = field(default_factory=list)
    best: int = 0  # trust


@dataclass
class Round:
    nodes: list[int] = field(default_factory=list)  # in the order of the snapshot
    begun: int = 0  # when its reveals were over
    phase: int = NONE
    deadline: int = 0
    fallback: bool = False
    proposer: int = 0
    listed: list[int] = field(default_factory=list)
    contributions: list[int] = field(default_factory=list)
    attesters: list[int] = field(default_factory=list)
    invalid: set[int] = field(default_factory=set)
    samples: dict[int, bytes] = field(default_factory=dict)
    scoring: Scoring = field(default_factory=Scoring)

    def contribution(self, node: int) -> int:
        return dict(zip(self.listed, self.contributions, strict=True)).get(node, 0)

    @property
    def shares(self) -> dict[int, int]:
        """The consensus by node id."""
        return dict(zip(self.nodes, self.scoring.consensus, strict=True))


@dataclass
class JobModel:
    """One job. `now` is set before each call; `weights` are those of the verifiers."""

    book: Book
    weights: dict[int, int]
    escrow: int
    adopted: bool
    now: int = 0
    rounds: list[Round] = field(default_factory=list)
    trusts: dict[int, int] = field(default_factory=dict)
    last_scored: int = 0
    paid: int = 0
    aside: int = 0
    carried: int = 0  # what spoiled rounds did not pay
    for_trainers: int = 0  # of it
    pool: int = 0  # of the newest round
    alone: int = 0  # the part of it for trainers alone

    @property
    def last(self) -> Round:
        return self.rounds[-1] if self.rounds else Round()

    @property
    def stake(self) -> int:
        return sum(self.weights.values())

    @property
    def running(self) -> bool:
        return self.last.phase in (AGGREGATE, CHALLENGE)

    # Rounds, as far as they matter here

    def open(self, nodes: list[int]) -> None:
        need(self.last.phase in (NONE, FINALIZED, VOID), "jobs: round open")
        need(self.escrow >= REWARD, "pool: escrow too low")
        self.escrow -= REWARD
        self.pool, self.carried = REWARD + self.carried, 0
        self.alone, self.for_trainers = self.for_trainers, 0
        self.rounds.append(Round(nodes=nodes, begun=self.now))
        self._enter(AGGREGATE, "aggregate_s")

    def _enter(self, phase: int, window: str) -> None:
        self.last.phase, self.last.deadline = phase, self.now + TERMS[window]

    def advance(self) -> None:
        r = self.last
        need(r.phase == AGGREGATE and self.now > r.deadline, "results: nothing to advance")
        if r.fallback:
            r.phase, r.deadline = VOID, 0
            self.escrow += REWARD
            self.carried, self.for_trainers = self.pool - REWARD, self.alone
        else:
            r.fallback = True
            self._enter(AGGREGATE, "aggregate_s")

    def propose(self, node: int, listed: list[int], contributions: list[int]) -> None:
        r = self.last
        late = self.now > r.deadline
        need(r.phase == AGGREGATE and not (late and r.fallback), "results: not in aggregate")
        r.fallback |= late
        r.proposer, r.listed, r.contributions = node, listed, contributions
        self._enter(CHALLENGE, "challenge_s")

    def attest(self, verifier: int) -> None:
        r = self.last
        need(r.phase == CHALLENGE, "results: not in challenge")
        need(self.now <= r.deadline, "results: too late")
        need(verifier not in r.attesters, "results: already attested")
        r.attesters.append(verifier)

    def can_finalize(self) -> bool:
        r = self.last
        if r.phase != CHALLENGE:
            return False
        attested = sum(self.weights[v] for v in r.attesters)
        early = self.now + TERMS["challenge_s"] // 2 < r.deadline
        enough = 3 if early else 2
        return self.now > r.deadline or 3 * attested >= enough * self.stake

    # Scores

    def commit_by(self, r: Round) -> int:
        """The same for all, whoever commits first."""
        return r.begun + TERMS["aggregate_s"] + COMMIT_S if r.begun and self.adopted else 0

    def awaited(self, r: Round) -> bool:
        """Nobody has committed, and somebody may."""
        here = self.adopted and not self.book.paused and not r.scoring.commitments
        return here and self.now <= self.commit_by(r)

    def phase(self, s: Scoring) -> int:
        if not s.commitments:
            return NO_SCORES
        if s.closed:
            return SCORE_CLOSED
        missing = set(self.weights) - set(s.commitments)
        return SCORE_COMMIT if missing and self.now <= s.commit_deadline else SCORE_REVEAL

    def over(self, s: Scoring) -> bool:
        """Whether a scoring waits for nobody."""
        if self.phase(s) != SCORE_REVEAL:
            return False
        return self.now > s.reveal_deadline or len(s.rows) == len(s.commitments)

    def adopt(self) -> None:
        need(not self.adopted, "scores: already adopted")
        need(not self.rounds, "scores: round opened")
        self.adopted = True

    def post_samples(self, node: int, digest: bytes) -> None:
        need(self.adopted, "scores: not adopted")
        need(self.running, "scores: round not running")
        need(self.phase(self.last.scoring) not in (SCORE_REVEAL, SCORE_CLOSED), "scores: too late")
        need(self.now <= self.commit_by(self.last), "scores: too late")
        need(node not in self.last.samples, "scores: already posted")
        self.last.samples[node] = digest

    def commit(self, verifier: int, row: Row) -> None:
        need(self.adopted, "scores: not adopted")
        need(self.running, "scores: round not running")
        s = self.last.scoring
        need(verifier not in s.commitments, "scores: already committed")
        if not s.commitments:
            need(not self.book.paused, "pausing: paused")
            need(self.now <= self.commit_by(self.last), "scores: too late")
            s.commit_deadline = self.commit_by(self.last)
            s.reveal_deadline = s.commit_deadline + REVEAL_S
        else:
            need(self.phase(s) == SCORE_COMMIT, "scores: too late")
        s.commitments[verifier] = row
        if set(s.commitments) == set(self.weights):
            s.reveal_deadline = self.now + REVEAL_S

    def reveal(self, verifier: int, row: Row) -> None:
        s = self.last.scoring
        need(self.phase(s) == SCORE_REVEAL, "scores: not in reveal")
        need(self.now <= s.reveal_deadline, "scores: too late")
        need(verifier not in s.rows, "scores: already revealed")
        need(s.commitments.get(verifier) == row, "scores: bad opening")
        need(len(row) == len(self.last.nodes), "scores: wrong length")
        need(max(row, default=0) <= SCALE, "scores: score too high")
        need(sum(row) <= SCALE, "scores: sum too high")
        s.rows[verifier] = row

    def right_consensus(self) -> list[int]:
        rows = self.last.scoring.rows
        if not rows:
            return [0] * len(self.last.nodes)
        return median(list(rows.values()), [self.weights[v] for v in rows], self.stake)

    def close(self, consensus: list[int]) -> None:
        s = self.last.scoring
        need(bool(s.commitments), "scores: not open")
        need(not s.closed, "scores: closed")
        need(self.over(s), "scores: not over")
        need(self.running, "scores: round not running")
        need(consensus == self.right_consensus(), "scores: not the median")
        s.closed, s.consensus = True, consensus
        if sum(consensus):
            self.last_scored = len(self.rounds)
            for verifier in s.commitments:
                self._judge(verifier)
        s.best = max((self.trusts.get(v, 0) for v in s.rows), default=0)

    def _judge(self, verifier: int) -> None:
        s, agreement = self.last.scoring, 0
        row = s.rows.get(verifier, ())
        if sum(row):
            common = sum(map(min, row, s.consensus))
            agreement = BPS * common // max(sum(row), sum(s.consensus))
        old = self.trusts.get(verifier)
        self.trusts[verifier] = agreement if old is None else (7 * old + 3 * agreement) // 10

    # Money

    def factor(self, verifier: int) -> int:
        s = self.last.scoring
        if not self.adopted or (not s.commitments and self.book.paused):
            return BPS
        if verifier not in s.rows:
            return 0
        if not sum(s.consensus) or not s.best:
            return BPS
        return BPS * self.trusts[verifier] ** 3 // s.best**3

    def finalize(self) -> None:
        need(self.can_finalize(), "results: not finalizable")
        r = self.last
        need(not r.scoring.commitments or r.scoring.closed, "scores: open")
        need(not self.awaited(r), "scores: open")
        r.phase, r.deadline = FINALIZED, 0
        cut_from = self.pool - self.alone
        cuts = [(r.proposer, cut_from * TERMS["aggregator_bps"] // BPS)]
        attested = sum(self.weights[v] for v in r.attesters)
        own, shared, by_trust = {}, 0, 0
        for verifier in r.attesters:
            part = cut_from * TERMS["verifier_bps"] // BPS * self.weights[verifier] // attested
            own[verifier] = part * self.factor(verifier)
            shared += part if self.factor(verifier) else 0
            by_trust += own[verifier]
        for verifier, part in own.items():
            cuts.append((verifier, part * shared // by_trust if part else 0))
        amount = self.pool - sum(cut for _, cut in cuts)
        parts = {node: r.contribution(node) for node in r.listed}
        if sum(r.scoring.consensus):
            parts = r.shares  # also of those that the result leaves out
        elif self.last_scored:
            stood = self.rounds[self.last_scored - 1].shares
            by_standing = {node: stood.get(node, 0) for node in r.listed}
            parts = by_standing if sum(by_standing.values()) else parts
        total = sum(parts.values())
        shares = {node: amount * part // total for node, part in parts.items() if part}
        pay = [(node, units) for node, units in shares.items() if node not in r.invalid]
        # Every report is pending here: nobody executes or appeals one.
        aside = sum(shares[node] for node in r.invalid & shares.keys())
        paid = sum(units for _, units in (*cuts, *pay))
        assert paid <= self.pool
        for node, units in (*cuts, *pay):
            self.book.credit(node, units)
        unpaid = self.pool - paid - aside
        kept = unpaid if r.invalid else min(unpaid, self.pool - REWARD)
        self.carried += kept
        self.for_trainers += kept
        self.escrow += unpaid - kept
        self.paid += paid
        self.aside += aside
