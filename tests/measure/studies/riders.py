# SPDX-License-Identifier: Apache-2.0
"""What a node earns under the score `alignment` that resends what is public instead of training.

Ten nodes train the demo's model for real (`tests/stage/memory/public_rounds.py`), in three
settings. One of them, or three, ride in every way of `tests/attacks/riding.py`; they are last in
the list, and the model goes on by the honest merge of all ten. No gain is published, so nobody has
the validation part. Prints, for each setting and over all seeds:

- the pay of each kind of rider in parts of an honest node's, without `history`, with it, and under
  a rule that is only tried here (`tests/measure/studies/public_forms.py`);
- what honest nodes get under the same rules: pairs taken for copies, the spread of pay for equal
  work (standard deviation over mean), the pay of a node that is assigned and makes half or twice
  the steps, and that of one that makes a quarter of the steps it is assigned.

    python -m tests.measure.studies.riders --seeds 3 --folder FOLDER

Asserts nothing. With a folder the rounds are kept there between runs (150 MB for each of nine).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from rich.console import Console
from torch import Tensor

from agents.mechanisms.score import Evidence
from agents.mechanisms.score.alignment import Alignment
from agents.mechanisms.score.parts.peers import UNIT, copies, cosines
from tests.attacks.riding import HISTORY, KINDS, Field, Rests
from tests.measure.rows import text_table
from tests.measure.studies.public_forms import Forms, forms_quality
from tests.stage.memory.public_rounds import (
    FAST,
    SETTINGS,
    SLOW,
    PublicRound,
    Trajectory,
    kept,
)
from tests.stage.memory.ten_trainers import NODES

RIDERS = (1, 3)
_BATCHES = 12
_HALF, _TWICE = 13, 14  # rows of `Field.honest`

# Qualities of what a rule leaves of all nodes' updates [10, n], by their batches.
Judge = Callable[[Tensor, Sequence[int]], Sequence[int]]


class Span:
    """What is left beyond the span of the newest merged updates and the model."""

    def __init__(self, past: Sequence[PublicRound], model: Tensor) -> None:
        known = torch.stack([*[one.merged for one in past[:HISTORY]], model]).double()
        known = known[known.norm(dim=1) > 0]
        values, vectors = torch.linalg.eigh(known @ known.T)
        good = values > 1e-12 * values.max()
        self._axes = ((vectors[:, good] / values[good].sqrt()).T @ known).float()

    def left(self, rows: Tensor) -> Tensor:
        return rows - (rows @ self._axes.T) @ self._axes

    def back(self, rows: Tensor) -> Tensor:
        return rows


class Whole:
    """Nothing is taken out."""

    def left(self, rows: Tensor) -> Tensor:
        return rows

    def back(self, rows: Tensor) -> Tensor:
        return rows


@dataclass(frozen=True)
class Rule:
    """A scoring rule: what it leaves in a round, and how it judges that."""

    name: str
    rests: Callable[[Trajectory, Sequence[PublicRound], Tensor], Rests]
    judge: Judge


def alignment_quality(rows: Tensor, batches: Sequence[int]) -> Sequence[int]:
    """The rule itself, of rows from which what is known has been taken already."""
    evidence = Evidence({}, (0,) * len(rows))
    return Alignment(history=0)([{"a": row} for row in rows], batches, evidence).quality_ppm


RULES = (
    Rule("history 0", lambda made, past, model: Whole(), alignment_quality),
    Rule(f"history {HISTORY}", lambda made, past, model: Span(past, model), alignment_quality),
    Rule("forms", lambda made, past, model: Forms(made.tensors(), past, model), forms_quality),
)


@dataclass
class Account:
    """What nodes earn over the rounds, each of which pays 1, by contributions."""

    judge: Judge
    earned: list[float]

    @classmethod
    def empty(cls, judge: Judge) -> Account:
        return cls(judge, [0.0] * NODES)

    def pay(self, rows: Tensor, batches: Sequence[int] = (_BATCHES,) * NODES) -> None:
        quality = self.judge(rows, batches)
        parts = [own * work for own, work in zip(quality, batches, strict=True)]
        total = sum(parts) or 1
        self.earned = [old + part / total for old, part in zip(self.earned, parts, strict=True)]


def field_of(made: Trajectory, rule: Rule) -> Field:
    """The riders of a trajectory under a rule."""
    rests: list[Rests] = [Whole()]
    for number in range(1, len(made.rounds)):
        rests.append(rule.rests(made, made.rounds[:number][::-1], made.rounds[number].model))
    return Field(made, rests)


def ridden(field: Field, judge: Judge, kind: str, riders: int) -> tuple[float, float]:
    """A rider's pay in parts of an honest node's, and the honest nodes' spread beside it."""
    account, there = Account.empty(judge), NODES - riders
    for number in field.rounds:
        account.pay(torch.cat([field.honest(number)[:there], field.left(kind, number, riders)]))
    honest = statistics.mean(account.earned[:there])
    spread = statistics.pstdev(account.earned[:there]) / honest
    return statistics.mean(account.earned[there:]) / honest, spread


