# SPDX-License-Identifier: Apache-2.0
"""A second, plain statement of the rules of ScoreConsensus, and of what the reward pool makes of
them, for one job whose rounds start in AGGREGATE: each method answers None and changes the model,
or gives the reason why the call must revert.

Scores are kept as they were revealed, by verifier; nothing is packed, and medians are searched."""

from __future__ import annotations

from dataclasses import dataclass, field

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
from tests.stage.contracts.system import (
    AGGREGATE,
    CHALLENGE,
    FINALIZED,
    NONE,
    REWARD,
    TERMS,
    VOID,
)

OPEN_BIT = 2
Row = tuple[int, ...]


@dataclass
class Book:
    """What all jobs share: what was credited, by node id, and whether opening is paused."""

    pending: dict[int, int] = field(default_factory=dict)
    paused: bool = False

    def credit(self, node: int, amount: int) -> None:
        self.pending[node] = self.pending.get(node, 0) + amount


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
    """One job. `now` is set before each call; `stakes` are those of the verifiers."""

    book: Book
    stakes: dict[int, int]
    escrow: int
    adopted: bool
    now: int = 0
    rounds: list[Round] = field(default_factory=list)
    trusts: dict[int, int] = field(default_factory=dict)
    last_scored: int = 0
    paid: int = 0

    @property
    def last(self) -> Round:
        return self.rounds[-1] if self.rounds else Round()

    @property
    def stake(self) -> int:
        return sum(self.stakes.values())

    @property
    def running(self) -> bool:
        return self.last.phase in (AGGREGATE, CHALLENGE)

    # Rounds, as far as they matter here

    def open(self, nodes: list[int]) -> str | None:
        if self.last.phase not in (NONE, FINALIZED, VOID):
            return "jobs: round open"
        if self.escrow < REWARD:
            return "pool: escrow too low"
        self.escrow -= REWARD
        self.rounds.append(Round(nodes=nodes))
        self._enter(AGGREGATE, "aggregate_s")
        return None

    def _enter(self, phase: int, window: str) -> None:
        self.last.phase, self.last.deadline = phase, self.now + TERMS[window]

    def advance(self) -> str | None:
        r = self.last
        if r.phase != AGGREGATE or self.now <= r.deadline:
            return "results: nothing to advance"
        if r.fallback:
            r.phase, r.deadline = VOID, 0
            self.escrow += REWARD
        else:
            r.fallback = True
            self._enter(AGGREGATE, "aggregate_s")
        return None

    def propose(self, node: int, listed: list[int], contributions: list[int]) -> str | None:
        r = self.last
        if r.phase == AGGREGATE and self.now > r.deadline and r.fallback:
            return "results: not in aggregate"
        if r.phase != AGGREGATE:
            return "results: not in aggregate"
        if self.now > r.deadline:
            r.fallback = True
        r.proposer, r.listed, r.contributions = node, listed, contributions
        self._enter(CHALLENGE, "challenge_s")
        return None

    def attest(self, verifier: int) -> str | None:
        r = self.last
        if r.phase != CHALLENGE:
            return "results: not in challenge"
        if self.now > r.deadline:
            return "results: too late"
        if verifier in r.attesters:
            return "results: already attested"
        r.attesters.append(verifier)
        return None

    def can_finalize(self) -> bool:
        r = self.last
        if r.phase != CHALLENGE:
            return False
        attested = sum(self.stakes[v] for v in r.attesters)
        return self.now > r.deadline or 3 * attested >= 2 * self.stake

    # Scores

    def phase(self, s: Scoring) -> int:
        if not s.commitments:
            return NO_SCORES
        if s.closed:
            return SCORE_CLOSED
        missing = set(self.stakes) - set(s.commitments)
        return SCORE_COMMIT if missing and self.now <= s.commit_deadline else SCORE_REVEAL

    def over(self, s: Scoring) -> bool:
        """Whether a scoring waits for nobody."""
        if self.phase(s) != SCORE_REVEAL:
            return False
        return self.now > s.reveal_deadline or len(s.rows) == len(s.commitments)

    def adopt(self) -> str | None:
        if self.adopted:
            return "scores: already adopted"
        if self.rounds:
            return "scores: round opened"
        self.adopted = True
        return None

    def post_samples(self, node: int, digest: bytes) -> str | None:
        if not self.adopted:
            return "scores: not adopted"
        if not self.running:
            return "scores: round not running"
        if self.phase(self.last.scoring) in (SCORE_REVEAL, SCORE_CLOSED):
            return "scores: too late"
        if node in self.last.samples:
            return "scores: already posted"
        self.last.samples[node] = digest
        return None

    def commit(self, verifier: int, row: Row) -> str | None:
        if not self.adopted:
            return "scores: not adopted"
        if not self.running:
            return "scores: round not running"
        s = self.last.scoring
        if verifier in s.commitments:
            return "scores: already committed"
        if not s.commitments:
            if self.book.paused:
                return "pausing: paused"
            if self.now > self.last.deadline:
                return "scores: too late"
            s.commit_deadline = self.now + COMMIT_S
            s.reveal_deadline = s.commit_deadline + REVEAL_S
        elif self.phase(s) != SCORE_COMMIT:
            return "scores: too late"
        s.commitments[verifier] = row
        if set(s.commitments) == set(self.stakes):
            s.reveal_deadline = self.now + REVEAL_S
        return None

    def reveal(self, verifier: int, row: Row) -> str | None:
        s = self.last.scoring
        if self.phase(s) != SCORE_REVEAL:
            return "scores: not in reveal"
        if self.now > s.reveal_deadline:
            return "scores: too late"
        if verifier in s.rows:
            return "scores: already revealed"
        if s.commitments.get(verifier) != row:
            return "scores: bad opening"
        if len(row) != len(self.last.nodes):
            return "scores: wrong length"
        if any(score > SCALE for score in row):
            return "scores: score too high"
        if sum(row) > SCALE:
            return "scores: sum too high"
        s.rows[verifier] = row
        return None

    def right_consensus(self) -> list[int]:
        rows = self.last.scoring.rows
        if not rows:
            return [0] * len(self.last.nodes)
        return median(list(rows.values()), [self.stakes[v] for v in rows], self.stake)

    def close(self, consensus: list[int]) -> str | None:
        s = self.last.scoring
        if not s.commitments:
            return "scores: not open"
        if s.closed:
            return "scores: closed"
        if not self.over(s):
            return "scores: not over"
        if not self.running:
            return "scores: round not running"
        if consensus != self.right_consensus():
            return "scores: not the median"
        s.closed, s.consensus = True, consensus
        if sum(consensus):
            self.last_scored = len(self.rounds)
            for verifier in s.commitments:
                self._judge(verifier)
        s.best = max((self.trusts.get(v, 0) for v in s.rows), default=0)
        return None

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
        return BPS * self.trusts[verifier] // s.best

    def finalize(self) -> str | None:
        if not self.can_finalize():
            return "results: not finalizable"
        r = self.last
        if r.scoring.commitments and not r.scoring.closed:
            return "scores: open"
        r.phase, r.deadline = FINALIZED, 0
        cuts = [(r.proposer, REWARD * TERMS["aggregator_bps"] // BPS)]
        attested = sum(self.stakes[v] for v in r.attesters)
        for verifier in r.attesters:
            cut = REWARD * TERMS["verifier_bps"] // BPS * self.stakes[verifier] // attested
            cuts.append((verifier, cut * self.factor(verifier) // BPS))
        amount = REWARD - sum(cut for _, cut in cuts)
        payable = [n for n in r.listed if n not in r.invalid and r.contribution(n)]
        if sum(r.scoring.consensus):
            total = sum(r.scoring.consensus)
            pay = [(node, amount * r.shares[node] // total) for node in payable]
        else:
            total = sum(r.contribution(n) for n in payable)
            pay = [(node, amount * r.contribution(node) // total) for node in payable]
        paid = sum(units for _, units in (*cuts, *pay))
        assert paid <= REWARD
        for node, units in (*cuts, *pay):
            self.book.credit(node, units)
        self.escrow += REWARD - paid
        self.paid += paid
        return None
