# SPDX-License-Identifier: Apache-2.0
"""Trainers' benchmark scores, as the registry keeps them.

Rule: a score is that of the newest attempt that passed. It is nothing once it has expired, and once
the committee found the pass false.
"""

from __future__ import annotations

from typing import Any

from agents.audit.sources.record import Record, place
from agents.protocol import formulas
from agents.protocol.numbers import SCORE_PERIODS
from agents.runtime.contracts import Event


class BenchmarkScores:
    """Each node's score, and when it was given."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._given: dict[int, tuple[int, int]] = {}

    def passed(self, node: int, units: int, elapsed: int, at: Event) -> None:
        """An attempt with so many units in so many seconds was settled as right."""
        self._given[node] = formulas.benchmark_score(units, elapsed), self._record.time(at)

    def reset(self, node: int, at: Event) -> None:
        """The committee found a pass false."""
        self._given[node] = 0, self._record.time(at)

    def of(self, node: int, now: int, parameters: Any) -> int:
        """A node's score at a time, under the registry's parameters then, None before there were
        any."""
        score, given = self._given.get(node, (0, 0))
        lasts = 0 if parameters is None else SCORE_PERIODS * parameters.unbonding_period
        return score if now < given + lasts else 0


def scores_before(record: Record, at: Event) -> BenchmarkScores:
    """The scores that stood when an event happened, by what attempts and verdicts said of
    themselves; whether these are right, `agents.audit.chain.benchmarks` looks at."""
    found = BenchmarkScores(record)
    answers: dict[tuple[int, int], tuple[int, int]] = {}  # units and seconds
    raised: set[tuple[int, int]] = set()
    names = ("BenchmarkSubmitted", "BenchmarkSettled", "VerdictOverruled", "FalseBenchmarkSlashed")
    for event in record.all(*names):
        if place(event) >= place(at):
            break
        args = event.args
        node, attempt = args["node_id"], (args["node_id"], args["attempt"])
        if event.name == "BenchmarkSubmitted":
            answers[attempt] = args["units"], args["elapsed"]
        elif event.name == "BenchmarkSettled":
            if args["passed"] and attempt in answers:
                raised.add(attempt)
                found.passed(node, *answers[attempt], event)
        elif event.name == "VerdictOverruled":
            if args["passed"]:
                found.reset(node, event)
        elif attempt in raised:
            found.reset(node, event)
    return found