@dataclass(frozen=True)
class Honest:
    """`flags`: pairs of honest nodes that were taken for copies. `spread`: standard deviation of
    the pay for equal work over its mean. `half`, `twice`: pay of a node assigned so much, in parts
    of its pay for the usual work. `seconds`: to find what is left, a round."""

    flags: int
    spread: float
    half: float
    twice: float
    seconds: float


def honest(made: Trajectory, rule: Rule) -> Honest:
    """What ten honest nodes get."""
    started = perf_counter()
    field = field_of(made, rule)
    seconds = (perf_counter() - started) / (len(made.rounds) - 1)
    usual, flags = Account.empty(rule.judge), 0
    for number in field.rounds:
        rows = field.honest(number)[:NODES]
        usual.pay(rows)
        flags += sum(len(same) for same in copies(cosines(gram(rows)), UNIT * 99 // 100)) // 2
    mean = statistics.mean(usual.earned)

    def other(node: int, row: int, batches: int) -> float:
        account = Account.empty(rule.judge)
        for number in field.rounds:
            rows = field.honest(number)[:NODES].clone()
            rows[node] = field.honest(number)[row]
            work = [_BATCHES] * NODES
            work[node] = batches
            account.pay(rows, work)
        gains = [new / old for new, old in zip(account.earned, usual.earned, strict=True)]
        own = gains.pop(node)
        return own / statistics.mean(gains)

    spread = statistics.pstdev(usual.earned) / mean
    half, twice = other(SLOW, _HALF, _BATCHES // 2), other(FAST, _TWICE, _BATCHES * 2)
    return Honest(flags, spread, half, twice, seconds)


def gram(rows: Tensor) -> list[list[int]]:
    """Inner products, each row to 30 bits of its length."""
    unit = rows.double() / rows.double().norm(dim=1, keepdim=True).clamp(min=1e-30)
    return [[round(value * 2**30) for value in row] for row in (unit @ unit.T).tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=_BATCHES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--setting", action="append", choices=[one.name for one in SETTINGS])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=150)
    for setting in SETTINGS:
        if chosen.setting and setting.name not in chosen.setting:
            continue
        paid: dict[tuple[str, str, int], list[float]] = {}
        seen: dict[str, list[Honest]] = {}
        beside: dict[str, list[float]] = {}
        for seed in range(chosen.seeds):
            made = kept(chosen.folder, setting, seed, chosen.rounds, chosen.steps)
            for rule in RULES:
                seen.setdefault(rule.name, []).append(honest(made, rule))
                field = field_of(made, rule)
                for kind in KINDS:
                    for riders in RIDERS:
                        own, spread = ridden(field, rule.judge, kind, riders)
                        paid.setdefault((kind, rule.name, riders), []).append(own)
                        beside.setdefault(rule.name, []).append(spread)
        title = f"{setting.title}; {chosen.rounds} rounds, most of {chosen.seeds} seeds"
        names = [rule.name for rule in RULES]
        heads = [f"{name}, {riders} of 10" for name in names for riders in RIDERS]
        rows = [
            [kind, *(f"{max(paid[kind, name, r]):.2f}" for name in names for r in RIDERS)]
            for kind in KINDS
        ]
        console.print(text_table(title, ["sent", *heads], rows), markup=False)
        table = [
            [
                name,
                str(sum(one.flags for one in seen[name])),
                span([one.spread for one in seen[name]], "%"),
                f"{max(beside[name]):.1%}",
                span([one.half for one in seen[name]]),
                span([one.twice for one in seen[name]]),
                f"{statistics.mean(one.seconds for one in seen[name]):.2f}",
            ]
            for name in names
        ]
        columns = ["honest", "pairs flagged", "spread", "spread beside riders, most"]
        columns += ["half the steps", "twice the steps", "seconds a round"]
        console.print(text_table(title, columns, table), markup=False)


def span(values: Sequence[float], unit: str = "") -> str:
    """Least to most."""
    texts = [f"{value:.1%}" if unit else f"{value:.2f}" for value in (min(values), max(values))]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


if __name__ == "__main__":
    main()
