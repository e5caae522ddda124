# SPDX-License-Identifier: Apache-2.0
"""Many nodes of a gauntlet job, rated and paid for many rounds: real rules, made-up measurements.

Rule: draw, ratings and shares are `agents.gauntlet.replay`'s. What a validator measures is drawn
from what it measured of small models (`tests.measure.studies.gauntlet_pay`, `signs`): of nodes that
trained, and of nodes that sent their last payload again. So there may be many more nodes than are
evaluated in a round, which real training makes too dear.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from agents.gauntlet.draw import NEW
from agents.gauntlet.ratings import MICRO
from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.replay import digest_of_record, drawn, follow, scores_of
from agents.mechanisms.score.gauntlet import Gauntlet

# Mean and standard deviation: the work shown on assigned batches and on extra ones, which nobody
# trains on here, then the LossScore over the usual one.
TRAINED = (0.5, 0.26), (0.01, 0.28), (0.85, 0.32)
IDLE = (0.05, 0.29), (0.03, 0.27), (0.32, 0.6)
_KNOWN = 10  # rounds in which everybody works first: a rating has to be earned
_USUAL = 1_000_000  # nano-nats a token, of a LossScore

# Whether a node trains in a round, from its id, the round and the rounds since its evaluation.
Works = Callable[[int, int, int], bool]


@dataclass
class Population:
    """Nodes, from 1 on. `joined`: the first round of those that come later than round 0.

    `pay` is in fair shares of a round, `worked` in rounds, both by node.
    """

    count: int
    works: Works
    seed: int = 0
    options: Gauntlet = field(default_factory=Gauntlet)
    joined: Mapping[int, int] = field(default_factory=dict)
    number: int = 0
    record: ScoreRecord | None = None
    standing: Mapping[int, float] = field(default_factory=dict)
    pay: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    worked: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            self.round()

    def round(self) -> None:
        """Train or rest, be drawn, be rated, be paid."""
        nodes = [n for n in range(1, self.count + 1) if self.joined.get(n, 0) <= self.number]
        audit_seed = hashlib.sha256(f"audit {self.seed} {self.number}".encode()).digest()
        lines = self.record.ratings if self.record else []
        unseen = {line.node: line.unseen for line in lines}
        trained = {n for n in nodes if self.works(n, self.number, unseen.get(n, NEW))}
        due, _ = drawn(audit_seed, self.record, nodes, [], self.options)
        measured = [self._line(node, node in trained, node in due) for node in nodes]
        ratings = follow(self.record, measured, self.options)
        scores = scores_of(measured, ratings, self.options)
        if any(scores):
            self.standing = dict(zip(nodes, scores, strict=True))
        paying = {n: self.standing.get(n, 0.0) for n in nodes} if self.standing else {}
        total = sum(paying.values())
        for node in nodes:
            part = paying[node] / total if total else 1 / len(nodes)
            self.pay[node] += part * len(nodes)
            self.worked[node] += node in trained
        self.record = ScoreRecord(
            job=1,
            round=self.number + 1,
            verifier=90,
            position=self.number,
            previous=digest_of_record(self.record.to_bytes()).hex() if self.record else None,
            audit_seed=audit_seed.hex(),
            model="ab" * 32,
            scores=[
                line.model_copy(update={"score": score})
                for line, score in zip(measured, scores, strict=True)
            ],
            ratings=ratings,
        )
        self.number += 1

    def _line(self, node: int, trained: bool, evaluated: bool) -> NodeScore:
        """The same measurement of a node and round, whoever is drawn and whatever others do."""
        random = np.random.default_rng([self.seed, self.number, node])
        work, more, value = (
            float(np.clip(mean + spread * random.normal(), -1, 1))
            for mean, spread in (TRAINED if trained else IDLE)
        )
        return NodeScore(
            node=node,
            failure="",
            usable=True,
            sync=0,
            evaluated=evaluated,
            assigned=0 if evaluated else None,
            random=round(value * _USUAL) if evaluated else None,
            expected=0 if evaluated else None,
            shown=round(work * MICRO) if evaluated else None,
            extra=round(more * MICRO) if evaluated else None,
            score=0,
        )


def stops_at(others: int, last: int) -> Works:
    """Nodes up to `others` do not work from round `last` on."""
    return lambda node, number, unseen: node > others or number < last


def rests(others: int, rounds: int) -> Works:
    """Nodes up to `others` do not work for so many rounds after an evaluation."""
    return lambda node, number, unseen: node > others or number < _KNOWN or unseen >= rounds


def played(
    works: Works, seeds: int, rounds: int, nodes: int, options: Gauntlet
) -> list[Population]:
    found = []
    for seed in range(seeds):
        population = Population(nodes, works, seed, options)
        population.play(rounds)
        found.append(population)
    return found


def earned(runs: Sequence[Population], others: int) -> tuple[float, float]:
    """A round's work and pay of nodes up to `others`, on average."""
    total = len(runs) * others * runs[0].number
    work = sum(run.worked[node] for run in runs for node in range(1, others + 1))
    pay = sum(run.pay[node] for run in runs for node in range(1, others + 1))
    return work / total, pay / total
