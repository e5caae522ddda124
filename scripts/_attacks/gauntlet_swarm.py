# SPDX-License-Identifier: Apache-2.0
"""A swarm whose rounds are paid by the score `gauntlet`: three validators measure, rate and agree.

Validators check norms, draw, measure, rate and score; the median of their vectors pays the round,
and `select` says who is merged into the next model. All measure alike, so a measurement is made
once and used by every validator that makes the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.gauntlet.draw import round_seed
from agents.gauntlet.primary_evaluation import Measured, Yardstick, median_norm
from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.replay import digest_of_record, drawn, follow, scores_of
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.median import stake_median
from agents.rounds.plan import Plan
from agents.training.norms import norm
from agents.training.state import State, model_hash
from scripts._attacks.swarm import DEVICE, Swarm

VALIDATORS = 3


@dataclass
class GauntletSwarm(Swarm):
    """`records`: the newest of each validator. `standing`: shares of the newest scored round.

    `measured`: what was found in the round, by who was measured. `vectors`: of the newest round, by
    validator.
    """

    records: list[ScoreRecord | None] = field(default_factory=lambda: [None] * VALIDATORS)
    standing: dict[int, int] = field(default_factory=dict)
    measured: dict[frozenset[int], Mapping[int, Measured]] = field(default_factory=dict)
    vectors: dict[int, list[int]] = field(default_factory=dict)

    @property
    def options(self) -> Gauntlet:
        assert isinstance(self.job.score, Gauntlet)
        return self.job.score

    def settled(self, plan: Plan, sent: Mapping[int, State]) -> tuple[Mapping[int, int], State]:
        """By the validators' median; the newest scored round pays one that nobody scored."""
        plausible = self.options.plausible_norms({n: norm(u) for n, u in sent.items()})
        self.measured.clear()
        for index in range(VALIDATORS):
            had = plausible - self.lost(index)
            self.vectors[index] = self._vector(index, plan, sent, had)
        rows = [self.vectors[index] for index in range(VALIDATORS)]
        shares = stake_median(rows, [1] * VALIDATORS, VALIDATORS)
        merged_by = self.options.select(sorted(plausible), self.standing)
        if any(shares):
            self.standing = dict(zip(self.nodes, shares, strict=True))
        paying = self.standing or dict.fromkeys(self.nodes, 1)
        return paying, self.job.merge([sent[node] for node in merged_by])

    def lost(self, index: int) -> frozenset[int]:
        """Nodes whose payloads a validator does not get in time: none."""
        return frozenset()

    def _yardstick(self, plan: Plan, sent: Mapping[int, State]) -> Yardstick:
        """The round's measure."""
        return Yardstick(
            job=self.job,
            options=self.options,
            plan=plan,
            before=self.state,
            length=median_norm(sent.values()),
            seed=round_seed(self.word("audit")),
            device=DEVICE,
            history=self.history[: self.options.history],
        )

    def _vector(
        self, index: int, plan: Plan, sent: Mapping[int, State], had: set[int]
    ) -> list[int]:
        """What one validator commits to, of the payloads that it can use; its record is kept."""
        previous = self.records[index]
        usable = [node for node in self.nodes if node in had]
        others = [node for node in self.nodes if node not in had]
        audit_seed = self.word("audit")
        due, last = drawn(audit_seed, previous, usable, others, self.options)
        if frozenset(due) not in self.measured:
            measure = self._yardstick(plan, {node: sent[node] for node in usable})
            self.measured[frozenset(due)] = measure.measure({node: sent[node] for node in due})
        found = self.measured[frozenset(due)]
        lines = [
            self._line(
                node,
                node in had,
                node in due or node in last,
                self.stated(index, node, found),
            )
            for node in self.nodes
        ]
        ratings = follow(previous, lines, self.options)
        scores = scores_of(lines, ratings, self.options)
        scored = [
            line.model_copy(update={"score": score})
            for line, score in zip(lines, scores, strict=True)
        ]
        self.records[index] = ScoreRecord(
            job=1,
            round=self.number + 1,
            verifier=90 + index,
            position=self.number,
            previous=None if previous is None else digest_of_record(previous.to_bytes()).hex(),
            audit_seed=audit_seed.hex(),
            model=model_hash(self.state).hex(),
            scores=scored,
            ratings=ratings,
        )
        return scores

    def stated(self, index: int, node: int, found: Mapping[int, Measured]) -> Measured | None:
        """What a validator writes down of a node: what it has measured."""
        return found.get(node)

    def _line(
        self, node: int, usable: bool, evaluated: bool, measured: Measured | None
    ) -> NodeScore:
        measured = measured or Measured(None, None, None)
        return NodeScore(
            node=node,
            failure=measured.reason if usable else "unusable",
            usable=usable,
            sync=0,
            evaluated=evaluated,
            assigned=measured.assigned,
            random=measured.random,
            expected=measured.expected,
            shown=measured.shown,
            extra=measured.extra,
            score=0,
        )
